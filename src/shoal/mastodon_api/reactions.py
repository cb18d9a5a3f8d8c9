"""The caller's reactions to statuses, the accounts that reacted to a status, and the statuses that the caller reacted to."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shoal.commands import declared_reactions, reactions
from shoal.commands.context import Writes
from shoal.core.emoji import checked_emoji
from shoal.core.errors import NotFound
from shoal.core.model import Post, Role, Share
from shoal.core.reactions import MAX_WEIGHT, Reaction, is_name
from shoal.graph.access import access_post
from shoal.graph.access import declared_reactions as stored_reactions
from shoal.graph.contract import Cursor
from shoal.graph.schema import LIKED_BY, LIKES, POST_MARKS, SHARED_BY, SHARES, AssocType, PostMark
from shoal.http.pagination import PageQuery, StatusesQuery, listed_data
from shoal.http.params import Id
from shoal.http.responses import raw
from shoal.mastodon_api.context import (
    Context,
    One,
    PageOf,
    Router,
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

router = Router()
admin_router = Router(role=Role.ADMIN)

_log = logging.getLogger("shoal.reactions")
_REACTIONS = "/api/shoal/v1/reactions"
_ON_STATUS = "/api/shoal/v1/statuses/{id}/reactions/{name}"

_NEWEST = 10
"""Number of accounts that are listed for each emoji of a status."""

Emoji = Annotated[str, Meta(max_length=100)]
Name = Annotated[str, Meta(max_length=100)]
Command = Callable[[Writes, int, int], Awaitable[Post]]


class Reblog(msgspec.Struct, frozen=True):
    id: Id
    visibility: Literal["public", "unlisted", "private"] = "public"


class OnStatus(msgspec.Struct, frozen=True):
    id: Id
    emoji: Emoji


class NamedOnStatus(msgspec.Struct, frozen=True):
    id: Id
    name: Name


class NamedPage(PageQuery, frozen=True, kw_only=True):
    id: Id
    name: Name


class NamedStatuses(StatusesQuery, frozen=True, kw_only=True):
    name: Name


class ReactionName(msgspec.Struct, frozen=True):
    name: Name


class ReactionParams(msgspec.Struct, frozen=True, kw_only=True):
    """The declaration of a reaction."""

    name: Name
    """1 to 32 of the characters a-z, 0-9 and _, beginning with a letter."""
    title: Annotated[str, Meta(max_length=1_000)]
    """The text of its button, at most 50 characters."""
    group: Name = ""
    """Of the reactions of a group, an account has at most one on a status; empty for none. It cannot be changed."""
    kinds: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()
    """The kinds of statuses to which it applies; empty for all statuses."""
    weight: Annotated[float, Meta(ge=0, le=MAX_WEIGHT)] = 0.0
    """How much it counts in rankings, relative to a favourite."""


class ReactionEntity(msgspec.Struct):
    """A reaction that the application declared."""

    name: str
    title: str
    group: str | None
    """Of the reactions of a group, an account has at most one on a status; null for none."""
    kinds: list[str]
    """The kinds of statuses to which it applies; empty for all statuses."""
    weight: float
    retired: bool
    """Whether accounts can no longer add it."""


class PageOfEmoji(PageQuery, frozen=True, kw_only=True):
    id: Id
    emoji: Emoji


def _add_begin(name: str, command: Command, scope: str, what: str) -> None:
    """Add a route `POST /api/v1/statuses/{id}/<name>` that calls a command on the status."""

    @router.post(f"/api/v1/statuses/{{id}}/{name}", scope=scope, answer=Status, what=what)
    async def begin(context: Context, params: One) -> object:
        return await show(context, (await command(context.app.writes, actor(context), params.id)).id)


def _add_end(name: str, command: Command, scope: str, what: str, atype: AssocType, limit_class: str = "api") -> None:
    """Add a route that removes a reaction of the caller, even from a status that the caller may no longer see."""

    @router.post(f"/api/v1/statuses/{{id}}/{name}", scope=scope, limit_class=limit_class, answer=Status, what=what)
    async def end(context: Context, params: One) -> object:
        had_reacted = await _has_reacted(context, atype, params.id)
        post = await command(context.app.writes, actor(context), params.id)
        return await (show_taken_back if had_reacted else show)(context, post.id)


async def _has_reacted(context: Context, atype: AssocType, id_: int) -> bool:
    """Return whether the caller has reacted to a status. `id_` is the id of the status, or of a share of it."""
    graph, member_id = context.app.graph, actor(context)
    node = (await graph.obj_get((id_,))).get(id_)
    post_id = node.post_id if isinstance(node, Share) else id_
    return post_id in (await graph.assoc_get(member_id, (atype,), (post_id,)))[atype]


_add_begin("favourite", reactions.like, "write:favourites", "Like a status.")
_add_end("unfavourite", reactions.unlike, "write:favourites", "Withdraw a like.", LIKES)
_add_begin("pin", reactions.pin, "write:accounts", "Pin an own status to the profile.")
_add_begin("unpin", reactions.unpin, "write:accounts", "Unpin an own status.")
_add_begin("mute", reactions.mute_thread, "write:mutes", "Mute the thread of a status.")
_add_begin("unmute", reactions.unmute_thread, "write:mutes", "Unmute the thread of a status.")
_add_end(
    "unreblog",
    reactions.unshare,
    "write:statuses",
    "Withdraw a share. Takes the id of the status or of the share.",
    SHARES,
    limit_class="delete",
)


@router.post("/api/v1/statuses/{id}/reblog", scope="write:statuses", answer=Status, delivers=True)
async def reblog(context: Context, params: Reblog) -> object:
    """Share a status, and return the share, which contains the status. A repeated request returns the existing share."""
    visibility = VISIBILITY[params.visibility]
    share = await reactions.share(context.app.writes, actor(context), params.id, visibility)
    return await show(context, share.id)


@router.get("/api/v1/statuses/{id}/favourited_by", auth="optional", scope="read:accounts", answer=list[Account])
async def favourited_by(context: Context, params: PageOf) -> object:
    """List the accounts that like a status, newest first."""
    return await _people(context, params, LIKED_BY)


@router.get("/api/v1/statuses/{id}/reblogged_by", auth="optional", scope="read:accounts", answer=list[Account])
async def reblogged_by(context: Context, params: PageOf) -> object:
    """List the accounts that shared a status, newest first."""
    return await _people(context, params, SHARED_BY)


async def _people(context: Context, params: PageOf, atype: AssocType) -> object:
    viewer, cursor = context.caller.member_id, cursor_of(params, 40, 80)
    post = await access_post(context.app.graph, viewer, params.id)
    return people_page(context, await members.page(context.app.reads, viewer, post.id, atype, cursor), cursor)


@router.get("/api/v1/favourites", scope="read:favourites", answer=list[Status])
async def favourites(context: Context, params: StatusesQuery) -> object:
    """List the statuses that the caller likes, most recently liked first."""
    return await _saved(context, params, LIKES)


def _add_mark(mark: PostMark) -> None:
    """Add the routes that set, remove and list a private mark on statuses, such as a bookmark."""
    noun = mark.noun
    begin, end = partial(reactions.mark, mark=mark), partial(reactions.unmark, mark=mark)
    _add_begin(mark.verb, begin, f"write:{noun}", f"Add a status to the caller's {noun}, which are private.")
    _add_end(f"un{mark.verb}", end, f"write:{noun}", f"Remove a status from the caller's {noun}.", mark.atype)

    @router.get(
        f"/api/v1/{noun}", scope=f"read:{noun}", answer=list[Status], what=f"List the caller's {noun}, newest first."
    )
    async def marked(context: Context, params: StatusesQuery) -> object:
        return await _saved(context, params, mark.atype)


for _mark in POST_MARKS:
    _add_mark(_mark)


async def _saved(context: Context, params: StatusesQuery, atype: AssocType) -> object:
    cursor = cursor_of(params)
    return await _saved_body(
        context, params, cursor, await posts.saved_page(context.app.reads, actor(context), atype, cursor)
    )


async def _saved_body(context: Context, params: StatusesQuery, cursor: Cursor, page: posts.SavedPage) -> object:
    member = actor(context)
    body = await context.app.present.page(member, page.entries, listed_data(with_data=params.with_data))
    return paged(context, body, page.times, page.next, cursor)


@router.get("/api/shoal/v1/statuses/{id}/likers", auth="optional", scope="read:accounts", answer=Likers)
async def likers(context: Context, params: One) -> object:
    """Return how many accounts like a status, and the five that liked it last: `{"count": n, "newest": [Account]}`."""
    found = await members.likers(context.app.reads, context.caller.member_id, params.id)
    return b'{"count":%d,"newest":%b}' % (found.total, context.app.present.accounts(found.newest))


@router.put("/api/v1/pleroma/statuses/{id}/reactions/{emoji}", scope="write:favourites", answer=Status)
@router.post("/api/v1/statuses/{id}/react/{emoji}", scope="write:favourites", answer=Status)
@router.put("/api/v1/statuses/{id}/react/{emoji}", scope="write:favourites", answer=Status)
async def react(context: Context, params: OnStatus) -> object:
    """Add an emoji to a status. Idempotent."""
    emoji = checked_emoji(params.emoji)
    return await show(context, (await reactions.react(context.app.writes, actor(context), params.id, emoji)).id)


@router.delete("/api/v1/pleroma/statuses/{id}/reactions/{emoji}", scope="write:favourites", answer=Status)
@router.post("/api/v1/statuses/{id}/unreact/{emoji}", scope="write:favourites", answer=Status)
async def unreact(context: Context, params: OnStatus) -> object:
    """Remove an emoji from a status, even from one that the caller may no longer see."""
    post = await reactions.unreact(context.app.writes, actor(context), params.id, checked_emoji(params.emoji))
    return await show_taken_back(context, post.id)


@router.get(
    "/api/v1/pleroma/statuses/{id}/reactions", auth="optional", scope="read:accounts", answer=list[EmojiReactors]
)
async def emoji(context: Context, params: One) -> object:
    """List the emoji reactions to a status by first use. Each has the ten accounts that added it last."""
    found = await members.emoji_reactors(context.app.reads, context.caller.member_id, params.id, _NEWEST)
    return [
        EmojiReactors(
            reactors.emoji,
            reactors.count,
            reactors.me,
            [raw(context.app.present.account(profile)) for profile in reactors.newest],
        )
        for reactors in found
        if not reactors.named
    ]


@router.get(
    "/api/v1/pleroma/statuses/{id}/reactions/{emoji}",
    auth="optional",
    scope="read:accounts",
    answer=list[EmojiReactors],
)
async def emoji_by(context: Context, params: PageOfEmoji) -> object:
    """List the accounts that reacted to a status with an emoji, newest first. The response is an array with one emoji, or none."""
    cursor = cursor_of(params, 40, 80)
    emoji = checked_emoji(params.emoji)
    counted, page = await members.emoji_page(context.app.reads, context.caller.member_id, params.id, emoji, cursor)
    accounts = [raw(context.app.present.account(profile)) for profile in page.profiles]
    found = [EmojiReactors(counted.emoji, counted.count, counted.me, accounts)] if counted.count else []
    return paged(context, found, page.times, page.next, cursor)


@router.get(_REACTIONS, auth="public", answer=list[ReactionEntity])
async def list_reactions(context: Context, _params: None) -> list[ReactionEntity]:
    """List the declared reactions, in the order of their declaration, with the retired ones."""
    return [_entity(each) for each in (await stored_reactions(context.app.graph)).reactions]


@admin_router.put(f"{_REACTIONS}/{{name}}", scope="admin:write", answer=ReactionEntity)
async def declare_reaction(context: Context, params: ReactionParams) -> ReactionEntity:
    """Declare a reaction, change its title, kinds and weight, or restore a retired one."""
    draft = Reaction(**{field: getattr(params, field) for field in params.__struct_fields__})
    reaction = await declared_reactions.declare(context.app.writes, draft)
    _log.info("moderator %s: declare reaction %s", actor(context), reaction.name)
    return _entity(reaction)


@admin_router.delete(f"{_REACTIONS}/{{name}}", scope="admin:write", answer=ReactionEntity)
async def retire_reaction(context: Context, params: ReactionName) -> ReactionEntity:
    """Retire a reaction: accounts can no longer add it. Existing reactions stay."""
    reaction = await declared_reactions.retire(context.app.writes, params.name)
    _log.info("moderator %s: retire reaction %s", actor(context), reaction.name)
    return _entity(reaction)


@router.put(_ON_STATUS, scope="write:favourites", answer=Status)
async def add_reaction(context: Context, params: NamedOnStatus) -> object:
    """Add a declared reaction to a status. It replaces the caller's other one of its group. Idempotent."""
    _check_name(params.name)
    return await show(context, (await reactions.react(context.app.writes, actor(context), params.id, params.name)).id)


