"""`shoal check`: invariants of stored data, and their repair."""
