"""The ranked feed: candidates, scoring, diversity and explanations."""
