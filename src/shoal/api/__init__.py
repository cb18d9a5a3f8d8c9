"""The Mastodon-compatible front end."""
