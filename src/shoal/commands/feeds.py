"""Named feeds of the server and of members: create, change, delete, copy and follow them."""

from __future__ import annotations

from msgspec.structs import replace

from shoal.commands.audit import note
from shoal.commands.context import Claim, Writes, add_node, serialized
from shoal.core.audit import AuditTarget, AuditVerb, TargetKind
from shoal.core.errors import InvalidInput, NotFound, Taken, Unfit
from shoal.core.feeds.declarations import (
    MAX_FEEDS_OF_MEMBER,
    MAX_FEEDS_OF_SERVER,
    FeedDeclaration,
    NamedFeed,
    OfFeed,
    OnList,
    check_cost,
    checked_name,
    checked_title,
    cost_of,
    declaration_of,
)
from shoal.core.ids import shard_of
from shoal.core.model import MemberList
from shoal.graph.access import association, count_of, objects_of, own_object
from shoal.graph.changes import change_object, retry_on_conflict
from shoal.graph.contract import Batch, Cursor, KeyTaken, Reader
from shoal.graph.feed_lookup import check_kinds, feed_called, readable_feed
from shoal.graph.schema import EVERYBODY, FOLLOWS_FEED, OWNS_FEED, feed_key

_SHARD = shard_of(EVERYBODY)


async def create_for_server(writes: Writes, name: str, declaration: object, *, title: str = "") -> NamedFeed:
    """Create a feed of the server under a name that is free. Its title is the name by default.

    Raises `InvalidInput` for an invalid value, `Taken` for a name in use, and `Unfit` if the feed is too expensive, if it has the
    lists of a member, and if there are 100 feeds.
    """
    name = checked_name(name)
    title = checked_title(title or name)
    declared = await checked_for(writes.graph, 0, declaration)
    # Concurrent additions may exceed the limit slightly, which is harmless.
    if await count_of(writes.graph, EVERYBODY, OWNS_FEED) >= MAX_FEEDS_OF_SERVER:
        raise Unfit(f"there are {MAX_FEEDS_OF_SERVER} feeds of the server already, which is the maximum")

    def build(id_: int) -> tuple[NamedFeed, Batch]:
        feed, batch = NamedFeed(id=id_, owner_id=0, title=title, declaration=declared, name=name), Batch(_SHARD)
        batch.key_add(feed_key(name), id_)
        batch.obj_add(feed)
        batch.assoc_add(EVERYBODY, OWNS_FEED, id_, id_)
        note(writes, batch, AuditVerb.FEED_CREATED, _target(feed))
        return feed, batch

    try:
        return await add_node(writes, _SHARD, build)
    except KeyTaken as error:
        raise Taken(f"name: there is a feed {name!r} already", field="name") from error


async def update_for_server(
    writes: Writes, name: str, *, title: str | None = None, declaration: object = None
) -> NamedFeed:
    """Change the given values of a feed of the server. Raises `NotFound`, and the errors of `create_for_server`."""
    feed_id = (await _of_server(writes.graph, name)).id
    declared = None if declaration is None else await checked_for(writes.graph, 0, declaration, feed_id=feed_id)
    checked = None if title is None else checked_title(title)

    def change(feed: NamedFeed) -> NamedFeed:
        return replace(feed, title=checked or feed.title, declaration=declared or feed.declaration)

    return await change_object(
        writes.graph,
        lambda: _of_server(writes.graph, name),
        change,
        lambda batch, _, after: note(writes, batch, AuditVerb.FEED_CHANGED, _target(after)),
    )


async def delete_for_server(writes: Writes, name: str) -> None:
    """Delete a feed of the server. Feeds that contain it lose its posts. Raises `NotFound`."""

    async def attempt() -> None:
        feed = await _of_server(writes.graph, name)
        batch = Batch(_SHARD)
        batch.obj_del(feed.id, feed.version)
        batch.key_del(feed_key(feed.name), feed.id)
        batch.assoc_del(EVERYBODY, OWNS_FEED, feed.id, writes.new_id(_SHARD))
        note(writes, batch, AuditVerb.FEED_DELETED, _target(feed))
        await writes.graph.commit(batch)

    await retry_on_conflict(attempt)


