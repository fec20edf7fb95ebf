"""Lua scripts for sorted sets, loaded by ``storage.feeds``."""
