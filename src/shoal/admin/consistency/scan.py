"""A whole store in packed arrays: about 33 bytes per association and 17 per object, so 50 MB for a million of each.

Associations that objects imply are collected too: a post must be in its author's list and in the lists of its tags.
"""

from __future__ import annotations

from array import array
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from shoal.admin.report import Progress, Triple
from shoal.core.blocklists import CanonicalEmailBlock, EmailDomainBlock, IpBlock, NameBlock
from shoal.core.bulk_moderation import BulkAction
from shoal.core.email import EmailToken
from shoal.core.external_ids import ExternalLink
from shoal.core.feeds.declarations import NamedFeed
from shoal.core.ids import shard_of
from shoal.core.kinds import PostKind
from shoal.core.model import (
    HALFWAY,
    AccountDeletion,
    Album,
    App,
    AuthorizationCode,
    Media,
    Member,
    Poll,
    Post,
    Revision,
    ScheduledPost,
    Share,
    Token,
)
from shoal.core.publishing import HeldContent
from shoal.core.reactions import StoredReactions
from shoal.core.signup import Invitation
from shoal.core.webhooks import Webhook
from shoal.graph.bulk import FIRST
from shoal.graph.contract import AssocRow, Scanner
from shoal.graph.member_lookup import declared_ids
from shoal.graph.payloads.posts import cell_ids, listings
from shoal.graph.schema import (
    ATTACHED,
    BLOCKS_EMAIL,
    BLOCKS_EMAIL_DOMAIN,
    BLOCKS_IP,
    BLOCKS_NAME,
    BULK_ACTIONS,
    CELL_OF,
    COMMENTS_ON,
    DECLARED_BY,
    EVERYBODY,
    EXPIRING,
    EXTERNAL_IDS,
    HOLDS,
    IN_THREAD,
    KINDS,
    LOGGED_IN,
    OWNS,
    OWNS_ALBUM,
    OWNS_FEED,
    OWNS_INVITATION,
    POSTED,
    POSTED_RESTRICTED,
    POSTED_TO_FOLLOWERS,
    PUBLISHED,
    QUEUED,
    REACTIONS,
    RESTRICTED_COMMENTS_ON,
    REVISED,
    SCHEDULES,
    SERVER_KEYS,
    SHARES,
    TAG_OF,
    WEBHOOKS,
    AnyNode,
    AssocType,
    public_list,
)
from shoal.graph.schema import tag_id as _tag_id

FIRST_TYPE = -(2**15)
"""A number below all association types, with which a scan begins."""

OBJECTS_AT_ONCE = 2_000
ROWS_AT_ONCE = 10_000

RowT = TypeVar("RowT", bound=tuple[Any, ...])

Column = NDArray[np.int64]
Pairs = tuple[Column, Column]

LISTED = (
    POSTED,
    POSTED_TO_FOLLOWERS,
    POSTED_RESTRICTED,
    PUBLISHED,
    SHARES,
    COMMENTS_ON,
    RESTRICTED_COMMENTS_ON,
    IN_THREAD,
    OWNS,
    OWNS_ALBUM,
    OWNS_FEED,
    OWNS_INVITATION,
    REVISED,
    LOGGED_IN,
    EXPIRING,
    SCHEDULES,
    HOLDS,
    QUEUED,
    SERVER_KEYS,
    WEBHOOKS,
    KINDS,
    REACTIONS,
    EXTERNAL_IDS,
    BULK_ACTIONS,
    ATTACHED,
    BLOCKS_EMAIL_DOMAIN,
    BLOCKS_EMAIL,
    BLOCKS_IP,
    BLOCKS_NAME,
    CELL_OF,
    DECLARED_BY,
)
"""Types of the associations that objects imply, except those of tags."""

_OWNED: dict[type[AnyNode], AssocType] = {
    Media: OWNS,
    ScheduledPost: SCHEDULES,
    Album: OWNS_ALBUM,
    Invitation: OWNS_INVITATION,
    HeldContent: HOLDS,
    NamedFeed: OWNS_FEED,
}
_OF_NETWORK: dict[type[AnyNode], AssocType] = {
    EmailDomainBlock: BLOCKS_EMAIL_DOMAIN,
    CanonicalEmailBlock: BLOCKS_EMAIL,
    IpBlock: BLOCKS_IP,
    NameBlock: BLOCKS_NAME,
    BulkAction: BULK_ACTIONS,
    Webhook: WEBHOOKS,
    PostKind: KINDS,
    StoredReactions: REACTIONS,
}

tag_id = lru_cache(maxsize=1 << 18)(_tag_id)


