"""Stories in which Mastodon.py uses a served Shoal."""
