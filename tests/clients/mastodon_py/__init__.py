"""What Mastodon.py does to a served Shoal, story by story."""
