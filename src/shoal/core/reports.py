"""The value of a report: what a member tells those who look after the network."""

from __future__ import annotations

from shoal.core.model import Node


class Report(Node, frozen=True, tag="report"):
    """A member tells those who look after the network about another."""

    reporter_id: int
    target_id: int
    post_ids: tuple[int, ...] = ()
    comment: str = ""
    category: str = "other"
    forwarded: bool = False
    rule_ids: tuple[str, ...] = ()
    assigned_to: int = 0
    closed_at: int = 0
    """Unix milliseconds; 0 while it is open."""
    closed_by: int = 0
    upheld: bool | None = None
    """Whether moderators found it right; None while it is open, and for one that was closed before they said so."""
