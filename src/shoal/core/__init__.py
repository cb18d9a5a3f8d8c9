"""Values and pure rules: no I/O, and nothing of the rest of Shoal."""
