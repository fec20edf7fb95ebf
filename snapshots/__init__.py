"""Frozen slates and signed cursors: what makes pages stable."""
