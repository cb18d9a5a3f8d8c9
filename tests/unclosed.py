"""Unclosed transports: their warning appears in a later test, so it names the test that created the transport."""

from __future__ import annotations

import os
from asyncio import selector_events
from typing import Any


def name_creators() -> None:
    """Add the running test to the representation of each transport."""
    transport: Any = selector_events._SelectorTransport  # type: ignore[attr-defined]
    create, show = transport.__init__, transport.__repr__

    def create_named(self: Any, *of: Any, **named: Any) -> None:
        self.creator = os.environ.get("PYTEST_CURRENT_TEST", "no test")
        create(self, *of, **named)

    transport.__init__ = create_named
    transport.__repr__ = lambda self: f"{show(self)[:-1]} created in {getattr(self, 'creator', 'no test')}>"
