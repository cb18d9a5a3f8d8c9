"""Data of the association between a member and a post that they reported: the ids of their reports, the newest first."""

from __future__ import annotations

from shoal.graph.contract import Assoc

_MOST = 32
"""Reports by one member of one post that are remembered there."""
_SIZE = 8
"""Bytes of an id."""


def encode_reports(newest: int, before: Assoc | None) -> bytes:
    """Return the data with a new report in front of those before it."""
    return (newest.to_bytes(_SIZE) + (before.data if before else b""))[: _MOST * _SIZE]


def reports_of(assoc: Assoc) -> list[int]:
    """Return the ids of the reports."""
    return [int.from_bytes(assoc.data[at : at + _SIZE]) for at in range(0, len(assoc.data), _SIZE)]
