"""The endpoints of moderators and admins."""
