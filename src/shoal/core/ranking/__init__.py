"""Ranked feeds as values and arithmetic: terms, recipes, interests, diversity, what was seen."""
