"""The HTTP surface, and nothing else."""