class Links(NamedTuple):
    """Associations in columns, sorted by `id1`, `atype` and `id2`. `mark` is the hash of their data."""

    id1: Column
    atype: Column
    id2: Column
    time: Column
    alive: NDArray[np.bool_]
    mark: Column

    def only(self, chosen: NDArray[np.bool_]) -> Links:
        columns: Sequence[Any] = self
        return Links(*(values[chosen] for values in columns))

    def of(self, atype: int, *, alive: bool = True) -> Links:
        """Return the associations of a type, without tombstones or, if `alive` is false, with them."""
        return self.only((self.atype == atype) & self.alive if alive else self.atype == atype)

    def triple(self, at: int) -> Triple:
        return int(self.id1[at]), int(self.atype[at]), int(self.id2[at])


class Counts(NamedTuple):
    """The stored counts of lists, as columns sorted by `id1` and `atype`. Counts of 0 are left out."""

    id1: Column
    atype: Column
    n: Column


class Blocks(NamedTuple):
    """Blocks of the rank indexes of lists, in columns. A block stores how many live entries a section of the list has."""

    id1: Column
    atype: Column
    level: Column
    upto: Column
    n: Column


class Objects(NamedTuple):
    """The sorted ids of all objects, the authors of posts, and, by type, the associations that these objects require."""

    ids: Column
    members: Column
    posts: Column
    authors: Column
    declared: dict[int, Pairs]

    def exist(self, ids: Column) -> NDArray[np.bool_]:
        """Return a mask of the ids that exist.

        A negative id, which is the hash of a name such as a tag, always counts as existing.
        """
        return (ids < 0) | found_in(ids, self.ids)

    def authors_of(self, ids: Column) -> Column:
        """Return the author of each post; 0 for an id that is not that of a post."""
        if not len(self.posts):
            return np.zeros(len(ids), np.int64)
        at = np.minimum(np.searchsorted(self.posts, ids), len(self.posts) - 1)
        return np.where(self.posts[at] == ids, self.authors[at], 0)


def found_in(ids: Column, ordered: Column) -> NDArray[np.bool_]:
    """Return a mask of the `ids` that are in the sorted column `ordered`."""
    if not len(ordered):
        return np.zeros(len(ids), np.bool_)
    at = np.minimum(np.searchsorted(ordered, ids), len(ordered) - 1)
    found: NDArray[np.bool_] = ordered[at] == ids
    return found


def implied_by(node: AnyNode) -> Iterator[Triple]:
    match node:
        case Post():
            yield node.author_id, POSTED.number, node.id
            if node.published:
                yield public_list(shard_of(node.author_id)), PUBLISHED.number, node.id
            # The ids of tags and of map cells are hashes of their names.
            yield from ((tag_id(tag), TAG_OF.number, node.id) for tag in node.tags)
            yield from ((cell, CELL_OF.number, node.id) for cell in cell_ids(node))
            if node.root_id:
                yield node.id, IN_THREAD.number, node.root_id
            yield from _listings(node)
            yield from ((id_, ATTACHED.number, node.id) for id_ in node.media)
        case Member():
            yield from ((id_, DECLARED_BY.number, node.id) for id_ in declared_ids(node))
        case Share():
            yield node.author_id, POSTED.number, node.id
            yield node.author_id, SHARES.number, node.post_id
            yield from _listings(node)
        case Media() | ScheduledPost() | Album() | Invitation() | HeldContent() | NamedFeed():
            yield from _owned(node)
        case Revision():
            yield node.post_id, REVISED.number, node.id
            yield from ((id_, ATTACHED.number, node.post_id) for id_ in node.media)
        case Token():
            yield from _logged_in(node)
        case AuthorizationCode():
            yield node.member_id, EXPIRING.number, node.id
        case App() | ExternalLink():
            yield from _of_products(node)
        case (
            EmailDomainBlock()
            | CanonicalEmailBlock()
            | IpBlock()
            | NameBlock()
            | Webhook()
            | BulkAction()
            | PostKind()
            | StoredReactions()
        ):
            yield EVERYBODY, _OF_NETWORK[type(node)].number, node.id


def _owned(node: Media | ScheduledPost | Album | Invitation | HeldContent | NamedFeed) -> Iterator[Triple]:
    # Feeds of the server have no owner.
    yield node.owner_id or EVERYBODY, _OWNED[type(node)].number, node.id
    if isinstance(node, HeldContent) and not node.rejected_at:
        yield node.id, QUEUED.number, EVERYBODY


def _of_products(node: App | ExternalLink) -> Iterator[Triple]:
    if isinstance(node, ExternalLink):
        if node.member_id:
            yield node.member_id, EXTERNAL_IDS.number, node.id
    elif node.server_key:
        yield EVERYBODY, SERVER_KEYS.number, node.id


