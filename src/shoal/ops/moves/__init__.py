"""Data moved from store to store."""
