"""REST and streaming API, compatible with Mastodon: one module per resource."""
