"""Live updates to connected viewers: one channel for a network, and in each process a hub that matches updates to viewers."""
