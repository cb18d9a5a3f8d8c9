"""For you as a list, for clients that know only home and lists: they ask for what stands before the last id that they have.

A list has one reading for each member. What stands before an id is what follows it in that reading; what is newer than an id is
what a new ranking has and the reading has not, which is put in front of it. For example, with a reading of 5, 2, 9:

    first page of two            5 2
    before 2                     9
    newer than 5, ranked 7 2 5   7        the reading is 7, 5, 2, 9 from now on
"""

from __future__ import annotations

from shoal.core.model import MemberList
from shoal.feeds import home
from shoal.feeds.foryou.feed import DEADLINE_SECONDS, MOST_PLACES, keep, kept, new_reading, part
from shoal.feeds.foryou.reading import Reading
from shoal.feeds.merging.pull import check_limit
from shoal.feeds.pipeline import Page
from shoal.feeds.reads import Reads
from shoal.graph.cache.coherence import one_request
from shoal.graph.contract import MAX_TIME, Cursor

FOR_YOU_LIST = 1
"""Its id, which no list that a member makes can have: it is of the first millisecond that ids can say."""
_TITLE = "For you"


def for_you_list(owner: int) -> MemberList:
    """Return the list as a member has it. It is not stored, and has no members."""
    return MemberList(id=FOR_YOU_LIST, owner_id=owner, title=_TITLE)


async def page(reads: Reads, viewer: int, cursor: Cursor, *, deadline: float = DEADLINE_SECONDS) -> tuple[Page, str]:
    """Return a page of the list, and why it is one of the home timeline by time: `off`, `late`, `failed`, or "" for a ranked page.

    A reading is kept for an hour; then a cursor leads to the beginning of a new one. Raises `InvalidInput` for a limit below 1.
    """
    check_limit(cursor)
    with one_request():
        before = await kept(reads, viewer, viewer)
        if before is not None and cursor.before < MAX_TIME and (place := before.place_of(cursor.before)) is not None:
            return await _from(reads, viewer, before, place + 1, cursor.limit), ""
        reading = await new_reading(reads, viewer, deadline=deadline)
        if isinstance(reading, str):
            return await home.page(reads, viewer, cursor, direct=False), reading
        if before is not None and cursor.after:
            fresh = reading.without(before)
            await keep(reads, viewer, fresh.followed_by(before, MOST_PLACES))
            return (await _from(reads, viewer, fresh, 0, cursor.limit))._replace(next=None), ""
        await keep(reads, viewer, reading)
        return await _from(reads, viewer, reading, 0, cursor.limit), ""


async def _from(reads: Reads, viewer: int, reading: Reading, place: int, limit: int) -> Page:
    shown, behind = await part(reads, viewer, reading, place, limit)
    following = reading.part(behind - 1, behind) if behind < len(reading) else []
    return Page([one.entry for one in shown], following[0] if following else None)
