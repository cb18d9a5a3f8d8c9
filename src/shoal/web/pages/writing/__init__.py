"""Posts and comments as members write, edit, schedule and delete them."""
