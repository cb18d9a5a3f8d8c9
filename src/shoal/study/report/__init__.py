"""The report of a study: one page with everything in it, light and dark, that loads nothing from anywhere."""
