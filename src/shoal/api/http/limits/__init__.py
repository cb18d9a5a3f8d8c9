"""Bounds on what clients may ask of a server: connections, bytes, requests at a time and in a window, listeners."""
