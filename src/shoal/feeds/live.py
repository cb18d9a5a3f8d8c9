"""The home timeline as it happens: entries that come, change and go, as the viewer may see them at that moment.

It is told of what follows from here on, or since a position; a viewer who may have missed something looks at `feeds/home.py`
again. An edit is told to those who follow the author or a tag of the post; who has it as a share sees it when they look again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence

import msgspec

from shoal.core.visibility import Relation
from shoal.feeds import home
from shoal.feeds.hydrate import Entry
from shoal.feeds.reads import Reads
from shoal.graph.access import relations
from shoal.graph.freshness import one_request
from shoal.streaming.connection import Missed
from shoal.streaming.contract import Position
from shoal.streaming.hub import Hub
from shoal.streaming.replay import Heard
from shoal.streaming.updates import OfEntry, PostCreated, PostDeleted, PostEdited, ShareCreated, ShareDeleted


class _News(msgspec.Struct, frozen=True):
    """What every piece of news has: where to go on from after it."""

    position: str


class Arrived(_News, frozen=True):
    """An entry came to the viewer's home."""

    entry: Entry


class Edited(_News, frozen=True):
    """A post in the viewer's home has other words."""

    entry: Entry


class Removed(_News, frozen=True):
    """The entry with this id is not in the viewer's home any more, if it ever was."""

    id: int


class Refresh(_News, frozen=True):
    """Something may have been missed: the home is to be read again."""


News = Arrived | Edited | Removed | Refresh


async def news(reads: Reads, hub: Hub, viewer: int, after: str | None = None) -> AsyncGenerator[News, None]:
    """Everything that happens in the viewer's home from the first step on, or after the `position` of earlier news.

    Ends when the hub closes. The same may be told twice, and things that were done one soon after the other in another order:
    each says what is so when it is read. Raises `Unavailable`.
    """
    async with hub.connect(viewer, None if after is None else Position(after)) as connection:
        while heard := await connection.take():
            for one in await _read(reads, viewer, heard):
                yield one


async def _read(reads: Reads, viewer: int, heard: Sequence[Heard | Missed]) -> list[News]:
    """All that waited is read together, in as many reads as one would take."""
    updates = [one.update for one in heard if isinstance(one, Heard)]
    shown = [update.entry_id for update in updates if isinstance(update, PostCreated | PostEdited | ShareCreated)]
    with one_request():
        entries = {entry.id: entry for entry in await home.among(reads, viewer, list(dict.fromkeys(shown)))}
        gone = {update.author_id for update in updates if update.entry_id not in entries}
        stands = await relations(reads.graph, viewer, gone)
    found = [
        Refresh(one.position) if isinstance(one, Missed) else _one(one.position, one.update, entries, stands)
        for one in heard
    ]
    return [one for one in found if one is not None]


def _one(
    position: Position, update: OfEntry, entries: Mapping[int, Entry], stands: Mapping[int, Relation]
) -> News | None:
    entry = entries.get(update.entry_id)
    if entry is not None:
        return Edited(position, entry) if isinstance(update, PostEdited) else Arrived(position, entry)
    leaves = isinstance(update, PostDeleted | ShareDeleted) or (isinstance(update, PostEdited) and update.left)
    stand = stands[update.author_id]
    # Of those whom they do not see they hear nothing, not even this.
    return Removed(position, update.entry_id) if leaves and not (stand.severed or stand.muting) else None
