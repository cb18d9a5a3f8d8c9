"""Reactions of the caller to a status, the accounts that reacted to one, and the lists of statuses reacted to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shoal.commands import reactions
from shoal.commands.context import Writes
from shoal.core.emoji import checked_emoji
from shoal.core.model import Post, Share
from shoal.graph.access import access_post
from shoal.graph.schema import LIKED_BY, LIKES, POST_MARKS, SHARED_BY, SHARES, AssocType, PostMark
from shoal.http.pagination import PageQuery, StatusesQuery, listed_data
from shoal.http.params import Id
from shoal.http.responses import Reply, raw
from shoal.http.routes import Route
from shoal.mastodon_api import context as endpoints
from shoal.mastodon_api.context import (
    Context,
    Front,
    Handler,
    One,
    PageOf,
    actor,
    cursor_of,
    paged,
    people_page,
    show,
    show_taken_back,
)
from shoal.mastodon_api.entities.serializers import VISIBILITY
from shoal.mastodon_api.entities.statuses import Account, EmojiReactors, Likers, Status
from shoal.queries import members, posts

_NEWEST = 10
"""Accounts of each emoji, where all emoji are asked for."""

Emoji = Annotated[str, Meta(max_length=100)]

Verb = Callable[[Writes, int, int], Awaitable[Post]]


class Reblog(msgspec.Struct, frozen=True):
    """Which status, and who may see that it was shared."""

    id: Id
    visibility: Literal["public", "unlisted", "private"] = "public"


class OnStatus(msgspec.Struct, frozen=True):
    """Which status, and an emoji."""

    id: Id
    emoji: Emoji


class PageOfEmoji(PageQuery, frozen=True, kw_only=True):
    """A page of the accounts that put an emoji on a status."""

    id: Id
    emoji: Emoji


def _handler(verb: Verb) -> Handler[One]:
    async def handler(context: Context, params: One) -> object:
        front = context.deps
        return await show(context, (await verb(front.writes, actor(context), params.id)).id)

    handler.__doc__ = verb.__doc__
    return handler


def _taking_back(verb: Verb, atype: AssocType) -> Handler[One]:
    """Return a handler that ends the caller's own reaction, even to a status that is hidden from them by now."""

    async def handler(context: Context, params: One) -> object:
        front = context.deps
        ended = await _stands(front, actor(context), atype, params.id)
        post = await verb(front.writes, actor(context), params.id)
        return await (show_taken_back if ended else show)(context, post.id)

    handler.__doc__ = verb.__doc__
    return handler


async def _stands(front: Front, member_id: int, atype: AssocType, id_: int) -> bool:
    """Whether the member has done this to the status, by its id or by that of a share of it."""
    node = (await front.graph.obj_get((id_,))).get(id_)
    post_id = node.post_id if isinstance(node, Share) else id_
    return post_id in (await front.graph.assoc_get(member_id, (atype,), (post_id,)))[atype]


unreblog = _taking_back(reactions.unshare, SHARES)


def _pair(name: str, begin: Verb, end: Verb, scope: str, atype: AssocType | None = None) -> tuple[Route, Route]:
    """Return the two routes of something that a member does to a status, and takes back.

    With `atype` it can be taken back even from a status that is hidden from them by now.
    """
    undo = _handler(end) if atype is None else _taking_back(end, atype)
    path = "/api/v1/statuses/{id}"
    return (
        endpoints.one("POST", f"{path}/{name}", _handler(begin), scope=scope, answer=Status),
        endpoints.one("POST", f"{path}/un{name}", undo, scope=scope, answer=Status),
    )


async def reblog(context: Context, params: Reblog) -> object:
    """The share, with the status that it shows inside; a second time gives the same share."""
    front = context.deps
    visibility = VISIBILITY[params.visibility]
    return await show(context, (await reactions.share(front.writes, actor(context), params.id, visibility)).id)


async def favourited_by(context: Context, params: PageOf) -> object:
    """List the accounts that like a status, newest first."""
    return await _people(context, params, LIKED_BY)


async def reblogged_by(context: Context, params: PageOf) -> object:
    """List the accounts that shared a status, newest first."""
    return await _people(context, params, SHARED_BY)


async def _people(context: Context, params: PageOf, atype: AssocType) -> object:
    front = context.deps
    viewer, cursor = context.caller.member_id, cursor_of(params, 40, 80)
    post = await access_post(front.graph, viewer, params.id)
    return people_page(context, await members.page(front.reads, viewer, post.id, atype, cursor), cursor)


async def favourites(context: Context, params: StatusesQuery) -> object:
    """List the statuses that the caller likes, newest like first."""
    return await _kept(context, params, LIKES)


async def _kept(context: Context, params: StatusesQuery, atype: AssocType) -> object:
    front = context.deps
    cursor, member = cursor_of(params), actor(context)
    page = await posts.saved_page(front.reads, member, atype, cursor)
    body = await front.present.page(member, page.entries, listed_data(wanted=params.with_data))
    return paged(context, body, page.times, page.next, cursor)


