"""This server, for clients and other programs that meet it for the first time."""
