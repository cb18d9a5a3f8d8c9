"""Backups: a network written to a directory or a bucket as it was at one moment, verified, and brought back."""
