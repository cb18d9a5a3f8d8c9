"""The formats of the data of associations, shared by the code that writes it and the code that reads it."""
