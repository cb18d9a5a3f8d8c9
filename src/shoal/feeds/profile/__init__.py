"""What stands on a profile: pinned posts, tags, albums."""
