"""Orders candidates: transparent light formulas and, optionally, a heavy model. No I/O."""
