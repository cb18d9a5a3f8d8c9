"""Endpoints for moderators and admins."""
