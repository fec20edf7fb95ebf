"""Numbered, forward-only SQL files, applied in order by ``storage.migrate``."""
