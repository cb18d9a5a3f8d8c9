"""Ways to place members: those of the 2006 paper, and those that came after it."""
