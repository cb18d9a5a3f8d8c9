"""Check ids that have no object: tickets on the agenda, options of polls, and emoji on posts. Repair tickets."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from shoal.commands import scheduled_posts
from shoal.core.blocklists import IpBlock
from shoal.core.email import Proof
from shoal.core.errors import Unfit
from shoal.core.ids import shard_of
from shoal.core.model import DAY_MS, RECEIPT_DAYS, App, Departure, Media, Poll, ScheduledPost
from shoal.graph.access import association
from shoal.graph.changes import put_on, retry_on_conflict
from shoal.graph.contract import Batch
from shoal.graph.media import UNUSED_MS
from shoal.graph.schema import AGENDA, DUE_ON, SHOWS_EMOJI, AnyNode
from shoal.ops.checking.invariants import MOST, Found
from shoal.ops.checking.report import Finding
from shoal.ops.checking.scan import Column, Links, found_in
from shoal.ops.network import AnyNetwork

_AT_ONCE = 16

Ticketed = App | Departure | IpBlock | Media | Poll | Proof | ScheduledPost
"""Kinds of objects that become due."""


class FreshIds:
    """Collects the tickets of objects and the options of polls, 16 bytes for each."""

    def __init__(self) -> None:
        # The owner and the id, in turn.
        self._tickets, self._options = array("q"), array("q")
        # Of each ticket, whether another check finds out that it is not on the agenda.
        self._seen_to = array("b")

    def take(self, page: Sequence[AnyNode]) -> None:
        """Note the ids in these objects."""
        for node in page:
            if isinstance(node, Ticketed) and node.ticket_id:
                self._tickets.extend((node.id, node.ticket_id))
                self._seen_to.append(isinstance(node, App | Media))
            if isinstance(node, Poll):
                for option in node.options:
                    self._options.extend((node.id, option.id))

    def tickets(self, links: Links) -> Found:
        """Find objects whose ticket is not on the agenda, or is there for another object."""
        owners, tickets = _pairs(self._tickets)
        due = links.of(DUE_ON.number)
        # Links have the hash of their data, which is the id of the object that is due.
        wanted = np.fromiter((hash(int(id_).to_bytes(8)) for id_ in owners), np.int64, len(owners))
        at = np.minimum(np.searchsorted(due.id1, tickets), max(0, len(due.id1) - 1))
        is_planned = found_in(tickets, due.id1)
        is_right = is_planned & (due.mark[at] == wanted) if len(due.id1) else is_planned
        wrong = owners[~is_right & (is_planned | (np.array(self._seen_to) == 0))]
        words = "{0} is not on the agenda: nothing happens when it is due"
        return Found(len(owners), len(wrong), [Finding(words, (id_,), plan=id_) for id_ in wrong[:MOST].tolist()])

    def shared(self, links: Links) -> Found:
        """Find options of several polls, and emoji of several posts, that have one id. There is no repair."""
        shown = links.of(SHOWS_EMOJI.number)
        findings = [
            *_shared(*_pairs(self._options), "{0} and {1} have an option with one id: votes for either count in both"),
            *_shared(shown.id1, shown.id2, "{0} and {1} have an emoji with one id: both show the reactions to either"),
        ]
        return Found(len(self._options) // 2 + len(shown.id1), len(findings), findings[:MOST])


def _pairs(values: array[int]) -> tuple[Column, Column]:
    pairs = np.frombuffer(values, np.int64).reshape(-1, 2) if values else np.empty((0, 2), np.int64)
    return pairs[:, 0], pairs[:, 1]


def _shared(owners: Column, ids: Column, words: str) -> Iterator[Finding]:
    order = np.lexsort((owners, ids))
    owners, ids = owners[order], ids[order]
    for at in np.nonzero((ids[1:] == ids[:-1]) & (owners[1:] != owners[:-1]))[0]:
        yield Finding(words, (int(owners[at]), int(owners[at + 1])), (int(ids[at]),))


async def plan_again(network: AnyNetwork, findings: Sequence[Finding]) -> None:
    """Give the objects of these findings new tickets for the moments at which they are due.

    A scheduled post that is more than a day late is not published: its author is notified, and decides.
    """
    ids = [finding.plan for finding in findings if finding.plan]
    for start in range(0, len(ids), _AT_ONCE):
        await asyncio.gather(*(_plan(network, id_) for id_ in ids[start : start + _AT_ONCE]))


async def _plan(network: AnyNetwork, id_: int) -> None:
    graph = network.effects.graph

    async def attempt() -> None:
        node = (await graph.obj_get((id_,))).get(id_)
        if not isinstance(node, Ticketed) or not node.ticket_id:
            return
        held = await association(graph, node.ticket_id, DUE_ON, AGENDA)
        if held is not None and int.from_bytes(held.data) == id_:
            return
        now = time.time_ns() // 1_000_000
        if isinstance(node, ScheduledPost) and now - node.at >= scheduled_posts.RETRIED_MS:
            # Its author may not want it published this late. The ticket that it names may be that of another object.
            missed = Unfit("This post was not published at its time")
            await scheduled_posts.keep_refused(network.writes, replace(node, ticket_id=0), missed, now)
            return
        batch = Batch(shard_of(id_))
        ticket = network.effects.new_id(batch.shard)
        batch.obj_set(replace(node, ticket_id=ticket, version=node.version + 1))
        put_on(batch, ticket, _due_at(node), id_)
        await graph.commit(batch)

    await retry_on_conflict(attempt)


def _due_at(node: Ticketed) -> int:
    """Return the moment (Unix ms) at which an object with a ticket is due."""
    match node:
        case ScheduledPost():
            return node.at
        case Poll() | IpBlock() | Proof():
            return node.expires_at
        case Departure():
            return node.done_at + RECEIPT_DAYS * DAY_MS if node.done_at else node.at
        case Media() if node.unused_since:
            return node.unused_since + UNUSED_MS
    return time.time_ns() // 1_000_000 + UNUSED_MS
