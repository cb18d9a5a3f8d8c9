"""A graph with a memory: remembered reads, when they may be used, and calls that travel together."""
