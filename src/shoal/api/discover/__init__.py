"""Routes to what a caller did not look for: trends, suggestions, the ranked feed."""
