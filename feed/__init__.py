"""The nouns of a ranked feed: queries, candidates, stages, errors, settings. No I/O."""
