"""Feeds that are made of many lists: their newest entries, and those at a position."""
