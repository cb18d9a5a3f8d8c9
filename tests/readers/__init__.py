"""Several processes on one SQLite file."""