def _logged_in(token: Token) -> Iterator[Triple]:
    # A session that has not passed the second factor is not a login.
    if HALFWAY not in token.scopes:
        yield token.member_id or token.app_id, LOGGED_IN.number, token.id
    if token.member_id and (not token.app_id or token.expires_at):
        yield token.member_id, EXPIRING.number, token.id


def _listings(entry: Post | Share) -> Iterator[Triple]:
    return ((id1, atype.number, id2) for id1, atype, id2 in listings(entry))


def parts_of(node: AnyNode) -> tuple[int, ...]:
    """Return the ids of those parts of an object that are not objects: its ticket, and the options of its poll."""
    match node:
        case Poll():
            return (*[option.id for option in node.options], node.ticket_id)
        case App() | Media() | ScheduledPost() | IpBlock() | AccountDeletion() | EmailToken():
            return (node.ticket_id,)
    return ()


class _ObjectArrays:
    def __init__(self) -> None:
        self.ids, self.members, self.posts, self.authors = (array("q") for _ in range(4))
        self.declared = {atype.number: (array("q"), array("q")) for atype in (*LISTED, TAG_OF)}

    def take(self, node: AnyNode) -> None:
        self.ids.append(node.id)
        self.ids.extend(filter(None, parts_of(node)))
        if isinstance(node, Member):
            self.members.append(node.id)
        elif isinstance(node, Post):
            self.posts.append(node.id)
            self.authors.append(node.author_id)
        for id1, atype, id2 in implied_by(node):
            first, second = self.declared[atype]
            first.append(id1)
            second.append(id2)

    def objects(self) -> Objects:
        declared = {atype: (column(first), column(second)) for atype, (first, second) in self.declared.items()}
        # A post and an earlier revision of the post may name the same media object.
        named = np.unique(np.stack(declared[ATTACHED.number]), axis=1)
        declared[ATTACHED.number] = (named[0], named[1])
        return Objects(
            np.sort(column(self.ids)), column(self.members), column(self.posts), column(self.authors), declared
        )


def column(values: array[int]) -> Column:
    return np.frombuffer(values, np.int64) if values else np.empty(0, np.int64)


async def read_objects(
    store: Scanner, watch: Callable[[list[AnyNode]], Awaitable[None]], progress: Progress
) -> Objects:
    """Read all objects. Each page is passed to `watch`."""
    arrays = _ObjectArrays()
    after = FIRST
    while page := await store.obj_scan(after, OBJECTS_AT_ONCE):
        for node in page:
            arrays.take(node)
        await watch(page)
        after = page[-1].id
        progress("objects", len(arrays.ids), 0)
    return arrays.objects()


async def _pages(
    scan: Callable[[Any, int], Awaitable[list[RowT]]], first: tuple[int, ...], progress: Progress, phase: str
) -> AsyncGenerator[list[RowT], None]:
    """Yield the rows of a table in pages. `scan` returns the page after a key. A row begins with its key."""
    read, after = 0, first
    while page := await scan(after, ROWS_AT_ONCE):
        yield page
        read += len(page)
        after = page[-1][: len(first)]
        progress(phase, read, 0)


async def read_links(store: Scanner, watch: Callable[[list[AssocRow]], Awaitable[None]], progress: Progress) -> Links:
    """Read all associations, including tombstones. Each page is passed to `watch`."""
    found: list[Links] = []
    async with aclosing(_pages(store.assoc_scan, (FIRST, FIRST, FIRST), progress, "associations")) as pages:
        async for page in pages:
            found.append(_columns(page))
            await watch(page)
    return Links(*map(np.concatenate, zip(*found, strict=True))) if found else _columns([])


def _columns(rows: Sequence[AssocRow]) -> Links:
    id1, atype, id2, moment, alive, data = zip(*rows, strict=True) if rows else ((),) * 6
    return Links(
        np.array(id1, np.int64),
        np.array(atype, np.int64),
        np.array(id2, np.int64),
        np.array(moment, np.int64),
        np.array(alive, np.bool_),
        np.array(list(map(hash, data)), np.int64),
    )


async def read_counts(store: Scanner, progress: Progress) -> Counts:
    pages = [np.empty((0, 3), np.int64)]
    pages += [np.array(page, np.int64) async for page in _pages(store.count_scan, (FIRST, FIRST), progress, "counts")]
    rows = np.concatenate(pages)
    return Counts(*rows[rows[:, 2] != 0].T)


async def read_blocks(store: Scanner, progress: Progress) -> Blocks:
    first = (FIRST, FIRST_TYPE, FIRST_TYPE, FIRST)
    pages = [np.empty((0, 5), np.int64)]
    pages += [np.array(page, np.int64) async for page in _pages(store.block_scan, first, progress, "blocks")]
    return Blocks(*np.concatenate(pages).T)
