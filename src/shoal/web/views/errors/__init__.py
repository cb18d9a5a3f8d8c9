"""Words about what went wrong: at the field of a form, or on a page of its own."""
