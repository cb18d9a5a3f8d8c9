"""The contract of stamps, by which several processes know whether what they remember of an object is as it is.

Glossary (`docs/glossary.md`): stamp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol


class Renewal(NamedTuple):
    """The stamps of an object before and after a change in which nobody else had a part. Without one before, it is empty."""

    before: bytes
    after: bytes


class MarkedChange(Protocol):
    """A change that is marked."""

    @property
    def before(self) -> Mapping[int, bytes]:
        """The stamps of what nobody else was changing when it began; empty where there was none."""
        ...


class Stamps(Protocol):
    """One stamp an object, seen by every process: it is new whenever the object may have changed."""

    async def read(self, ids: Sequence[int]) -> dict[int, bytes]:
        """The stamps; an object without one is given one. Those that are being changed are left out. Raises `Unavailable`."""
        ...

    async def begin(self, ids: Sequence[int], *, reading: bool = False) -> MarkedChange:
        """These are about to change; gives what `end` wants. A mark ends by itself when its process died. Raises `Unavailable`.

        `reading`: the stamps from before are as `read` would have given them at the same moment.
        """
        ...

    async def end(self, ids: Sequence[int], begun: MarkedChange | None, *, changed: bool = True) -> dict[int, Renewal]:
        """They have changed, or may have: their stamps are gone. Never fails: what cannot be done now is done later.

        An object that nobody else was changing since `begin` has a new stamp at once, and is in the answer. Where nothing is
        `changed`, it has its stamp from before.
        """
        ...
