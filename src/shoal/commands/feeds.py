"""Named feeds of the server and of members: create, change, delete, copy and follow them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from shoal.commands.audit import note
from shoal.commands.context import Claim, Writes, add_node, serialized
from shoal.core.audit import AuditTarget, AuditVerb, TargetKind
from shoal.core.errors import InvalidInput, NotFound, Taken, Unfit
from shoal.core.events import NamedFeedChanged
from shoal.core.feeds.declarations import (
    MAX_FEEDS_OF_MEMBER,
    MAX_FEEDS_OF_SERVER,
    ByAuthor,
    FeedDeclaration,
    NamedFeed,
    OfFeed,
    OnList,
    check_cost,
    checked_name,
    checked_title,
    cost_of,
    declaration_of,
    values_of,
)
from shoal.core.feeds.expressions import Value
from shoal.core.ids import shard_of
from shoal.core.model import MemberList
from shoal.graph.access import association, count_of, objects_of, own_object
from shoal.graph.changes import change_object, retry_on_conflict
from shoal.graph.contract import Batch, Cursor, KeyTaken, Reader
from shoal.graph.feed_lookup import check_names, feed_called, id_in, readable_feed
from shoal.graph.schema import EVERYBODY, FOLLOWS_FEED, OWNS_FEED, SETS_FEED, Key, feed_key, feed_name_id, user_name_key

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
        # A feed may contain a former feed with this name.
        batch.emit(NamedFeedChanged(feed_id=feed_name_id(name), time=id_))
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
    before = await _of_server(writes.graph, name)
    declared = None if declaration is None else await checked_for(writes.graph, 0, declaration, before=before)
    checked = None if title is None else checked_title(title)

    def change(feed: NamedFeed) -> NamedFeed:
        return replace(feed, title=checked or feed.title, declaration=declared or feed.declaration)

    def also(batch: Batch, before: NamedFeed, after: NamedFeed) -> None:
        note(writes, batch, AuditVerb.FEED_CHANGED, _target(after))
        _tell(writes, batch, before, after)

    return await change_object(writes.graph, lambda: _of_server(writes.graph, name), change, also)


async def delete_for_server(writes: Writes, name: str) -> None:
    """Delete a feed of the server. Feeds that contain it lose its posts. Raises `NotFound`."""

    async def attempt() -> None:
        feed = await _of_server(writes.graph, name)
        batch = Batch(_SHARD)
        batch.obj_del(feed.id, feed.version)
        batch.key_del(feed_key(feed.name), feed.id)
        now = writes.new_id(_SHARD)
        batch.assoc_del(EVERYBODY, OWNS_FEED, feed.id, now)
        batch.emit(NamedFeedChanged(feed_id=feed.id, time=now))
        note(writes, batch, AuditVerb.FEED_DELETED, _target(feed))
        await writes.graph.commit(batch)

    await retry_on_conflict(attempt)


async def create(
    writes: Writes,
    member_id: int,
    title: str,
    declaration: object,
    *,
    shared: bool = False,
    origin: NamedFeed | None = None,
) -> NamedFeed:
    """Create a feed of a member. `origin` is the feed of which it is a copy, which may name authors who do not exist.

    Raises `InvalidInput` for an invalid value, for a list of another member and for a feed that the member may not read, and
    `Unfit` if the feed is too expensive, if it is shared with a list, and if the member has 50 feeds.
    """
    title, shard = checked_title(title), shard_of(member_id)
    declared = await checked_for(writes.graph, member_id, declaration, shared=shared, origin=origin)

    async def attempt(claim: Claim) -> NamedFeed:
        if await count_of(writes.graph, member_id, OWNS_FEED) >= MAX_FEEDS_OF_MEMBER:
            raise Unfit(f"at most {MAX_FEEDS_OF_MEMBER} feeds")

        def build(id_: int) -> tuple[NamedFeed, Batch]:
            feed = NamedFeed(
                id=id_,
                owner_id=member_id,
                title=title,
                declaration=declared,
                shared=shared,
                origin_id=origin.id if origin else 0,
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
    """Change the given values of a member's feed. Raises `NotFound` for any other feed, and the errors of `create`.

    An unchanged declaration is checked only if the feed becomes shared: a new title or the end of sharing does not fail because
    a list, feed or author in the declaration was deleted.
    """
    before = await _own(writes.graph, member_id, reference)
    will_share = before.shared if shared is None else shared
    checked = None if title is None else checked_title(title)
    declared = before.declaration if declaration is None else declaration_of(declaration)
    if declared != before.declaration or (will_share and not before.shared):
        await checked_for(writes.graph, member_id, declared, shared=will_share, before=before)

    def change(feed: NamedFeed) -> NamedFeed:
        kept = feed.declaration if declaration is None else declared
        changed = replace(
            feed, title=checked or feed.title, declaration=kept, shared=feed.shared if shared is None else shared
        )
        # A concurrent change may have added the list, or shared the feed.
        _check_shareable(kept, shared=changed.shared)
        return changed

    return await change_object(
        writes.graph, lambda: _own(writes.graph, member_id, reference), change, partial(_tell, writes)
    )


def _tell(writes: Writes, batch: Batch, before: NamedFeed, after: NamedFeed) -> None:
    if (before.declaration, before.shared) != (after.declaration, after.shared):
        batch.emit(NamedFeedChanged(feed_id=after.id, time=writes.new_id(batch.shard)))


async def delete(writes: Writes, member_id: int, reference: str) -> None:
    """Delete a feed of a member. Copies of it stay. Raises `NotFound` for any other feed."""
    feed = await _own(writes.graph, member_id, reference)
    batch = Batch(shard_of(member_id))
    batch.obj_del(feed.id)
    now = writes.new_id(batch.shard)
    batch.assoc_del(member_id, OWNS_FEED, feed.id, now)
    batch.assoc_del(member_id, SETS_FEED, feed.id, now)
    batch.emit(NamedFeedChanged(feed_id=feed.id, time=now))
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
    return await create(writes, member_id, made_title, origin.declaration, origin=origin)


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
            batch.assoc_del(member_id, SETS_FEED, gone, writes.new_id(batch.shard))
        batch.assoc_add(member_id, FOLLOWS_FEED, feed.id, writes.new_id(batch.shard))
        await writes.commit(batch)

    await serialized(writes, member_id, attempt)
    return feed


async def unfollow(writes: Writes, member_id: int, reference: str) -> None:
    """Remove a feed from a member's lists. Idempotent.

    Raises `NotFound` for a feed that the member neither follows, nor unfollowed recently, nor may read.
    """
    given = reference_in(reference)
    # The feed may be deleted.
    feed_id = id_in(given) or (await feed_called(writes.graph, given)).id
    if await association(writes.graph, member_id, FOLLOWS_FEED, feed_id) is None:
        ended = await writes.graph.assoc_ended(member_id, (FOLLOWS_FEED,), (feed_id,))
        if not ended[FOLLOWS_FEED]:
            await readable_feed(writes.graph, member_id, str(feed_id))
        return
    batch = Batch(shard_of(member_id))
    for atype in (FOLLOWS_FEED, SETS_FEED):
        batch.assoc_del(member_id, atype, feed_id, writes.new_id(batch.shard))
    await writes.graph.commit(batch)


async def set_values(writes: Writes, member_id: int, reference: str, values: Mapping[str, object]) -> dict[str, Value]:
    """Save values of a feed's parameters for a member, and return them. They apply where the member reads the feed as a list.

    Parameters without a value have their defaults; without values, the saved ones are removed.

    Raises `NotFound` for a feed that the member may not read, `InvalidInput` for an invalid value, and `Unfit` if the member
    neither owns nor follows the feed.
    """
    feed = await readable_feed(writes.graph, member_id, reference)
    checked = values_of(feed.declaration, values)
    if feed.owner_id != member_id and await association(writes.graph, member_id, FOLLOWS_FEED, feed.id) is None:
        raise Unfit("id: follow the feed first", field="id")
    given = {name: checked[name] for name in values}
    batch = Batch(shard_of(member_id))
    now = writes.new_id(batch.shard)
    if given:
        batch.assoc_add(member_id, SETS_FEED, feed.id, now, msgspec.json.encode(given))
    else:
        batch.assoc_del(member_id, SETS_FEED, feed.id, now)
    await writes.graph.commit(batch)
    return given


def reference_in(text: str) -> str:
    """Return the name or id of a feed in a link to the feed on any server; other text unchanged."""
    _, found, rest = text.partition("/api/shoal/v1/feeds/")
    return rest.partition("/")[0] if found else text


async def checked_for(
    graph: Reader,
    owner_id: int,
    declaration: object,
    *,
    shared: bool = False,
    before: NamedFeed | None = None,
    origin: NamedFeed | None = None,
) -> FeedDeclaration:
    """Return a declaration that the owner (0: the server) could save.

    `before` is the feed that it changes, and `origin` the feed of which a new feed is a copy. Their authors need not exist.

    Raises the errors of `create` or `create_for_server`.
    """
    declared = declaration_of(declaration)
    if not owner_id and declared.has_lists:
        raise Unfit("sources: a feed of the server cannot contain the list of a member", field="sources")
    _check_shareable(declared, shared=shared)
    contained: dict[str, FeedDeclaration] = {}
    if owner_id:
        await _check_authors(graph, declared, [feed.declaration for feed in (before, origin) if feed])
    for at, source in enumerate(declared.sources):
        if isinstance(source, OnList):
            await _check_list(graph, owner_id, f"sources[{at}].list", source.list)
        elif isinstance(source, OfFeed):
            feed = await _contained(graph, owner_id, f"sources[{at}].feed", source.feed, before)
            if shared and not feed.readable:
                raise Unfit(f"shared: the feed {source.feed!r}, which it contains, is not shared", field="shared")
            contained[source.feed] = feed.declaration
    await check_names(graph, declared)
    check_cost(cost_of(declared, contained))
    return declared


async def _check_authors(graph: Reader, declared: FeedDeclaration, earlier: Sequence[FeedDeclaration]) -> None:
    """Refuse unknown authors in a feed of a member, except those in earlier declarations.

    A feed of the server may name authors who register later.
    """
    accepted = {key for each in earlier for key in _authors(each).values()}
    keys = {at: key for at, key in _authors(declared).items() if key not in accepted}
    known = await graph.key_get(tuple(keys.values())) if keys else {}
    for at, key in keys.items():
        if key not in known:
            raise InvalidInput(f"sources[{at}].author: there is no member {key.name!r}", field="sources")


def _authors(declared: FeedDeclaration) -> dict[int, Key]:
    """Return the keys of the authors in a declaration, by the index of the source."""
    return {at: user_name_key(one.author) for at, one in enumerate(declared.sources) if isinstance(one, ByAuthor)}


async def _check_list(graph: Reader, owner_id: int, path: str, list_id: str) -> None:
    try:
        await own_object(graph, MemberList, owner_id, int(list_id))
    except NotFound:
        raise InvalidInput(f"{path}: expected the id of one of your lists (got {list_id})", field="sources") from None


async def _contained(graph: Reader, owner_id: int, path: str, reference: str, before: NamedFeed | None) -> NamedFeed:
    """Return a feed that a feed of the owner may contain."""
    try:
        feed = await (readable_feed(graph, owner_id, reference) if owner_id else _of_server(graph, reference))
    except NotFound as error:
        raise InvalidInput(f"{path}: {error}", field="sources") from None
    if before is not None and feed.id == before.id:
        raise Unfit(f"{path}: a feed cannot contain itself", field="sources")
    if feed.declaration.feeds:
        raise Unfit(f"{path}: the feed {reference!r} contains feeds itself", field="sources")
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
