"""Words of the terminal: how commands tell what they found, and read what was typed."""
