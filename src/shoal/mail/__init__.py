"""Mail to members in their language, sent through an SMTP server, or written to a folder during development."""
