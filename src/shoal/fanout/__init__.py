"""Consequences of events. They are idempotent and commutative."""
