"""Parts of a profile: pinned posts, tags, albums."""
