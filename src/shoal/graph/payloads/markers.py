"""Up to where a member has read their timelines, and cleared their notifications."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from shoal.core.ids import named
from shoal.graph.contract import Assoc, Reader
from shoal.graph.schema import MARKED

HOME = "home"
NOTIFICATIONS = "notifications"
CLEARED = "notifications cleared"
"""Whatever a member is notified of up to this mark is out of their sight; no client sets it."""


class Mark(NamedTuple):
    """One mark: `time` is when it was set, a snowflake."""

    last_read_id: int = 0
    version: int = 0
    time: int = 0


_decoder: msgspec.msgpack.Decoder[tuple[int, int]] = msgspec.msgpack.Decoder(tuple[int, int])


def mark_id(name: str) -> int:
    """Where the association of a mark leads to."""
    return named("marker", name)


def encode_mark(last_read_id: int, version: int) -> bytes:
    """The data of a mark."""
    return msgspec.msgpack.encode((last_read_id, version))


async def marks(graph: Reader, member: int, names: Iterable[str]) -> dict[str, Mark]:
    """The marks of these names that the member has set; one read."""
    ids = {mark_id(name): name for name in names}
    found = (await graph.assoc_get(member, (MARKED,), list(ids)))[MARKED]
    return {ids[id_]: _mark(assoc) for id_, assoc in found.items()}


def _mark(assoc: Assoc) -> Mark:
    return Mark(*_decoder.decode(assoc.data), assoc.time)
