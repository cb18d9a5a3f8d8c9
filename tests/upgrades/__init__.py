"""Stores of every schema version that there was, and two versions of Shoal side by side."""
