"""Archives of other networks, taken into one member's account: read, matched, taken in, and as jobs beside the requests."""
