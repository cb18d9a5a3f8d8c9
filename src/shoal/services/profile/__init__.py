"""Parts of a profile that members arrange: tags, albums."""
