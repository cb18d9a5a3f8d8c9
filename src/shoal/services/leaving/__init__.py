"""Deleting one's account: asking for it, coming back, and the deletion of everything that a member has."""
