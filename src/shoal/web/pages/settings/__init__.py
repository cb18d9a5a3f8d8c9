"""Settings: a page for each thing that a member decides, in one frame with the way to all of them."""
