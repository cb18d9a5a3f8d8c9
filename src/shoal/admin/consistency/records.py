"""Checks and repairs of single kinds of records: follow histories, agenda tickets, poll options, emoji and apps.

A follow history is the list of times at which a follow began and ended. Both members store one: the two are equal, and the last
time is an end if the follow has ended. Every object that is due at some time has a ticket, its entry in the schedule (agenda). A
poll option belongs to one poll, and an emoji to one post. Every app is used, or is in the schedule for a later check: older
versions created apps without a ticket.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from shoal.admin.consistency.invariants import MOST, Found, match
from shoal.admin.consistency.scan import Column, Links, Pairs, column, found_in
from shoal.admin.contract import AnyNetwork
from shoal.admin.report import Finding
from shoal.commands import oauth, scheduled_posts
from shoal.core.blocklists import IpBlock
from shoal.core.email import EmailToken
from shoal.core.errors import Unfit
from shoal.core.ids import floor_at, now_ms, shard_of
from shoal.core.kinds import PostKind
from shoal.core.model import (
    DAY_MS,
    RECEIPT_DAYS,
    AccountDeletion,
    App,
    AuthorizationCode,
    Media,
    Poll,
    Post,
    ScheduledPost,
    Token,
)
from shoal.graph.access import association
from shoal.graph.changes import put_on, retry_on_conflict
from shoal.graph.contract import Assoc, AssocOp, AssocRow, Batch
from shoal.graph.kinds import index_names, index_post
from shoal.graph.media import UNUSED_MS
from shoal.graph.payloads.follows import MOST_PERIODS, encode_moments, in_order, moments_until
from shoal.graph.schema import (
    AGENDA,
    ASSOC_TYPES,
    DUE_ON,
    FOLLOWED_BY,
    FOLLOWS,
    INDEXED,
    SHOWS_EMOJI,
    AnyNode,
    AssocType,
    index_id,
)

_HISTORIES_AT_ONCE = 64
_SLACK_MS = 2 * DAY_MS
"""Additional time for which a follow history may exist after the retention period.

Follow histories are deleted once a day, one store after the other.
"""
_OF = {atype.history: atype.number for atype in (FOLLOWS, FOLLOWED_BY)} | {
    atype.number: atype.number for atype in (FOLLOWS, FOLLOWED_BY)
}
"""For each type of a follow's tombstone, the type of the follow: a follow has one type for each direction."""


class FollowHistories:
    """The times at which follows began and ended, as stored in tombstones. Each history takes 56 bytes of memory."""

    def __init__(self, network: AnyNetwork) -> None:
        self._network = network
        self._rows = tuple(array("q") for _ in range(7))

    async def watch(self, page: Sequence[AssocRow]) -> None:
        for row in page:
            if not row.alive and (atype := _OF.get(row.atype)):
                moments = moments_until(row.time, row.data)
                begun = max(moments, default=0)
                ended = -min(moments, default=0)
                values = (row.id1, atype, row.id2, max(begun, 0), max(ended, 0), len(moments), _digest(moments))
                for array_of, value in zip(self._rows, values, strict=True):
                    array_of.append(value)

    def compared(self, links: Links) -> Found:
        """Return the follow histories that contradict the follow or differ between the two members."""
        rows = _Histories.merged(*map(column, self._rows))
        findings = [*_unended(rows, links, FOLLOWS), *_unended(rows, links, FOLLOWED_BY)]
        kept = now_ms() - int(self._network.reads.history_days * DAY_MS) + _SLACK_MS
        findings += _disagreeing(rows, floor_at(kept))
        return Found(len(rows.id1), len(findings), findings[:MOST])