async def create(
    writes: Writes, member_id: int, title: str, declaration: object, *, shared: bool = False, origin_id: int = 0
) -> NamedFeed:
    """Create a feed of a member. `origin_id` is the feed of which it is a copy.

    Raises `InvalidInput` for an invalid value, for a list of another member and for a feed that the member may not read, and
    `Unfit` if the feed is too expensive, if it is shared with a list, and if the member has 50 feeds.
    """
    title, shard = checked_title(title), shard_of(member_id)
    declared = await checked_for(writes.graph, member_id, declaration, shared=shared)

    async def attempt(claim: Claim) -> NamedFeed:
        if await count_of(writes.graph, member_id, OWNS_FEED) >= MAX_FEEDS_OF_MEMBER:
            raise Unfit(f"at most {MAX_FEEDS_OF_MEMBER} feeds")

        def build(id_: int) -> tuple[NamedFeed, Batch]:
            feed = NamedFeed(
                id=id_, owner_id=member_id, title=title, declaration=declared, shared=shared, origin_id=origin_id
            )
            batch = Batch(shard)
            claim(batch)
            batch.obj_add(feed)
            batch.assoc_add(member_id, OWNS_FEED, id_, id_)
            return feed, batch

        return await add_node(writes, shard, build)

    return await serialized(writes, member_id, attempt)


async def update(
    writes: Writes,
    member_id: int,
    reference: str,
    *,
    title: str | None = None,
    declaration: object = None,
    shared: bool | None = None,
) -> NamedFeed:
    """Change the given values of a member's feed. Raises `NotFound` for any other feed, and the errors of `create`."""
    before = await _own(writes.graph, member_id, reference)
    will_share = before.shared if shared is None else shared
    checked = None if title is None else checked_title(title)
    declared = None
    # A new title or the end of sharing must not fail because a list or feed in the declaration was deleted.
    if declaration is not None or (will_share and not before.shared):
        given = before.declaration if declaration is None else declaration
        declared = await checked_for(writes.graph, member_id, given, shared=will_share, feed_id=before.id)

    def change(feed: NamedFeed) -> NamedFeed:
        kept = feed.declaration if declaration is None or declared is None else declared
        changed = replace(
            feed, title=checked or feed.title, declaration=kept, shared=feed.shared if shared is None else shared
        )
        # A concurrent change may have added the list, or shared the feed.
        _check_shareable(kept, shared=changed.shared)
        return changed

    return await change_object(writes.graph, lambda: _own(writes.graph, member_id, reference), change)


async def delete(writes: Writes, member_id: int, reference: str) -> None:
    """Delete a feed of a member. Copies of it stay. Raises `NotFound` for any other feed."""
    feed = await _own(writes.graph, member_id, reference)
    batch = Batch(shard_of(member_id))
    batch.obj_del(feed.id)
    batch.assoc_del(member_id, OWNS_FEED, feed.id, writes.new_id(batch.shard))
    await writes.graph.commit(batch)


async def delete_by_id(writes: Writes, member_id: int, feed_id: int) -> None:
    """Delete a feed of a member. Raises `NotFound` for any other feed."""
    await delete(writes, member_id, str(feed_id))


async def copy(writes: Writes, member_id: int, reference: str, *, title: str | None = None) -> NamedFeed:
    """Create a copy of a feed that the member may read, given by name, id or link. The copy is not shared, and names its origin.

    Raises `NotFound`, and the errors of `create`.
    """
    origin = await readable_feed(writes.graph, member_id, reference_in(reference))
    made_title = origin.title if title is None else title
    return await create(writes, member_id, made_title, origin.declaration, origin_id=origin.id)


async def follow(writes: Writes, member_id: int, reference: str) -> NamedFeed:
    """Add a feed of the server or of another member to a member's lists. Idempotent.

    Raises `NotFound` for a feed that the member may not read, and `Unfit` for an own feed, and if the member follows 50 feeds.
    """
    feed = await readable_feed(writes.graph, member_id, reference_in(reference))
    if feed.owner_id == member_id:
        raise Unfit("your own feeds are among your lists already")

    async def attempt(claim: Claim) -> None:
        followed = await writes.graph.assoc_range(member_id, FOLLOWS_FEED, Cursor(limit=2 * MAX_FEEDS_OF_MEMBER))
        ids = [assoc.id2 for assoc in followed]
        if feed.id in ids:
            return
        there = {each.id for each in await objects_of(writes.graph, NamedFeed, ids)}
        if len(there) >= MAX_FEEDS_OF_MEMBER:
            raise Unfit(f"at most {MAX_FEEDS_OF_MEMBER} followed feeds")
        batch = Batch(shard_of(member_id))
        claim(batch)
        for gone in set(ids) - there:
            batch.assoc_del(member_id, FOLLOWS_FEED, gone, writes.new_id(batch.shard))
        batch.assoc_add(member_id, FOLLOWS_FEED, feed.id, writes.new_id(batch.shard))
        await writes.commit(batch)

    await serialized(writes, member_id, attempt)
    return feed


