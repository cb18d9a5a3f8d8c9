"""Files for everybody."""