def _routes_of(mark: PostMark) -> tuple[Route, ...]:
    """Return the routes that set, remove and list a private mark."""

    async def begin(writes: Writes, member_id: int, post_id: int) -> Post:
        return await reactions.mark(writes, member_id, post_id, mark)

    async def end(writes: Writes, member_id: int, post_id: int) -> Post:
        return await reactions.unmark(writes, member_id, post_id, mark)

    async def marked(context: Context, params: StatusesQuery) -> object:
        return await _kept(context, params, mark.atype)

    begin.__doc__ = f"Add a status to the caller's {mark.noun}. Only the caller can see them."
    end.__doc__ = f"Remove a status from the caller's {mark.noun}."
    marked.__doc__ = f"List the statuses that the caller {mark.state}, last {mark.state} first."
    return (
        *_pair(mark.verb, begin, end, f"write:{mark.noun}", mark.atype),
        endpoints.statuses_page("GET", f"/api/v1/{mark.noun}", marked, scope=f"read:{mark.noun}"),
    )


async def likers(context: Context, params: One) -> object:
    """How many like a status, and the newest five of them: `{"count": n, "newest": [Account]}`."""
    front = context.deps
    found = await members.likers(front.reads, context.caller.member_id, params.id)
    return b'{"count":%d,"newest":%b}' % (found.total, front.present.accounts(found.newest))


async def react(context: Context, params: OnStatus) -> object:
    """Put an emoji on a status; a second time changes nothing."""
    front = context.deps
    return await show(context, (await reactions.react(front.writes, actor(context), params.id, params.emoji)).id)


async def unreact(context: Context, params: OnStatus) -> object:
    """Take an emoji off a status, also off one that the caller may no longer see."""
    front = context.deps
    post = await reactions.unreact(front.writes, actor(context), params.id, params.emoji)
    return await show_taken_back(context, post.id)


async def emoji(context: Context, params: One) -> object:
    """List the emoji on a status, the oldest first, each with the newest ten accounts that put it there."""
    front = context.deps
    found = await members.emoji_reactors(front.reads, context.caller.member_id, params.id, _NEWEST)
    return [
        EmojiReactors(one.emoji, one.count, one.me, [raw(front.present.account(profile)) for profile in one.newest])
        for one in found
    ]


async def emoji_by(context: Context, params: PageOfEmoji) -> Reply:
    """List the accounts that put one emoji on a status, newest first, in an array of one emoji (or of none)."""
    front = context.deps
    cursor = cursor_of(params, 40, 80)
    emoji = checked_emoji(params.emoji)
    counted, page = await members.emoji_page(front.reads, context.caller.member_id, params.id, emoji, cursor)
    accounts = [raw(front.present.account(profile)) for profile in page.profiles]
    found = [EmojiReactors(counted.emoji, counted.count, counted.me, accounts)] if counted.count else []
    return paged(context, msgspec.json.encode(found), page.times, page.next, cursor)


_STATUS = "/api/v1/statuses/{id}"
_PLEROMA = "/api/v1/pleroma/statuses/{id}/reactions"

_verb = endpoints.route.having(scope="write:favourites", answer=Status).taking(OnStatus)
_list = endpoints.seen.having(scope="read:accounts", answer=list[EmojiReactors])

ROUTES = (
    *_pair("favourite", reactions.like, reactions.unlike, "write:favourites", LIKES),
    endpoints.route(
        "POST",
        "/api/v1/statuses/{id}/reblog",
        reblog,
        scope="write:statuses",
        params=Reblog,
        answer=Status,
        delivers=True,
    ),
    endpoints.route(
        "POST",
        "/api/v1/statuses/{id}/unreblog",
        unreblog,
        scope="write:statuses",
        limit_class="delete",
        params=One,
        answer=Status,
    ),
    *[route for mark in POST_MARKS for route in _routes_of(mark)],
    *_pair("pin", reactions.pin, reactions.unpin, "write:accounts"),
    *_pair("mute", reactions.mute_thread, reactions.unmute_thread, "write:mutes"),
    endpoints.seen(
        "GET",
        "/api/v1/statuses/{id}/favourited_by",
        favourited_by,
        scope="read:accounts",
        params=PageOf,
        answer=list[Account],
    ),
    endpoints.seen(
        "GET",
        "/api/v1/statuses/{id}/reblogged_by",
        reblogged_by,
        scope="read:accounts",
        params=PageOf,
        answer=list[Account],
    ),
    endpoints.statuses_page("GET", "/api/v1/favourites", favourites, scope="read:favourites"),
    endpoints.seen(
        "GET",
        "/api/shoal/v1/statuses/{id}/likers",
        likers,
        scope="read:accounts",
        params=One,
        answer=Likers,
    ),
    _verb("PUT", f"{_STATUS}/react/{{emoji}}", react),
    _verb("POST", f"{_STATUS}/react/{{emoji}}", react),
    _verb("POST", f"{_STATUS}/unreact/{{emoji}}", unreact),
    _verb("PUT", f"{_PLEROMA}/{{emoji}}", react),
    _verb("DELETE", f"{_PLEROMA}/{{emoji}}", unreact),
    _list("GET", _PLEROMA, emoji, params=One),
    _list("GET", f"{_PLEROMA}/{{emoji}}", emoji_by, params=PageOfEmoji),
)