async def unfollow(writes: Writes, member_id: int, reference: str) -> None:
    """Remove a feed from a member's lists. Idempotent.

    Raises `NotFound` for a feed that the member neither follows nor may read.
    """
    feed = await feed_called(writes.graph, reference_in(reference))
    if await association(writes.graph, member_id, FOLLOWS_FEED, feed.id) is None:
        await readable_feed(writes.graph, member_id, str(feed.id))
        return
    batch = Batch(shard_of(member_id))
    batch.assoc_del(member_id, FOLLOWS_FEED, feed.id, writes.new_id(batch.shard))
    await writes.graph.commit(batch)


def reference_in(text: str) -> str:
    """Return the name or id of a feed in a link to the feed on any server; other text unchanged."""
    _, found, rest = text.partition("/api/shoal/v1/feeds/")
    return rest.partition("/")[0] if found else text


async def checked_for(
    graph: Reader, owner_id: int, declaration: object, *, shared: bool = False, feed_id: int = 0
) -> FeedDeclaration:
    """Return a declaration that the owner (0: the server) could save. `feed_id` is the feed that it changes, if any.

    Raises the errors of `create` or `create_for_server`.
    """
    declared = declaration_of(declaration)
    if not owner_id and declared.has_lists:
        raise Unfit("sources: a feed of the server cannot contain the list of a member", field="sources")
    _check_shareable(declared, shared=shared)
    contained: dict[str, FeedDeclaration] = {}
    for source in declared.sources:
        if isinstance(source, OnList):
            await _check_list(graph, owner_id, source.list)
        elif isinstance(source, OfFeed):
            feed = await _contained(graph, owner_id, source.feed, feed_id)
            if shared and not feed.readable:
                raise Unfit(f"shared: the feed {source.feed!r}, which it contains, is not shared", field="shared")
            contained[source.feed] = feed.declaration
    try:
        await check_kinds(graph, declared)
    except NotFound as error:
        raise InvalidInput(f"declaration: {error}", field="declaration") from None
    check_cost(cost_of(declared, contained))
    return declared


async def _check_list(graph: Reader, owner_id: int, list_id: str) -> None:
    try:
        await own_object(graph, MemberList, owner_id, int(list_id))
    except NotFound:
        raise InvalidInput(f"sources: expected the id of one of your lists (got {list_id})", field="sources") from None


async def _contained(graph: Reader, owner_id: int, reference: str, feed_id: int) -> NamedFeed:
    """Return a feed that a feed of the owner may contain."""
    try:
        feed = await (readable_feed(graph, owner_id, reference) if owner_id else _of_server(graph, reference))
    except NotFound as error:
        raise InvalidInput(f"sources: {error}", field="sources") from None
    if feed.id == feed_id:
        raise Unfit("sources: a feed cannot contain itself", field="sources")
    if feed.declaration.feeds:
        raise Unfit(f"sources: the feed {reference!r} contains feeds itself", field="sources")
    return feed


async def _own(graph: Reader, member_id: int, reference: str) -> NamedFeed:
    feed = await feed_called(graph, reference)
    if feed.owner_id != member_id:
        raise NotFound(f"there is no feed {reference[:60]!r}")
    return feed


def _check_shareable(declared: FeedDeclaration, *, shared: bool) -> None:
    if shared and declared.has_lists:
        raise Unfit(
            "shared: a feed with a list cannot be shared, because it would reveal the members of the list",
            field="shared",
        )


async def _of_server(graph: Reader, name: str) -> NamedFeed:
    feed = await feed_called(graph, name)
    if feed.owner_id:
        raise NotFound(f"there is no feed {name[:60]!r}")
    return feed


def _target(feed: NamedFeed) -> AuditTarget:
    return AuditTarget(TargetKind.FEED, feed.id, feed.name)
