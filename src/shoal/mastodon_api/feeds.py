"""Named feeds: reading, managing, copying and following them. Mastodon has no equivalent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
from msgspec import Meta

from shoal.commands import feeds as commands
from shoal.commands import notifications
from shoal.core.errors import InvalidInput
from shoal.core.feeds.declarations import MAX_PARAMETERS, Cost, FeedDeclaration, NamedFeed, cost_of
from shoal.core.feeds.expressions import MAX_NUMBER, MAX_TEXT
from shoal.core.ids import milliseconds_of
from shoal.core.model import Role
from shoal.graph.feed_lookup import contained_feeds, contained_in_each, listed_feeds, readable_feed, saved_values
from shoal.http.pagination import StatusesQuery, listed_data, page_size
from shoal.http.params import Id, Json, Limit
from shoal.http.responses import Reply, encode, raw
from shoal.mastodon_api.context import Context, Router, actor, address_of, cursor_of, paged
from shoal.mastodon_api.entities.serializers import moment
from shoal.mastodon_api.entities.statuses import FeedContribution, FeedExplanation, FeedGroup, Status
from shoal.queries.foryou.ranking import decode_cursor
from shoal.queries.hydration import Entry
from shoal.queries.named_feeds import feed as queries
from shoal.queries.named_feeds import preview
from shoal.queries.named_feeds.snapshots import Explanation

router = Router()
admin_router = Router(role=Role.ADMIN)

_FEEDS = "/api/shoal/v1/feeds"
_ADMIN = "/api/shoal/v1/admin/feeds"

_Reference = Annotated[str, Meta(min_length=1, max_length=50)]
_Name = Annotated[str, Meta(max_length=200)]
_Title = Annotated[str, Meta(max_length=20_000)]
_Parameter = Annotated[str, Meta(max_length=10 * MAX_TEXT)]
_ParameterName = Annotated[str, Meta(max_length=100)]
_Whole = Annotated[int, Meta(ge=-(10**12), le=10**12)]
_Number = Annotated[float, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]


class FeedQuery(StatusesQuery, frozen=True, kw_only=True):
    id: _Reference
    """The name of a feed of the server, or the id of a feed."""
    cursor: Annotated[str, Meta(max_length=64)] = ""
    """The cursor of a ranked feed, from the `Link` header of the previous page."""
    parameters: Annotated[dict[_ParameterName, _Parameter], Meta(max_length=MAX_PARAMETERS)] | None = None
    """Values of the feed's parameters by name, as in `parameters[half_life]=12`; omitted ones have their defaults."""


class OneFeed(msgspec.Struct, frozen=True):
    id: _Reference
    """The name of a feed of the server, or the id of a feed."""


class NewServerFeed(msgspec.Struct, frozen=True, kw_only=True):
    name: _Name
    """2 to 50 lower-case letters, digits, `-` and `_`, starting with a letter."""
    title: _Title = ""
    """By default the name."""
    declaration: Json
    """What the feed shows, see [feeds](reference/feeds.md)."""


class ServerFeedChanges(msgspec.Struct, frozen=True, kw_only=True):
    name: _Name
    title: _Title | None = None
    declaration: Json | None = None


class NewFeed(msgspec.Struct, frozen=True, kw_only=True):
    title: _Title
    declaration: Json
    """What the feed shows, see [feeds](reference/feeds.md)."""
    shared: bool = False
    """Whether anyone may read the feed, and other members may copy it. A feed with a list cannot be shared."""


class FeedChanges(msgspec.Struct, frozen=True, kw_only=True):
    id: _Reference
    title: _Title | None = None
    declaration: Json | None = None
    shared: bool | None = None


class CopiedFeed(msgspec.Struct, frozen=True, kw_only=True):
    id: _Reference
    title: _Title | None = None
    """By default the title of the feed."""


class ReadPosition(msgspec.Struct, frozen=True, kw_only=True):
    id: _Reference
    last_read_id: Id
    """The newest status that the caller has read."""


class FeedDryRunParams(msgspec.Struct, frozen=True, kw_only=True):
    """A declaration to try. It may be compared with a feed, or with another declaration."""

    declaration: Json
    parameters: (
        Annotated[dict[_ParameterName, bool | _Whole | _Number | _Parameter], Meta(max_length=MAX_PARAMETERS)] | None
    ) = None
    feed: Annotated[str, Meta(max_length=50)] = ""
    """The name or id of a feed to compare with."""
    other: Json | None = None
    """A declaration to compare with."""
    limit: Limit = Limit(0)


