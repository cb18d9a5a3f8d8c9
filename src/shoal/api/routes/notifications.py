"""Notifications, markers and conversations."""

from __future__ import annotations

from shoal.api.calls import Route
from shoal.settings import Settings


def routes(_settings: Settings) -> tuple[Route, ...]:
    """The rows."""
    return ()
