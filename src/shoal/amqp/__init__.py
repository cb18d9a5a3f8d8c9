"""The message broker as everybody here needs it who uses one: a connection that comes back, and a question to all at once."""
