"""Feeds for discovery: trends, popular posts, suggestions of whom to follow, and the directory of members."""
