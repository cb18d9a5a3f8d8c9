"""Named feeds of the server: create, change and delete them."""

from __future__ import annotations

from msgspec.structs import replace

from shoal.commands.audit import note
from shoal.commands.context import Writes, add_node
from shoal.core.audit import AuditTarget, AuditVerb, TargetKind
from shoal.core.errors import NotFound, Taken, Unfit
from shoal.core.feeds.declarations import (
    MAX_FEEDS_OF_SERVER,
    FeedDeclaration,
    NamedFeed,
    check_cost,
    checked_name,
    checked_title,
    cost_of,
    declaration_of,
)
from shoal.core.ids import shard_of
from shoal.graph.access import count_of
from shoal.graph.changes import change_object, retry_on_conflict
from shoal.graph.contract import Batch, KeyTaken, Reader
from shoal.graph.feed_lookup import feed_called
from shoal.graph.schema import EVERYBODY, OWNS_FEED, feed_key

_SHARD = shard_of(EVERYBODY)


async def create_for_server(writes: Writes, name: str, declaration: object, *, title: str = "") -> NamedFeed:
    """Create a feed of the server under a name that is free. Its title is the name by default.

    Raises `InvalidInput` for an invalid value, `Taken` for a name in use, and `Unfit` if the feed is too expensive, if it has the
    lists of a member, and if there are 100 feeds.
    """
    name = checked_name(name)
    title = checked_title(title or name)
    declared = await _checked_for_server(writes.graph, declaration)
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
    declared = None if declaration is None else await _checked_for_server(writes.graph, declaration, name)
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


async def _of_server(graph: Reader, name: str) -> NamedFeed:
    feed = await feed_called(graph, name)
    if feed.owner_id:
        raise NotFound(f"there is no feed {name[:60]!r}")
    return feed


async def _checked_for_server(graph: Reader, declaration: object, name: str = "") -> FeedDeclaration:
    """Return the declaration of a feed of the server. `name` is the name of the feed that it changes."""
    declared = declaration_of(declaration)
    if declared.has_lists:
        raise Unfit("sources: a feed of the server cannot contain the list of a member", field="sources")
    contained: dict[str, FeedDeclaration] = {}
    for reference in declared.feeds:
        feed = await _of_server(graph, reference)
        if feed.name == name or feed.declaration.feeds:
            raise Unfit(f"sources: the feed {reference!r} contains feeds itself", field="sources")
        contained[reference] = feed.declaration
    check_cost(cost_of(declared, contained))
    return declared


def _target(feed: NamedFeed) -> AuditTarget:
    return AuditTarget(TargetKind.FEED, feed.id, feed.name)
