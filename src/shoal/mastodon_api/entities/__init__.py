"""JSON entities of the Mastodon API and the presenter that fills them."""
