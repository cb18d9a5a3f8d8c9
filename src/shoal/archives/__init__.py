"""Readers of the archives that other networks export for their members: one module per format, all yielding records of one type."""
