"""Where candidate ids come from: one source per file, each a read of one list."""
