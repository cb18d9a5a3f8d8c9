"""Commands for what a network keeps: taken in, written out, checked, moved."""
