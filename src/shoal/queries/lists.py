"""The timeline of a list: posts and shares of its members, pulled from each. The owner must follow its members."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from shoal.core.model import MemberList, Post, RepliesPolicy
from shoal.core.visibility import may_come
from shoal.graph.access import objects_of, own_object
from shoal.graph.cache.coherence import one_request
from shoal.graph.contract import Cursor, Reader
from shoal.graph.schema import FOLLOWS, LISTED_IN, LISTS, OWNS_LIST, POSTED
from shoal.queries.context import Reads
from shoal.queries.hydration import Entry, Row, ViewerState
from shoal.queries.pagination import pull
from shoal.queries.pipeline import NO_CONTENT_FILTERS, Folds, Page, folds_of, read_folded, unfolded

MAX_LISTS = 1_000
MAX_MEMBERS = 1_000
"""`MAX_LISTS` and `MAX_MEMBERS` are above the limits on lists and their members, so that all are read."""


async def page(reads: Reads, viewer: int, list_id: int, cursor: Cursor, *, direct: bool = True) -> Page:
    """Return a page of the timeline of the viewer's own list, with or without direct messages.

    Raises `NotFound` for any other list.
    """
    with one_request():
        shown = await own_object(reads.graph, MemberList, viewer, list_id)
        folds = _folds(reads, viewer, shown, await members_of(reads.graph, shown), direct=direct)
        return await read_folded(folds, cursor, NO_CONTENT_FILTERS)


async def among(reads: Reads, viewer: int, list_id: int, ids: Sequence[int]) -> list[Entry]:
    """Return the entries among `ids` that are in the list now, as `page` would show them, in that order."""
    with one_request():
        shown = await own_object(reads.graph, MemberList, viewer, list_id)
        members = await members_of(reads.graph, shown)
        folds = _folds(reads, viewer, shown, members)
        rows = await _belonging(folds.seen, shown, members, await folds.seen.look(ids))
        return await folds.seen.entries(await unfolded(folds, rows)) if rows else []


def _folds(reads: Reads, viewer: int, shown: MemberList, members: Sequence[int], *, direct: bool = True) -> Folds:
    skeleton = partial(pull, reads.graph, {POSTED: members})

    async def keep(seen: ViewerState, rows: Sequence[Row]) -> list[Row]:
        return await _belonging(seen, shown, members, rows)

    return folds_of(reads, viewer, skeleton, keep, direct=direct)


async def members_of(graph: Reader, shown: MemberList) -> list[int]:
    """Return the members of a list, newest first, without those whom its owner no longer follows, but including the owner."""
    listed = [assoc.id2 for assoc in await graph.assoc_range(shown.id, LISTS, Cursor(limit=MAX_MEMBERS))]
    followed = (await graph.assoc_get(shown.owner_id, (FOLLOWS,), listed))[FOLLOWS]
    return [id_ for id_ in listed if id_ in followed or id_ == shown.owner_id]


async def owned(graph: Reader, member_id: int) -> list[MemberList]:
    listed = await graph.assoc_range(member_id, OWNS_LIST, Cursor(limit=MAX_LISTS, oldest_first=True))
    return await objects_of(graph, MemberList, [assoc.id2 for assoc in listed])


async def with_member(graph: Reader, owner: int, member_id: int) -> list[MemberList]:
    lists = await owned(graph, owner)
    if not lists or (member_id != owner and not (await graph.assoc_get(owner, (FOLLOWS,), (member_id,)))[FOLLOWS]):
        return []
    listed = (await graph.assoc_get(member_id, (LISTED_IN,), [list_.id for list_ in lists]))[LISTED_IN]
    return [list_ for list_ in lists if list_.id in listed]


async def set_apart(graph: Reader, viewer: int) -> frozenset[int]:
    """Return the members whose posts the viewer reads only in an exclusive list."""
    apart = [list_.id for list_ in await owned(graph, viewer) if list_.exclusive]
    listed = await graph.assoc_ranges(apart, LISTS, Cursor(limit=MAX_MEMBERS)) if apart else {}
    return frozenset(assoc.id2 for page in listed.values() for assoc in page)


async def _belonging(seen: ViewerState, shown: MemberList, members: Collection[int], rows: Sequence[Row]) -> list[Row]:
    on_list = frozenset(members)
    answered: Collection[int] = on_list
    if shown.replies is RepliesPolicy.FOLLOWED:
        parents = {post.parent_author_id for _, post, _ in rows if post.parent_author_id}
        answered = (await seen.graph.assoc_get(shown.owner_id, (FOLLOWS,), list(parents)))[FOLLOWS] if parents else ()
    elif shown.replies is RepliesPolicy.NONE:
        answered = ()
    return [row for row in rows if _belongs(seen, shown, on_list, answered, row)]


def _belongs(
    seen: ViewerState, shown: MemberList, members: Collection[int], answered: Collection[int], row: Row
) -> bool:
    _, post, share = row
    by = post.author_id if share is None else share.author_id
    if by not in members:
        return False
    if by != shown.owner_id and not may_come(post, share, seen.relationships[by]):
        return False
    return share is not None or _shows_comment(shown, post, answered)


def _shows_comment(shown: MemberList, post: Post, answered: Collection[int]) -> bool:
    """Return whether a list has a post. A comment must reply to its own author, the list's owner, or a member in `answered`."""
    parent = post.parent_author_id
    return not parent or parent in (post.author_id, shown.owner_id) or parent in answered
