"""Timelines: home, public, tag and nearby."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta

from shoal.core.errors import InvalidInput, NotFound
from shoal.core.places import DEFAULT_RADIUS_KM, MAX_RADIUS_KM, MIN_RADIUS_KM, disk
from shoal.core.text import check_tag
from shoal.http.pagination import StatusesQuery
from shoal.mastodon_api.context import Context, Router, actor, cursor_of, entries_page
from shoal.mastodon_api.entities.statuses import Status
from shoal.queries import home as home_feed
from shoal.queries import public_timelines
from shoal.queries.pipeline import Page

router = Router()

_Tag = Annotated[str, Meta(max_length=400)]
_Tags = Annotated[tuple[_Tag, ...], Meta(max_length=10)]


class Public(StatusesQuery, frozen=True, kw_only=True):
    only_media: bool = False
    local: bool = False
    """Has no effect: all accounts are local."""
    remote: bool = False

    @property
    def only_remote(self) -> bool:
        return self.remote and not self.local


class TagTimelineQuery(Public, frozen=True, kw_only=True):
    tag: _Tag
    any: _Tags = ()
    """Also include statuses with any of these tags."""
    all: _Tags = ()
    """Only statuses with all of these tags."""
    none: _Tags = ()
    """No statuses with any of these tags."""


class NearbyQuery(StatusesQuery, frozen=True, kw_only=True):
    latitude: Annotated[float, Meta(ge=-90, le=90)]
    longitude: Annotated[float, Meta(ge=-180, le=180)]
    radius_km: Annotated[float, Meta(ge=MIN_RADIUS_KM, le=MAX_RADIUS_KM)] = DEFAULT_RADIUS_KM
    only_media: bool = False


_EMPTY = Page([], None)


@router.get("/api/v1/timelines/home", scope="read:statuses", answer=list[Status], cached=True)
async def home(context: Context, params: StatusesQuery) -> object:
    """List the newest statuses by the caller, by followed accounts and with followed tags."""
    cursor = cursor_of(params)
    page = await home_feed.page(context.app.reads, actor(context), cursor)
    return await entries_page(context, page, cursor, with_data=params.with_data, filters_applied=True)


@router.get("/api/v1/timelines/tag/{tag}", auth="optional", scope="read:statuses", answer=list[Status], cached=True)
async def tag(context: Context, params: TagTimelineQuery) -> object:
    """List the newest public statuses with a tag, or a combination of tags."""
    name = _valid(params.tag)
    if name is None:
        raise NotFound("Record not found")
    cursor, viewer = cursor_of(params), context.caller.member_id
    required = [_valid(tag) for tag in params.all]
    query = public_timelines.TagQuery(
        any_of=frozenset((name, *_all_valid(params.any))),
        all_of=frozenset(_all_valid(params.all)),
        none_of=frozenset(_all_valid(params.none)),
        only_media=params.only_media,
    )
    page = _EMPTY
    # No status has an invalid tag, so a required invalid tag matches nothing.
    if not params.only_remote and None not in required:
        page = await public_timelines.tag_page(context.app.reads, viewer, query, cursor)
    return await entries_page(context, page, cursor, with_data=params.with_data)


@router.get("/api/v1/timelines/public", auth="optional", scope="read:statuses", answer=list[Status], cached=True)
async def public(context: Context, params: Public) -> object:
    """List the newest public statuses of all accounts. Replies to other accounts and shares are left out."""
    cursor, viewer = cursor_of(params), context.caller.member_id
    page = _EMPTY
    if not params.only_remote:
        page = await public_timelines.public_page(context.app.reads, viewer, cursor, only_media=params.only_media)
    return await entries_page(context, page, cursor, with_data=params.with_data)


@router.get("/api/shoal/v1/timelines/nearby", auth="optional", scope="read:statuses", answer=list[Status])
async def nearby(context: Context, params: NearbyQuery) -> object:
    """List the newest public statuses within a radius of a place."""
    cursor, around = cursor_of(params), disk(params.latitude, params.longitude, params.radius_km)
    page = await public_timelines.nearby_page(
        context.app.reads, context.caller.member_id, around, cursor, only_media=params.only_media
    )
    return await entries_page(context, page, cursor, with_data=params.with_data)


def _all_valid(tags: Iterable[str]) -> list[str]:
    return [valid for tag in tags if (valid := _valid(tag)) is not None]


def _valid(tag: str) -> str | None:
    try:
        return check_tag(tag)
    except InvalidInput:
        return None
