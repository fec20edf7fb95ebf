"""Everything that speaks SQL or Redis. Called by every layer above, imports only ``feed``."""
