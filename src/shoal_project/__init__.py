"""`shoal project`: keeps plain SQL tables of a network up to date from its event log.

It depends on `shoal`, which never imports it.
"""
