"""Logging in, for members and the apps that act for them: OAuth, the authorize page, sessions, signing up."""
