"""Live updates to connected viewers: one log for a network, and in each process a hub that matches it with who is there."""
