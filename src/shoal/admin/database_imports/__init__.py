"""Import of the members, posts and other objects of a product from its database or files, by a map of its tables."""
