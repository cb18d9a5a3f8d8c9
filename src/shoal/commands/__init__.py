"""State changes. Each validates, builds one batch and commits it."""
