"""Mail to members: written in their language, sent through an SMTP server, or into a folder while one develops."""
