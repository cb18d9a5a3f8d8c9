"""Several processes on one SQLite file: one owns it, the others read beside it."""
