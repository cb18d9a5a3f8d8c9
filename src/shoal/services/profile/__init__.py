"""What a member puts on their profile: tags, albums."""
