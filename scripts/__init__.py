"""Development scripts, most of them called by `make`."""
