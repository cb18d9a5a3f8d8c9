"""`shoal placement`: where names live, and how evenly they are spread."""

from __future__ import annotations

from shoal.cli.placement.group import placement

__all__ = ["placement"]
