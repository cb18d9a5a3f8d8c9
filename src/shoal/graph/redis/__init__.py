"""What several processes share on Redis: its servers, and the stamps of what they remember."""
