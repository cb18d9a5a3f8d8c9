"""Relationships over time: when two members followed each other, and how the number of one's followers changed."""
