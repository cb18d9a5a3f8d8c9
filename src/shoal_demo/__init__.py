"""A demo network with people, photos and posts."""
