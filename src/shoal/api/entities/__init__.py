"""The shapes of the Mastodon API, and what is made into them."""
