"""Blocklists of the whole network: what nobody signs up with, and networks that are kept out."""
