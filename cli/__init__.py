"""The ``foryou`` command: one file per group of commands."""
