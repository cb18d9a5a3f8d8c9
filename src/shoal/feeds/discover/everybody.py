"""All members, newest first: found by reading the network through, a bounded part of it for a page.

Nobody keeps a list of all members. Objects lie in the order of their ids, which is that of time, and are read from old to new;
so a page looks at one stretch of time after the other, going back, longer ones where little happened.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

from shoal.core.errors import InvalidInput
from shoal.core.ids import floor_at
from shoal.core.model import Member
from shoal.graph.contract import Cursor, Scanner
from shoal.graph.schema import AnyNode

SCANS = 40
"""Scans of one page: after so many it comes short, and its cursor goes on from there."""
SCANNED = 2_000
"""Objects of one scan."""
_MILLISECOND = floor_at(1_800_000_000_001) - floor_at(1_800_000_000_000)
_STRETCH = 86_400_000 * _MILLISECOND
"""Where a page begins to look: a day."""
_AHEAD_MS = 3_600_000
"""Ids may be ahead of our clock by so much."""

Wanted = Callable[[Member], bool]
MemberState = Literal["active", "pending", "disabled", "silenced", "sensitized", "suspended"]


class Members(NamedTuple):
    """A page, newest first. `next` is the `before` of the page that follows; None at the end."""

    members: list[Member]
    next: int | None


def is_in(member: Member, state: MemberState) -> bool:
    """Whether a member is in a state. Active is one who is neither suspended nor disabled."""
    match state:
        case "active":
            return not (member.suspended or member.disabled)
        case "suspended":
            return member.suspended and not member.pending
        case "pending":
            return member.pending
        case "disabled":
            return member.disabled
        case "silenced":
            return member.silenced
        case "sensitized":
            return member.sensitized
    raise InvalidInput(f"state: one of {', '.join(get_args(MemberState))}, not {state!r}", field="state")


async def page(scanner: Scanner, cursor: Cursor, wanted: Wanted) -> Members:
    """A page of the members who are wanted, with `after < id < before`: the newest of them, or the oldest (`oldest_first`)."""
    return await (_oldest if cursor.oldest_first else _newest)(scanner, cursor, wanted)


async def _oldest(scanner: Scanner, cursor: Cursor, wanted: Wanted) -> Members:
    found: list[Member] = []
    after, ended = cursor.after, False
    for _ in range(SCANS):
        scanned = await scanner.obj_scan(after, SCANNED)
        found += [member for member in _members(scanned, wanted) if member.id < cursor.before]
        ended = len(scanned) < SCANNED or scanned[-1].id >= cursor.before
        if ended or len(found) >= cursor.limit:
            break
        after = scanned[-1].id
    if not found:
        # Nothing was found in what was scanned: the pages above and below it begin where the scan ended.
        return Members(found, None if ended else after)
    found = found[: cursor.limit][::-1]
    return Members(found, found[-1].id)


async def _newest(scanner: Scanner, cursor: Cursor, wanted: Wanted) -> Members:
    high = min(cursor.before, floor_at(time.time_ns() // 1_000_000 + _AHEAD_MS))
    stretch, found, scans, began = _STRETCH, list[Member](), 0, high
    # A page always comes further than it began, or its cursor would lead nowhere.
    while scans < SCANS or high == began:
        scans += 1
        low = max(high - stretch, cursor.after + 1)
        if low >= high:
            return Members(found, None)
        scanned = await scanner.obj_scan(low - 1, SCANNED)
        here = [node for node in scanned if node.id < high]
        if len(here) == SCANNED:
            if stretch > _MILLISECOND:
                # The end of the stretch was not reached, and the newest are there: one with half as much in it.
                stretch = max(min(stretch, here[-1].id - low) // 2, _MILLISECOND)
                continue
            here += await _rest(scanner, here[-1].id, high)
        found += list(_members(here, wanted))[::-1]
        if len(found) > cursor.limit:
            return Members(found[: cursor.limit], found[cursor.limit - 1].id)
        high = low
        if len(here) <= SCANNED // 8:
            stretch *= 4
    return Members(found, high)


async def _rest(scanner: Scanner, after: int, high: int) -> list[AnyNode]:
    """Everything up to the end of a stretch that cannot be shorter."""
    found: list[AnyNode] = []
    while scanned := [node for node in await scanner.obj_scan(after, SCANNED) if node.id < high]:
        found += scanned
        after = scanned[-1].id
    return found


def _members(nodes: list[AnyNode], wanted: Wanted) -> list[Member]:
    return [node for node in nodes if isinstance(node, Member) and wanted(node)]
