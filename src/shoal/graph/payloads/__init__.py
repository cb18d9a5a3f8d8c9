"""The formats of association data, shared by the code that writes it and the code that reads it."""
