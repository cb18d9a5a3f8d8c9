"""Readers of archives: one module per format, all yielding records of one type."""
