"""Full-text index of posts and members."""
