"""Offline learning: datasets, fitting, metrics, the gate. Grows with the heavy ranker."""
