"""Scenarios (stories) in which members use a served Shoal through Mastodon.py, one function each."""