@router.delete(_ON_STATUS, scope="write:favourites", answer=Status)
async def remove_reaction(context: Context, params: NamedOnStatus) -> object:
    """Remove a declared reaction from a status, even from one that the caller may no longer see."""
    _check_name(params.name)
    post = await reactions.unreact(context.app.writes, actor(context), params.id, params.name)
    return await show_taken_back(context, post.id)


@router.get(_ON_STATUS, auth="optional", scope="read:accounts", answer=list[Account])
async def reacting_accounts(context: Context, params: NamedPage) -> object:
    """List the accounts that reacted to a status with a declared reaction, newest first."""
    _check_name(params.name)
    viewer, cursor = context.caller.member_id, cursor_of(params, 40, 80)
    _, page = await members.emoji_page(context.app.reads, viewer, params.id, params.name, cursor)
    return people_page(context, page, cursor)


@router.get(f"{_REACTIONS}/{{name}}/statuses", scope="read:favourites", answer=list[Status])
async def reacted_statuses(context: Context, params: NamedStatuses) -> object:
    """List the statuses to which the caller reacted with a declared reaction, the last changed reaction first."""
    cursor = cursor_of(params)
    page = await posts.reacted_page(context.app.reads, actor(context), params.name, cursor)
    return await _saved_body(context, params, cursor, page)


def _check_name(name: str) -> None:
    if not is_name(name):
        raise NotFound(f"there is no reaction {name[:100]!r}")


def _entity(reaction: Reaction) -> ReactionEntity:
    return ReactionEntity(
        name=reaction.name,
        title=reaction.title,
        group=reaction.group or None,
        kinds=list(reaction.kinds),
        weight=reaction.weight,
        retired=reaction.retired,
    )