class FeedValues(msgspec.Struct, frozen=True, kw_only=True):
    """Values of a feed's parameters that a member saves."""

    id: _Reference
    parameters: (
        Annotated[dict[_ParameterName, bool | _Whole | _Number | _Parameter], Meta(max_length=MAX_PARAMETERS)] | None
    ) = None
    """Values by name. Omitted parameters have their defaults; without values, the saved ones are removed."""


class FeedValuesEntity(msgspec.Struct, kw_only=True):
    """The values of a feed's parameters that the caller saved."""

    parameters: dict[str, bool | float | str]


class ServerFeed(msgspec.Struct, frozen=True):
    name: _Name


class FeedCost(msgspec.Struct, kw_only=True):
    """The most that a page of a feed costs while caches are filled."""

    reads: int
    """Lists and bulk reads of the store; for a feed in the order of time, of a single pass over its sources."""
    candidates: int
    """Statuses that a ranked feed considers; 0 for a feed in the order of time."""
    parts: list[FeedCostPart]


class FeedCostPart(msgspec.Struct, kw_only=True):
    name: str
    reads: int
    candidates: int


class FeedEntity(msgspec.Struct, kw_only=True):
    """A named feed, with the cost of a page."""

    id: str
    name: str | None
    """The name of a feed of the server; null for a feed of a member."""
    title: str
    account_id: str | None
    """The member whose feed it is; null for a feed of the server."""
    shared: bool
    """Whether anyone may read it, and other members may copy it; true for feeds of the server."""
    origin_id: str | None
    """The feed of which it is a copy; null for none."""
    link: str
    """An address of the declaration, to share. `/api/shoal/v1/feeds/:id/copy` copies the feed."""
    created_at: str
    ranked: bool
    """Whether the feed is paged by cursors, instead of ids."""
    declaration: msgspec.Raw
    """See [feeds](reference/feeds.md)."""
    cost: FeedCost


class UnreadEntity(msgspec.Struct, kw_only=True):
    """The number of new statuses of a feed in the order of time."""

    count: int
    """Statuses by other accounts after the read position, at most 100."""
    more: bool
    """Whether there are further ones."""
    last_read_id: str | None
    """The read position; null if the caller has none."""


class ComparedStatus(msgspec.Struct, kw_only=True):
    status: Status
    position_before: int | None
    """Its position in the other feed, from 1; null if it is not among the first statuses there, and without another feed."""


class FeedComparison(msgspec.Struct, kw_only=True):
    """The first statuses of a declaration compared with those of another one."""

    overlap: float
    """The number of common statuses, divided by the number of statuses of the longer list."""
    rank_biased_overlap: float
    """0 (disjoint) to 1 (equal), with more weight on the first positions."""
    lost: list[Status]
    """The statuses of the other feed that this one does not show."""


class FeedDryRunEntity(msgspec.Struct, kw_only=True):
    """What a declaration would show now."""

    cost: FeedCost
    statuses: list[ComparedStatus]
    comparison: FeedComparison | None
    """Null without another feed."""


@router.get(_FEEDS, auth="optional", scope="read:lists", answer=list[FeedEntity])
async def list_feeds(context: Context, _params: None) -> object:
    """List the feeds of the server, then the caller's own feeds, then the feeds of other members that the caller follows."""
    graph, member = context.app.graph, context.caller.member_id
    own, followed, of_server = await listed_feeds(graph, member)
    found = [*of_server, *own, *(feed for feed in followed.readable if feed.owner_id)]
    each = await contained_in_each(graph, member, [feed.declaration for feed in found])
    return [_with_contained(context, feed, contained) for feed, contained in zip(found, each, strict=True)]


@router.post(_FEEDS, scope="write:lists", answer=FeedEntity)
async def create_feed(context: Context, params: NewFeed) -> object:
    """Create a feed. A feed that is too expensive is refused, with the part that costs most."""
    made = await commands.create(
        context.app.writes, actor(context), params.title, params.declaration.value, shared=params.shared
    )
    return await _entity(context, made)


@router.put(f"{_FEEDS}/{{id}}", scope="write:lists", answer=FeedEntity)
async def update_feed(context: Context, params: FeedChanges) -> object:
    """Change the title or the declaration of one of the caller's feeds, or whether it is shared."""
    changed = await commands.update(
        context.app.writes,
        actor(context),
        params.id,
        title=params.title,
        declaration=None if params.declaration is None else params.declaration.value,
        shared=params.shared,
    )
    return await _entity(context, changed)


