"""Credentials as values: bearer tokens, logins, and what a login is checked with."""
