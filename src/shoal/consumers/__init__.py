"""Consumers of events: fan-out, notifications, cleanup and indexing. They are idempotent and commutative."""
