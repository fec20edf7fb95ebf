"""Benchmarks: one question each, run by ``foryou bench NAME`` (docs/benchmarks.md)."""
