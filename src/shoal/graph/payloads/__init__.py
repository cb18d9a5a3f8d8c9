"""The formats of association data, shared by the code that writes the data and the code that reads it."""