@router.delete(f"{_FEEDS}/{{id}}", scope="write:lists", answer=dict)
async def delete_feed(context: Context, params: OneFeed) -> None:
    """Delete one of the caller's feeds. Copies of it stay."""
    await commands.delete(context.app.writes, actor(context), params.id)


@router.post(f"{_FEEDS}/{{id}}/copy", scope="write:lists", answer=FeedEntity)
async def copy_feed(context: Context, params: CopiedFeed) -> object:
    """Copy a feed that the caller may read. The copy is the caller's, is not shared, and names its origin."""
    return await _entity(
        context, await commands.copy(context.app.writes, actor(context), params.id, title=params.title)
    )


@router.post(f"{_FEEDS}/{{id}}/follow", scope="write:lists", answer=FeedEntity)
async def follow_feed(context: Context, params: OneFeed) -> object:
    """Add a feed of the server or a shared feed to the caller's lists. Idempotent."""
    return await _entity(context, await commands.follow(context.app.writes, actor(context), params.id))


@router.post(f"{_FEEDS}/{{id}}/unfollow", scope="write:lists", answer=dict)
async def unfollow_feed(context: Context, params: OneFeed) -> None:
    """Remove a feed from the caller's lists. Idempotent."""
    await commands.unfollow(context.app.writes, actor(context), params.id)


@router.get(f"{_FEEDS}/{{id}}/parameters", scope="read:lists", answer=FeedValuesEntity)
async def get_parameters(context: Context, params: OneFeed) -> object:
    """Show the values of a feed's parameters that the caller saved."""
    feed = await readable_feed(context.app.graph, actor(context), params.id)
    return FeedValuesEntity(parameters=await saved_values(context.app.graph, actor(context), feed))


@router.put(f"{_FEEDS}/{{id}}/parameters", scope="write:lists", answer=FeedValuesEntity)
async def set_parameters(context: Context, params: FeedValues) -> object:
    """Save values of the parameters of a feed that the caller owns or follows, for reading it as a list and in the web app."""
    values = params.parameters or {}
    return FeedValuesEntity(parameters=await commands.set_values(context.app.writes, actor(context), params.id, values))


@router.get(f"{_FEEDS}/{{id}}/declaration", auth="optional", scope="read:lists", answer=FeedEntity)
async def get_feed(context: Context, params: OneFeed) -> object:
    """Show a feed: its declaration, and the most that reading a page costs."""
    return await _entity(context, await readable_feed(context.app.graph, context.caller.member_id, params.id))


@router.get(f"{_FEEDS}/{{id}}", auth="optional", scope="read:statuses", answer=list[Status])
async def read_feed(context: Context, params: FeedQuery) -> object:
    """Read a feed. Each status explains in `shoal.explanation` why it is there.

    A feed in the order of time is paged by ids, and a ranked one by the cursor in the `Link` header, for an hour.
    """
    app, viewer = context.app, context.caller.member_id
    feed = await readable_feed(app.graph, viewer, params.id)
    cursor = cursor_of(params)
    at = decode_cursor(params.cursor) if params.cursor else None
    page = await queries.page(app.reads, viewer, feed, cursor, at=at, parameters=params.parameters)
    data = listed_data(with_data=params.with_data)
    body = await app.present.ranked_page(viewer, [(shown.entry, explained(shown.why)) for shown in page.entries], data)
    if not feed.declaration.ranked:
        return paged(context, body, [shown.entry.id for shown in page.entries], page.next, cursor)
    if not page.cursor:
        return Reply(body)
    query: dict[str, object] = {f"parameters[{name}]": value for name, value in (params.parameters or {}).items()}
    query |= {"limit": cursor.limit, "cursor": page.cursor} | ({"with_data": "true"} if params.with_data else {})
    address = address_of(context).partition("?")[0]
    return Reply(body, headers=(("Link", f'<{address}?{urlencode(query)}>; rel="next"'),))


def explained(why: Explanation) -> FeedExplanation:
    return FeedExplanation(
        sources=list(why.sources),
        score=why.score,
        contributions=[FeedContribution(name, value) for name, value in why.contributions],
        places_lost=why.lost,
        group=None if why.group is None else FeedGroup(why.group.size, [str(id_) for id_ in why.group.ids]),
    )


@router.get(f"{_FEEDS}/{{id}}/unread", scope="read:statuses", answer=UnreadEntity)
async def get_unread(context: Context, params: OneFeed) -> object:
    """Count the statuses of a feed that the caller has not read. A ranked feed has no read position."""
    return await _unread(context, await readable_feed(context.app.graph, actor(context), params.id))


