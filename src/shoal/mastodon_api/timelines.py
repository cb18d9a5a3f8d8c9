"""Timelines: home, public, tag and nearby, and markers of the caller's position in home and notifications."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.commands import notifications
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.ids import milliseconds_of
from shoal.core.places import DEFAULT_RADIUS_KM, MAX_RADIUS_KM, MIN_RADIUS_KM, disk
from shoal.core.text import check_tag
from shoal.graph.payloads.members import HOME, NOTIFICATIONS, Mark, marks
from shoal.http.pagination import StatusesQuery, listed_data
from shoal.http.params import Id
from shoal.mastodon_api import context as endpoints
from shoal.mastodon_api.context import Context, actor, cursor_of, entries_page
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities.notifications import Marker
from shoal.mastodon_api.entities.statuses import Status
from shoal.queries import home as home_feed
from shoal.queries import public_timelines
from shoal.queries import public_timelines as nearby_feed
from shoal.queries import public_timelines as public_feed
from shoal.queries.pipeline import Page

_Tag = Annotated[str, Meta(max_length=400)]
_Tags = Annotated[tuple[_Tag, ...], Meta(max_length=10)]


class Public(StatusesQuery, frozen=True, kw_only=True):
    """A page of what is for everybody."""

    only_media: bool = False
    local: bool = False
    """Everybody is local here."""
    remote: bool = False

    @property
    def only_remote(self) -> bool:
        """Whether that alone is wanted of which there is none."""
        return self.remote and not self.local


class TagTimelineQuery(Public, frozen=True, kw_only=True):
    """A page of the posts under a tag."""

    tag: _Tag
    any: _Tags = ()
    """Or under one of these."""
    all: _Tags = ()
    """And under all of these."""
    none: _Tags = ()
    """But under none of these."""


class NearbyQuery(StatusesQuery, frozen=True, kw_only=True):
    """A page of the posts from around a place."""

    latitude: Annotated[float, Meta(ge=-90, le=90)]
    longitude: Annotated[float, Meta(ge=-180, le=180)]
    radius_km: Annotated[float, Meta(ge=MIN_RADIUS_KM, le=MAX_RADIUS_KM)] = DEFAULT_RADIUS_KM
    only_media: bool = False


_EMPTY = Page([], None)


async def home(context: Context, params: StatusesQuery) -> object:
    """The newest by the caller, by those they follow and under the tags they follow."""
    front = context.deps
    cursor = cursor_of(params)
    page = await home_feed.page(front.reads, actor(context), cursor)
    data = listed_data(wanted=params.with_data)
    return await entries_page(context, page, cursor, data=data, filters_applied=True)


async def tag(context: Context, params: TagTimelineQuery) -> object:
    """The newest public statuses under a tag, or several."""
    front = context.deps
    name = _known(params.tag)
    if name is None:
        raise NotFound("Record not found")
    cursor, every = cursor_of(params), [_known(tag) for tag in params.all]
    query = public_timelines.TagQuery(
        any_of=frozenset((name, *_all_known(params.any))),
        all_of=frozenset(_all_known(params.all)),
        none_of=frozenset(_all_known(params.none)),
        only_media=params.only_media,
    )
    # What is no tag at all is on no status.
    nothing = params.only_remote or None in every
    page = _EMPTY if nothing else await public_timelines.tag_page(front.reads, context.caller.member_id, query, cursor)
    return await entries_page(context, page, cursor, data=listed_data(wanted=params.with_data))


async def public(context: Context, params: Public) -> object:
    """The newest public statuses of everybody, without replies to others and shares."""
    front = context.deps
    cursor, viewer = cursor_of(params), context.caller.member_id
    page = _EMPTY
    if not params.only_remote:
        page = await public_feed.public_page(front.reads, viewer, cursor, only_media=params.only_media)
    return await entries_page(context, page, cursor, data=listed_data(wanted=params.with_data))


async def nearby(context: Context, params: NearbyQuery) -> object:
    """The newest public statuses from within some kilometres of a place."""
    front = context.deps
    cursor, around = cursor_of(params), disk(params.latitude, params.longitude, params.radius_km)
    page = await nearby_feed.nearby_page(
        front.reads, context.caller.member_id, around, cursor, only_media=params.only_media
    )
    return await entries_page(context, page, cursor, data=listed_data(wanted=params.with_data))


def _all_known(tags: Iterable[str]) -> list[str]:
    return [known for tag in tags if (known := _known(tag)) is not None]


def _known(tag: str) -> str | None:
    """The canonical form; None for what cannot be a tag."""
    try:
        return check_tag(tag)
    except InvalidInput:
        return None


ROUTES = (
    endpoints.statuses_page("GET", "/api/v1/timelines/home", home, scope="read:statuses", remembered=True),
    endpoints.seen(
        "GET",
        "/api/v1/timelines/public",
        public,
        scope="read:statuses",
        params=Public,
        answer=list[Status],
        remembered=True,
    ),
    endpoints.seen(
        "GET",
        "/api/v1/timelines/tag/{tag}",
        tag,
        scope="read:statuses",
        params=TagTimelineQuery,
        answer=list[Status],
        remembered=True,
    ),
    endpoints.seen(
        "GET",
        "/api/shoal/v1/timelines/nearby",
        nearby,
        scope="read:statuses",
        params=NearbyQuery,
        answer=list[Status],
    ),
)


TIMELINES = (HOME, NOTIFICATIONS)


class MarkersQuery(msgspec.Struct, frozen=True):
    """Timelines whose markers are asked for: `home` and `notifications`."""

    timeline: Annotated[tuple[Annotated[str, Meta(max_length=100)], ...], Meta(max_length=100)] = ()


class MarkerPosition(msgspec.Struct, frozen=True):
    """The newest that was read."""

    last_read_id: Id | None = None


class MarkerPositions(msgspec.Struct, frozen=True):
    """Markers to set, by timeline: how far the caller has read."""

    home: MarkerPosition | None = None
    notifications: MarkerPosition | None = None


async def show(context: Context, params: MarkersQuery) -> object:
    """The markers of these timelines; one that was never set is left out."""
    front = context.deps
    wanted = [name for name in TIMELINES if name in params.timeline]
    return _shown(await marks(front.graph, actor(context), wanted))


async def mark(context: Context, params: MarkerPositions) -> object:
    """Set markers; what they are now is the answer."""
    front = context.deps
    given = {HOME: params.home, NOTIFICATIONS: params.notifications}
    read = {name: place.last_read_id for name, place in given.items() if place and place.last_read_id is not None}
    return _shown(await notifications.set_markers(front.writes, actor(context), read))


def _shown(found: Mapping[str, Mark]) -> dict[str, Marker]:
    return {
        name: Marker(str(mark.last_read_id), mark.version, serializers.moment(milliseconds_of(mark.time)))
        for name, mark in found.items()
    }


MARKER_ROUTES = (
    endpoints.route(
        "GET",
        "/api/v1/markers",
        show,
        scope="read:statuses",
        params=MarkersQuery,
        answer=dict[str, Marker],
    ),
    endpoints.route(
        "POST",
        "/api/v1/markers",
        mark,
        scope="write:statuses",
        params=MarkerPositions,
        answer=dict[str, Marker],
    ),
)
