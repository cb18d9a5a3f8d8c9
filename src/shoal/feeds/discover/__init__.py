"""What a viewer has not asked for by name: trends, what is popular, whom to follow, everybody."""
