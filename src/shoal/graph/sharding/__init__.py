"""A graph over several stores, and the shard map that routes to them, also while data moves."""
