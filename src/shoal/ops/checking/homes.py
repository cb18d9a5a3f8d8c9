"""I1: a materialised home timeline equals its definition once events are done.

Two walks of each timeline: the first pages as a reader turns them, over the seam between what is materialised and what is
pulled; and everything above the floor, where nothing is pulled but what is never pushed.

Glossary (`docs/glossary.md`): floor.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence

import numpy as np

from shoal.graph.contract import Cursor
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS
from shoal.ops.checking.invariants import Found
from shoal.ops.checking.report import Finding, Progress
from shoal.ops.checking.scan import Counts, Objects
from shoal.ops.network import AnyNetwork
from shoal.queries import home
from shoal.queries.context import Reads
from shoal.queries.pipeline import Page

MOST_CONNECTED = 50
BY_CHANCE = 200

_ALL = 1_000_000
_PAGES = 3
_PAGE = 40
_LOOKS = 3
"""A timeline is wrong when the same entry differs so often, with all events done in between."""

Read = Callable[[Reads, int, Cursor], Awaitable[Page]]


async def homes(network: AnyNetwork, objects: Objects, counts: Counts, sample: int | None, progress: Progress) -> Found:
    """The warm timelines (`sample` of them by chance, or all); with none warm, those of a sample of members."""
    warm = await network.timelines.members(_ALL)
    chosen = _some(warm, sample) if warm else _sampled(objects, counts, BY_CHANCE if sample is None else sample)
    findings = []
    for at, member in enumerate(chosen, 1):
        difference = await settled_difference(network, member)
        if difference is not None:
            findings.append(Finding(difference, (member,), drop=member))
        if not warm:
            # A check leaves no trace.
            await network.timelines.drop((member,))
        progress("home timelines", at, len(chosen))
    return Found(len(chosen), len(findings), findings)


def _some(members: Sequence[int], most: int | None) -> list[int]:
    chance = random.Random()  # noqa: S311  # a sample guards nothing
    return list(members) if most is None or most >= len(members) else chance.sample(members, most)


def _sampled(objects: Objects, counts: Counts, by_chance: int) -> list[int]:
    """The most and the least connected members, and some by chance."""
    members = objects.members
    degree = np.zeros(len(members), np.int64)
    follows = (counts.atype == FOLLOWS.number) | (counts.atype == FOLLOWED_BY.number)
    at = np.searchsorted(members, counts.id1[follows])
    known = at < len(members)
    np.add.at(degree, at[known], counts.n[follows][known])
    ranked = members[np.argsort(degree, kind="stable")]
    ends = [*ranked[:MOST_CONNECTED].tolist(), *ranked[-MOST_CONNECTED:].tolist()]
    return list(dict.fromkeys([*ends, *_some(members.tolist(), by_chance)]))


async def settled_difference(network: AnyNetwork, member: int) -> str | None:
    """Return the difference that every look finds, with all events done between: others may write between reads."""
    found = await _difference(network, member)
    for _ in range(_LOOKS - 1):
        if not found:
            return None
        await network.settle()
        found &= await _difference(network, member)
    if not found:
        return None
    lacking, extra = ([id_ for id_, missing in found if missing is wanted] for wanted in (True, False))
    return f"the home timeline of {{0}} lacks {_few(lacking)} and has {_few(extra)} too much"


async def _difference(network: AnyNetwork, member: int) -> set[tuple[int, bool]]:
    """Ids that differ, with whether the timeline lacks them."""
    pages = await _compared(network.reads, member, Cursor(limit=_PAGE), _PAGES * _PAGE)
    floor = await network.timelines.floor(member)
    whole = Cursor(after=floor or 0, limit=200)
    return pages | await _compared(network.reads, member, whole, network.timelines.length)


async def _compared(reads: Reads, member: int, cursor: Cursor, most: int) -> set[tuple[int, bool]]:
    shown = await _walked(home.page, reads, member, cursor, most)
    defined = await _walked(home.definition, reads, member, cursor, most)
    wanted = set(defined)
    return {(id_, id_ in wanted) for id_ in wanted.symmetric_difference(shown)}


def _few(ids: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(ids)[:3])) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "") or "nothing"


async def _walked(read: Read, reads: Reads, member: int, cursor: Cursor, most: int) -> list[int]:
    """The first `most` ids, page by page: a page may come short, so pages are not compared one by one."""
    ids: list[int] = []
    before: int | None = cursor.before
    while before is not None and len(ids) < most:
        page = await read(reads, member, cursor._replace(before=before))
        ids += [entry.id for entry in page.entries]
        before = page.next
    return ids[:most]
