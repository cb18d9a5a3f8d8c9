"""Ranked feeds as values and arithmetic: terms, recipes, interests, diversification, seen posts."""
