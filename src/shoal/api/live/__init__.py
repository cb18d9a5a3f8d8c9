"""Live updates: server-sent events and WebSockets."""
