"""Search: what an index keeps, what it is asked, and where it is kept."""
