"""One feed request: the recipe, the runner, filters, rules, the safety check, side effects."""