class _Histories(NamedTuple):
    """Columns of follow histories. A history is stored for each of the two members of a follow."""

    id1: Column
    atype: Column
    id2: Column
    begun: Column
    ended: Column
    n: Column
    """The number of times at which the follow began or ended."""
    sums: Column
    """The sum of the hashes of these times."""

    @classmethod
    def merged(cls, id1: Column, atype: Column, id2: Column, *values: Column) -> _Histories:
        """Merge the rows of each history, which may be stored in two tombstones.

        One has the type of the follow, and the other the type that `AssocType.history` names.
        """
        order = np.lexsort((id2, atype, id1))
        id1, atype, id2 = id1[order], atype[order], id2[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = (id1[1:] != id1[:-1]) | (atype[1:] != atype[:-1]) | (id2[1:] != id2[:-1])
        starts = np.nonzero(first)[0]
        begun, ended, n, sums = (each[order] for each in values)
        if len(starts):
            begun, ended = np.maximum.reduceat(begun, starts), np.maximum.reduceat(ended, starts)
            n, sums = np.add.reduceat(n, starts), np.add.reduceat(sums, starts)
        return cls(id1[starts], atype[starts], id2[starts], begun, ended, n, sums)

    def only(self, chosen: NDArray[np.bool_]) -> _Histories:
        return _Histories(*(values[chosen] for values in self))

    @property
    def pairs(self) -> Pairs:
        """For each history, the id of the member for whom it is stored, and the id of the other member."""
        return self.id1, self.id2


def _unended(rows: _Histories, links: Links, atype: AssocType) -> Iterator[Finding]:
    """Yield follow histories that contradict the follow: without an end if it has ended, or with an end if it still exists."""
    histories, alive = rows.only(rows.atype == atype.number), links.of(atype.number)
    matched = match(histories.pairs, (alive.id1, alive.id2))
    name = atype.name.replace("_", " ")
    for at in matched.first[histories.begun[matched.first] > histories.ended[matched.first]]:
        yield _finding(f"the history of '{{0}} {name} {{1}}' has no end, but the follow has ended", histories, int(at))
    one, other = matched.both
    for at in one[histories.ended[one] >= alive.time[other]]:
        yield _finding(
            f"the history of '{{0}} {name} {{1}}' has ended, but the follow still exists", histories, int(at)
        )


def _disagreeing(rows: _Histories, kept: int) -> Iterator[Finding]:
    """Yield follow histories that differ between the two members.

    Differences are ignored if they may be due to the limits on the age and the number of entries.
    """
    here, there = (rows.only(rows.atype == atype.number) for atype in (FOLLOWS, FOLLOWED_BY))
    matched = match(here.pairs, (there.id2, there.id1))
    for words, histories, alone in (
        ("{0} remembers when they followed {1}, but {1} does not", here, matched.first),
        ("{0} remembers when {1} followed them, but {1} does not", there, matched.second),
    ):
        for at in alone[np.maximum(histories.begun[alone], histories.ended[alone]) >= kept]:
            yield _finding(words, histories, int(at))
    one, other = matched.both
    whole = np.maximum(here.n[one], there.n[other]) < 2 * MOST_PERIODS
    for at in one[whole & (here.sums[one] != there.sums[other])]:
        yield _finding("{0} and {1} have different histories of when {0} followed {1}", here, int(at))


def _finding(words: str, histories: _Histories, at: int) -> Finding:
    triple = int(histories.id1[at]), int(histories.atype[at]), int(histories.id2[at])
    seen = int(histories.begun[at]), int(histories.ended[at]), int(histories.sums[at])
    return Finding(words, (triple[0], triple[2]), seen, remember=triple)


def _digest(moments: frozenset[int]) -> int:
    """Return the sum of 56-bit hashes of these times. The sums of two disjoint sets add up to the sum of their union."""
    return sum(hash((moment,)) >> 8 for moment in moments)


async def merge_histories(network: AnyNetwork, findings: Sequence[Finding]) -> None:
    """Store for both members of a follow the union of the two histories that they have stored.

    If a follow exists and its history ends later than the follow began, the follow is ended. If a follow has ended and
    its history lacks the end, the history gets an end just after its last beginning.
    """
    wrong = [finding.remember for finding in findings if finding.remember]
    for start in range(0, len(wrong), _HISTORIES_AT_ONCE):
        await asyncio.gather(
            *(_merge_history(network, *triple) for triple in wrong[start : start + _HISTORIES_AT_ONCE])
        )


async def _merge_history(network: AnyNetwork, id1: int, atype: int, id2: int) -> None:
    ends = ((id1, ASSOC_TYPES[atype], id2), (id2, ASSOC_TYPES[ASSOC_TYPES[atype].inverse], id1))
    moments: set[int] = set()
    goes_on = False
    for end, kind, other in ends:
        alive = await association(network.store, end, kind, other)
        goes_on = goes_on or alive is not None
        moments |= await _moments(network, end, kind, other)
    last = in_order(moments)[-1] if moments else 0
    if last > 0 and not goes_on:
        last = -last - 1
        moments.add(last)
    # The tombstone gets the time of the last end: it does not replace a follow that began later, but adds the history to it.
    at, data = max(1, -last), encode_moments(moments)
    for end, kind, other in ends:
        op = AssocOp(end, kind.number, other, at, alive=False, data=data, plain=True, silent=True)
        batch = Batch(shard_of(end))
        batch.put(op)
        await network.store.commit(batch)


async def _moments(network: AnyNetwork, id1: int, atype: AssocType, id2: int) -> set[int]:
    found = await network.store.assoc_ended(id1, (atype, ASSOC_TYPES[atype.history]), (id2,))
    rows: list[Assoc] = [row for by_id in found.values() for row in by_id.values()]
    return set[int]().union(*(moments_until(row.time, row.data) for row in rows))


class KindIndex:
    """The lists of the index of kinds that must contain each post. A list takes 16 bytes of memory."""

    def __init__(self, kinds: Sequence[PostKind]) -> None:
        self._kinds = {kind.name: kind for kind in kinds}
        self._posts, self._lists = array("q"), array("q")

    def take(self, page: Sequence[AnyNode]) -> None:
        for node in page:
            if isinstance(node, Post) and node.kind:
                names = index_names(node, self._kinds.get(node.kind))
                self._lists.extend(map(index_id, names))
                self._posts.extend(repeat(node.id, len(names)))

    def compared(self, links: Links) -> Found:
        """Return the entries that are missing from lists, or that a post no longer has."""
        stored = links.of(INDEXED.number)
        posts, lists = column(self._posts), column(self._lists)
        matched = match((posts, lists), (stored.id1, stored.id2))
        missing, stale = posts[matched.first].tolist(), stored.id1[matched.second].tolist()
        findings = [Finding("{0} is missing from a list of its kind", (id_,), kind_post=id_) for id_ in missing]
        findings += [
            Finding("{0} is in a list of its kind that does not match it", (id_,), kind_post=id_) for id_ in stale
        ]
        return Found(len(posts) + len(stale), len(findings), findings[:MOST])


async def index_again(network: AnyNetwork, findings: Sequence[Finding]) -> None:
    for id_ in dict.fromkeys(finding.kind_post for finding in findings if finding.kind_post):
        await index_post(network.effects.graph, id_, repair=True)


_AT_ONCE = 16

Ticketed = App | AccountDeletion | IpBlock | Media | Poll | EmailToken | ScheduledPost
"""Types of objects that have a ticket in the schedule."""


class FreshIds:
    """Collects ids that no two objects may share: tickets, poll options and emoji. An id takes 16 bytes of memory."""

    def __init__(self) -> None:
        # Both arrays alternate between the id of an object and the id of its ticket or poll option.
        self._tickets, self._options = array("q"), array("q")
        # For each ticket: 1 if another check reports its absence from the schedule, otherwise 0.
        self._seen_to = array("b")

    def take(self, page: Sequence[AnyNode]) -> None:
        for node in page:
            if isinstance(node, Ticketed) and node.ticket_id:
                self._tickets.extend((node.id, node.ticket_id))
                self._seen_to.append(isinstance(node, App | Media))
            if isinstance(node, Poll):
                for option in node.options:
                    self._options.extend((node.id, option.id))

    def tickets(self, links: Links) -> Found:
        """Return the objects whose ticket is missing from the schedule or belongs to another object there."""
        owners, tickets = _pairs(self._tickets)
        due = links.of(DUE_ON.number)
        # `due.mark` is the hash of the association's data, and the data is the id of the due object.
        expected = np.fromiter((hash(int(id_).to_bytes(8)) for id_ in owners), np.int64, len(owners))
        at = np.minimum(np.searchsorted(due.id1, tickets), max(0, len(due.id1) - 1))
        is_planned = found_in(tickets, due.id1)
        is_right = is_planned & (due.mark[at] == expected) if len(due.id1) else is_planned
        wrong = owners[~is_right & (is_planned | (np.array(self._seen_to) == 0))]
        words = "{0} is not on the agenda and will not be processed when due"
        return Found(len(owners), len(wrong), [Finding(words, (id_,), plan=id_) for id_ in wrong[:MOST].tolist()])

    def shared(self, links: Links) -> Found:
        """Return the ids of poll options that several polls use, and of emoji that several posts use.

        These findings cannot be repaired.
        """
        shown = links.of(SHOWS_EMOJI.number)
        findings = [
            *_shared(*_pairs(self._options), "{0} and {1} share an option id: votes for either count in both"),
            *_shared(shown.id1, shown.id2, "{0} and {1} share an emoji id: both show the reactions to either"),
        ]
        return Found(len(self._options) // 2 + len(shown.id1), len(findings), findings[:MOST])


def _pairs(values: array[int]) -> tuple[Column, Column]:
    pairs = column(values)
    return pairs[::2], pairs[1::2]


def _shared(owners: Column, ids: Column, words: str) -> Iterator[Finding]:
    order = np.lexsort((owners, ids))
    owners, ids = owners[order], ids[order]
    for at in np.nonzero((ids[1:] == ids[:-1]) & (owners[1:] != owners[:-1]))[0]:
        yield Finding(words, (int(owners[at]), int(owners[at + 1])), (int(ids[at]),))


async def renew_tickets(network: AnyNetwork, findings: Sequence[Finding]) -> None:
    """Add the objects of the findings to the schedule with new tickets, at the times at which the objects are due.

    A scheduled post that is more than a day late is not published. Its author is notified instead.
    """
    ids = [finding.plan for finding in findings if finding.plan]
    for start in range(0, len(ids), _AT_ONCE):
        await asyncio.gather(*(_renew_ticket(network, id_) for id_ in ids[start : start + _AT_ONCE]))


async def _renew_ticket(network: AnyNetwork, id_: int) -> None:
    graph = network.effects.graph

    async def attempt() -> None:
        node = (await graph.obj_get((id_,))).get(id_)
        if not isinstance(node, Ticketed) or not node.ticket_id:
            return
        due = await association(graph, node.ticket_id, DUE_ON, AGENDA)
        if due is not None and int.from_bytes(due.data) == id_:
            return
        now = now_ms()
        if isinstance(node, ScheduledPost) and now - node.at >= scheduled_posts.RETRIED_MS:
            # The author may not want the post to be published this late. The ticket is not deleted, because it may
            # belong to another object.
            missed = Unfit("This post was not published on schedule")
            await scheduled_posts.keep_refused(network.writes, replace(node, ticket_id=0), missed, now)
            return
        batch = Batch(shard_of(id_))
        ticket = network.effects.new_id(batch.shard)
        batch.obj_set(replace(node, ticket_id=ticket, version=node.version + 1))
        put_on(batch, ticket, _due_at(node), id_)
        await graph.commit(batch)

    await retry_on_conflict(attempt)


def _due_at(node: Ticketed) -> int:
    """Return the time (Unix ms) at which an object with a ticket is due."""
    match node:
        case ScheduledPost():
            return node.at
        case Poll() | IpBlock() | EmailToken():
            return node.expires_at
        case AccountDeletion():
            return node.done_at + RECEIPT_DAYS * DAY_MS if node.done_at else node.at
        case Media() if node.unused_since:
            return node.unused_since + UNUSED_MS
    return now_ms() + UNUSED_MS


class UnusedApps:
    def __init__(self) -> None:
        self._checked = 0
        self._apps, self._tickets, self._used = array("q"), array("q"), array("q")

    def take(self, page: Sequence[AnyNode]) -> None:
        for node in page:
            if isinstance(node, App):
                self._checked += 1
                if not node.kept:
                    self._apps.append(node.id)
                    self._tickets.append(node.ticket_id)
            elif isinstance(node, Token | AuthorizationCode):
                self._used.append(node.app_id)

    def compared(self, links: Links) -> Found:
        """Return the unused apps whose deletion is not in the schedule."""
        ids = column(self._apps)
        used = found_in(ids, np.unique(column(self._used)))
        planned = found_in(column(self._tickets), np.unique(links.of(DUE_ON.number).id1))
        wrong = ids[~used & ~planned]
        findings = [
            Finding("{0} is unused and has no ticket for its deletion", (id_,), app=id_) for id_ in wrong.tolist()
        ]
        return Found(self._checked, len(findings), findings[:MOST])


async def schedule_app_deletions(network: AnyNetwork, findings: Sequence[Finding]) -> None:
    ids = [finding.app for finding in findings if finding.app]
    for start in range(0, len(ids), _AT_ONCE):
        await asyncio.gather(*(oauth.plan_end(network.writes, id_) for id_ in ids[start : start + _AT_ONCE]))
