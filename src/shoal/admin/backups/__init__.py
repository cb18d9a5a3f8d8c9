"""Backups to a folder or bucket: create, verify, prune and restore."""