@router.put(f"{_FEEDS}/{{id}}/unread", scope="write:statuses", answer=UnreadEntity)
async def set_read_position(context: Context, params: ReadPosition) -> object:
    """Set the read position of a feed, and count the statuses after it."""
    feed = await readable_feed(context.app.graph, actor(context), params.id)
    read = {queries.marker_of(feed): params.last_read_id}
    await notifications.set_markers(context.app.writes, actor(context), read)
    return await _unread(context, feed)


async def _unread(context: Context, feed: NamedFeed) -> UnreadEntity:
    found = await queries.unread(context.app.reads, actor(context), feed)
    return UnreadEntity(
        count=found.number, more=found.more, last_read_id=str(found.last_read_id) if found.last_read_id else None
    )


@router.post(f"{_FEEDS}/dry_run", scope="read:statuses", answer=FeedDryRunEntity)
async def dry_run(context: Context, params: FeedDryRunParams) -> object:
    """Show what a declaration would show to the caller now, and how that differs from another feed. Nothing is stored.

    A declaration that is too expensive is refused, with the part that costs most.
    """
    app, viewer = context.app, actor(context)
    if params.feed and params.other is not None:
        raise InvalidInput("other: cannot be combined with feed", field="other")
    declared = await commands.checked_for(app.graph, viewer, params.declaration.value)
    other = None
    if params.feed:
        other = (await readable_feed(app.graph, viewer, params.feed)).declaration
    elif params.other is not None:
        other = await commands.checked_for(app.graph, viewer, params.other.value)
    found = await preview.dry_run(
        app.reads, viewer, declared, page_size(params.limit), other=other, parameters=params.parameters
    )

    async def shown(entry: Entry, why: Explanation) -> Any:
        page = await app.present.ranked_page(viewer, [(entry, explained(why))])
        return raw(page[1:-1])

    return FeedDryRunEntity(
        cost=_cost(cost_of(declared, await contained_feeds(app.graph, viewer, declared))),
        statuses=[
            ComparedStatus(status=await shown(each.entry, each.why), position_before=each.before)
            for each in found.entries
        ],
        comparison=None
        if found.comparison is None
        else FeedComparison(
            overlap=found.comparison.overlap,
            rank_biased_overlap=found.comparison.rank_biased_overlap,
            lost=[await shown(each.entry, each.why) for each in found.comparison.lost],
        ),
    )


@admin_router.post(_ADMIN, scope="admin:write", answer=FeedEntity)
async def create_server_feed(context: Context, params: NewServerFeed) -> object:
    """Create a feed of the server. A feed that is too expensive is refused."""
    made = await commands.create_for_server(
        context.app.writes, params.name, params.declaration.value, title=params.title
    )
    return await _entity(context, made)


@admin_router.put(f"{_ADMIN}/{{name}}", scope="admin:write", answer=FeedEntity)
async def update_server_feed(context: Context, params: ServerFeedChanges) -> object:
    """Change the title or the declaration of a feed of the server."""
    declaration = None if params.declaration is None else params.declaration.value
    changed = await commands.update_for_server(
        context.app.writes, params.name, title=params.title, declaration=declaration
    )
    return await _entity(context, changed)


@admin_router.delete(f"{_ADMIN}/{{name}}", scope="admin:write", answer=dict)
async def delete_server_feed(context: Context, params: ServerFeed) -> None:
    """Delete a feed of the server. Feeds that contain it lose its statuses."""
    await commands.delete_for_server(context.app.writes, params.name)


async def _entity(context: Context, feed: NamedFeed) -> FeedEntity:
    contained = await contained_feeds(context.app.graph, context.caller.member_id, feed.declaration)
    return _with_contained(context, feed, contained)


def _with_contained(context: Context, feed: NamedFeed, contained: Mapping[str, FeedDeclaration]) -> FeedEntity:
    declared = feed.declaration
    return FeedEntity(
        id=str(feed.id),
        name=feed.name or None,
        title=feed.title,
        account_id=str(feed.owner_id) if feed.owner_id else None,
        shared=feed.readable,
        origin_id=str(feed.origin_id) if feed.origin_id else None,
        link=f"{context.app.at.root}{_FEEDS}/{feed.name or feed.id}/declaration",
        created_at=moment(milliseconds_of(feed.id)),
        ranked=declared.ranked,
        declaration=raw(encode(declared.document())),
        cost=_cost(cost_of(declared, contained)),
    )


def _cost(cost: Cost) -> FeedCost:
    return FeedCost(
        reads=cost.reads,
        candidates=cost.candidates,
        parts=[FeedCostPart(name=part.name, reads=part.reads, candidates=part.candidates) for part in cost.parts],
    )
