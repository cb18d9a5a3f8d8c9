"""The audit log, as admins read it: a page of the entries that are wanted, newest first.

Entries stand in a list for each data source. The address of an act on one's own account is in a list of the member's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import NamedTuple

from shoal.core.audit import AuditEntry, AuditVerb
from shoal.core.ids import milliseconds_of, shard_of
from shoal.feeds.merging.pull import pull_entries
from shoal.feeds.merging.sparse import look_through
from shoal.graph.contract import Assoc, Cursor, Reader
from shoal.graph.payloads.members import decode_entry
from shoal.graph.schema import AUDITED, PUBLIC_LISTS, public_list

_SEARCHED = 200
"""Entries that are read at once where only some are wanted."""
_EXPORTED = 500


class WantedEntries(NamedTuple):
    """Entries of one actor, about one target, of some acts; None and no verbs: all."""

    actor_id: int | None = None
    """0: nobody who is logged in, or the command line."""
    target_id: int | None = None
    verbs: frozenset[AuditVerb] = frozenset()

    def admits(self, entry: AuditEntry) -> bool:
        """Whether an entry is wanted."""
        return (
            self.actor_id in (None, entry.actor_id)
            and self.target_id in (None, entry.target_id)
            and (not self.verbs or entry.verb in self.verbs)
        )


class DatedEntry(NamedTuple):
    """An entry with its id, and the address that it came from, wherever that is kept."""

    id: int
    entry: AuditEntry
    address: str

    @property
    def at(self) -> int:
        """Return the moment, in Unix milliseconds."""
        return milliseconds_of(self.id)


class AuditPage(NamedTuple):
    """A page, newest first, which may come short. `next` is the `before` of the page that follows; None at the end."""

    entries: list[DatedEntry]
    next: int | None


async def page(graph: Reader, cursor: Cursor, wanted: WantedEntries) -> AuditPage:
    """A page of the entries that are wanted. Raises `InvalidInput` for a limit below 1."""
    at_once = cursor.limit + 1 if wanted == WantedEntries() else max(_SEARCHED, cursor.limit + 1)

    async def read(at: Cursor) -> list[Assoc]:
        return await pull_entries(graph, AUDITED, PUBLIC_LISTS, at)

    async def sift(listed: Sequence[Assoc]) -> list[tuple[Assoc, AuditEntry]]:
        decoded = [(assoc, decode_entry(assoc)) for assoc in listed]
        return [one for one in decoded if wanted.admits(one[1])]

    found, following = await look_through(cursor, at_once, read, sift, lambda one: one[0].id2)
    return AuditPage(await _with_addresses(graph, found), following)


async def everything(graph: Reader) -> AsyncGenerator[DatedEntry, None]:
    """All entries, oldest first; a fixed number of them is in memory at a time."""
    at = Cursor(limit=_EXPORTED, oldest_first=True)
    while listed := await pull_entries(graph, AUDITED, PUBLIC_LISTS, at):
        for one in await _with_addresses(graph, [(assoc, decode_entry(assoc)) for assoc in listed]):
            yield one
        at = at.past(listed[-1].time)


async def own(graph: Reader, member_id: int, listed: Sequence[Assoc]) -> list[DatedEntry]:
    """The entries of a part of a member's own list: acts on their own account, and log-ins that failed."""
    addresses = {assoc.id2: assoc.data.decode() for assoc in listed}
    public = public_list(shard_of(member_id))
    entries = (await graph.assoc_get(public, (AUDITED,), list(addresses)))[AUDITED] if addresses else {}
    return [
        DatedEntry(id_, decode_entry(entries[id_]), address) for id_, address in addresses.items() if id_ in entries
    ]


async def _with_addresses(graph: Reader, found: Sequence[tuple[Assoc, AuditEntry]]) -> list[DatedEntry]:
    """Return entries with their addresses; one read for each member of whom there are some, side by side."""
    held: dict[int, list[int]] = {}
    for assoc, entry in found:
        if entry.holder_id:
            held.setdefault(entry.holder_id, []).append(assoc.id2)
    answers = await asyncio.gather(*(graph.assoc_get(holder, (AUDITED,), ids) for holder, ids in held.items()))
    kept: Mapping[int, str] = {id_: one.data.decode() for answer in answers for id_, one in answer[AUDITED].items()}
    return [DatedEntry(assoc.id2, entry, kept.get(assoc.id2, entry.address)) for assoc, entry in found]
