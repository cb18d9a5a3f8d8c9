"""Values on the pages of settings."""
