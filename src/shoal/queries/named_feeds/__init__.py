"""Named feeds: reading the posts of their sources in the order of time, or ranked by a recipe or an expression."""
