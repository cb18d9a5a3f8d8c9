"""Named feeds: their declarations, the expressions that order them, and the cost of a page."""
