"""Bulk import of members, follows, posts and photos from CSV and JSONL files."""
