"""What the data of associations says, for those who write it and those who read it."""
