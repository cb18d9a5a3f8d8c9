"""Member profiles: the profile page with its tabs, the portfolio, the settings page that edits them, and the upload of images."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from markupsafe import Markup
from msgspec import Meta
from msgspec.structs import replace
from starlette.responses import Response

from shoal import gazetteer
from shoal.commands import members, relationships
from shoal.commands.members import ProfileChange
from shoal.core.errors import Gone, Held, InvalidInput, NotFound
from shoal.core.filters import FilterContext
from shoal.core.media_files import still_of, with_sizes
from shoal.core.model import Member
from shoal.core.visibility import Relation
from shoal.graph.access import relation
from shoal.graph.contract import Cursor
from shoal.graph.feed_lookup import feeds_of, readable_among
from shoal.graph.schema import ENDORSES
from shoal.http.params import Upload
from shoal.http.routes import Route
from shoal.media.library import AVATAR, HEADER
from shoal.queries import members as member_queries
from shoal.queries import posts
from shoal.queries import tags as tag_queries
from shoal.queries.hydration import Entry, Profile, profiles_by_id
from shoal.queries.members import Received, familiar
from shoal.queries.pipeline import Page, filtered
from shoal.settings import Settings
from shoal.web import routing, syndication
from shoal.web.feed_views import FeedView, feed_views
from shoal.web.form_errors import RIGHT, Wrong, error_text, wrong_of
from shoal.web.layout import bare_shell
from shoal.web.pending_actions import PendingAction
from shoal.web.photo_grid import PHOTOS, Listing, PhotoGrid, every_picture, grid_of
from shoal.web.place_names import location_label
from shoal.web.rendering import SIZE, HandlePath, framed, listing_page, next_of, page, part
from shoal.web.request_context import Form, IdForm, PageContext, Text
from shoal.web.settings_layout import NOT_SAVED, SettingsQuery, saved_at, settings_page
from shoal.web.syndication import profile_card
from shoal.web.view_models import Face, Relationship, face_of, relationship_of, srcset_of, tag_path

_FACES = 3


class Number(NamedTuple):
    value: str
    words: str
    path: str = ""


class ProfileHead(msgspec.Struct, frozen=True):
    face: Face
    avatar: str
    """The HTML attribute `srcset`: the URL of each size, with its width in pixels."""
    header: str
    header_files: str
    note: Markup
    numbers: tuple[Number, ...]
    location: str
    """Place where the member lives; empty if the member does not show it."""
    relationship: Relationship
    marks: tuple[str, ...]
    known: tuple[Face, ...]
    """Followees of the viewer who also follow the member."""
    known_words: str
    private_note: str = ""


class About(NamedTuple):
    fields: tuple[tuple[str, Markup], ...]
    joined: str
    received: tuple[Number, ...]
    endorsed: tuple[Face, ...]
    tags: tuple[tuple[str, str], ...]


def _number(ctx: PageContext, one: str, many: str, n: int, leads: str = "") -> Number:
    return Number(ctx.words.compact(n), ctx.words.plural(one, many, n), leads)


def _numbers(ctx: PageContext, profile: Profile) -> Iterator[Number]:
    member = profile.member
    shows = not member.hides_connections or member.id == ctx.viewer_id
    path, number = ctx.url(f"/@{member.name}"), partial(_number, ctx)
    yield number("post", "posts", profile.posts, f"{path}?show=posts")
    yield number("follower", "followers", profile.followers, f"{path}/followers" if shows else "")
    if shows:
        yield number("following", "following", profile.following, f"{path}/following")


def _received(ctx: PageContext, received: Received) -> Iterator[Number]:
    number = partial(_number, ctx)
    if received.likes:
        yield number("like received", "likes received", received.likes)
    if received.shares:
        yield number("share received", "shares received", received.shares)


def _marks(ctx: PageContext, member: Member, relation: Relation) -> Iterator[str]:
    _ = ctx.words.text
    if member.bot:
        yield _("automated")
    if relation.followed_by:
        yield _("follows you")
    if relation.requested_by:
        yield _("requested to follow you")
    if relation.muting:
        yield _("muted")
    if member.locked:
        yield _("approves followers")


def _known(ctx: PageContext, known: Sequence[Profile]) -> str:
    if not known:
        return ""
    names = ", ".join(profile.member.shown_name for profile in known[:2])
    if (others := len(known) - 2) > 0:
        return ctx.words.counted(
            "Followed by %(names)s and %(n)s other you know",
            "Followed by %(names)s and %(n)s others you know",
            others,
            names=names,
        )
    return ctx.words.text("Followed by %(names)s, whom you know") % {"names": names}


_ENDORSED = 6
_FOLLOW = {"follow": relationships.follow, "unfollow": relationships.unfollow}
_OTHERS = {
    "block": relationships.block,
    "unblock": relationships.unblock,
    "mute": relationships.mute,
    "unmute": relationships.unmute,
    "remove": relationships.remove_follower,
    "endorse": relationships.endorse,
    "unendorse": relationships.unendorse,
}


class ProfilePath(HandlePath, frozen=True, kw_only=True):
    show: Literal["photos", "posts", "replies", "about"] = "photos"


class RelationshipForm(IdForm, frozen=True, kw_only=True):
    do: Literal["follow", "unfollow", "block", "unblock", "mute", "unmute", "remove", "endorse", "unendorse"]


# No tab of a profile shows direct messages. They are shown only in their conversations.
_QUERIES = {
    "photos": posts.MemberFeedQuery(only_media=True, no_shares=True, no_comments=True, no_direct=True),
    "posts": posts.MemberFeedQuery(no_comments=True, no_direct=True),
    "replies": posts.MemberFeedQuery(only_replies=True, no_direct=True),
}


async def show(ctx: PageContext, path: ProfilePath) -> Response:
    """Show a member's profile with their posts. A path that ends in `.atom` returns their Atom feed instead."""
    name, ending = syndication.ending_of(path.handle)
    member = await member_of(ctx, name)
    if ending:
        return await syndication.of_member(ctx, member, ending)
    if path.show == "about":
        return await _about(ctx, member)
    found = await _listing(ctx, member, path)
    if ctx.partial:
        return await listing_page(ctx, "profile", found)
    profile, shown = await _profile(ctx, member)
    return await listing_page(
        ctx,
        "profile",
        found,
        title=f"{shown.face.shown} (@{member.name})",
        head=shown,
        tab=path.show,
        has_posts=profile.posts > 0,
        card=profile_card(ctx, profile),
    )


async def listing(ctx: PageContext, path: ProfilePath) -> Listing:
    """Return a page of a member's photos or posts."""
    member = await member_of(ctx, path.handle)
    return await _listing(ctx, member, path) if path.show in _QUERIES else Listing((), "")


async def _listing(ctx: PageContext, member: Member, path: ProfilePath) -> Listing:
    found, pinned = await _posts(ctx, member, path)
    if path.show != "photos":
        return Listing(found.entries, next_of(ctx, f"/@{member.name}", found.next, show=path.show))
    grid = grid_of(ctx, found.entries, everything=True, reorder=False, alone=not path.before, pinned=pinned)
    return Listing(found.entries, next_of(ctx, f"/@{member.name}", found.next), grid)


async def _posts(ctx: PageContext, member: Member, path: ProfilePath) -> tuple[Page, frozenset[int]]:
    """Return a page of posts for a tab of the profile, pinned posts first, and the ids of the pinned posts."""
    reads, viewer, query = ctx.reads, ctx.viewer_id, _QUERIES[path.show]
    cursor = path.cursor(PHOTOS if path.show == "photos" else SIZE)
    found = await posts.authored_page(reads, viewer, member.id, cursor, query)
    top: list[Entry] = []
    if path.show != "replies":
        pins = await posts.pinned(reads, viewer, member.id, query=query if path.show == "photos" else posts.ALL)
        top = [replace(entry, on_top=True) for entry in pins]
    pinned = frozenset(entry.id for entry in top)
    entries = [*([] if path.before else top), *(entry for entry in found.entries if entry.id not in pinned)]
    return Page(await filtered(reads.graph, viewer, entries, FilterContext.ACCOUNT), found.next), pinned


async def _about(ctx: PageContext, member: Member) -> Response:
    reads, viewer, at = ctx.reads, ctx.viewer_id, ctx.app.at
    (profile, shown), endorsed, tags, received, feeds = await asyncio.gather(
        _profile(ctx, member),
        member_queries.page(reads, viewer, member.id, ENDORSES, Cursor(limit=_ENDORSED)),
        tag_queries.names(reads.graph, member.id),
        member_queries.received(reads, viewer, member.id),
        _feeds(ctx, member),
    )
    about = About(
        fields=tuple((field.name, Markup(at.html(field.value, member.mentions))) for field in member.fields),  # noqa: S704 (escaped when it was made)
        joined=ctx.words.day(member.created_at),
        received=tuple(_received(ctx, received)),
        endorsed=tuple(face_of(ctx, featured.member) for featured in endorsed.profiles),
        tags=tuple((name, tag_path(ctx, name)) for name in tags),
    )
    title = ctx.words.text("About %(name)s") % {"name": shown.face.shown}
    views: dict[str, Any] = {"head": shown, "tab": "about", "about": about, "card": profile_card(ctx, profile)}
    return await page(ctx, "profile_about", title=title, feeds=feeds, **views)


async def _feeds(ctx: PageContext, member: Member) -> list[FeedView]:
    """Return the member's feeds that the viewer may read."""
    readable = await readable_among(ctx.graph, ctx.viewer_id, await feeds_of(ctx.graph, member.id))
    return [row._replace(owner=None) for row in await feed_views(ctx, readable)]


async def portfolio(ctx: PageContext, path: HandlePath) -> Response:
    """Show the pictures of a member without the interface. Only public posts that need no warning are included."""
    member = await member_of(ctx, path.handle)
    grid, following = await _portfolio(ctx, member, path)
    if ctx.partial:
        return part(ctx, "photo_rows", grid=grid, next=following)
    profiles = await profiles_by_id(ctx.reads.graph, ctx.viewer_id, (member.id,))
    address = f"{ctx.app.at.account(member.name)}/portfolio"
    pictures = tuple(one.photo for one in grid.photos[:1])
    card = profile_card(ctx, profiles[0]) if profiles else None
    return framed(
        ctx,
        bare_shell(ctx, ctx.words.text("Photos by %(name)s") % {"name": member.shown_name}),
        "portfolio",
        face=face_of(ctx, member),
        grid=grid,
        next=following,
        card=card and replace(card, url=address, pictures=pictures or card.pictures, large=bool(pictures)),
    )


async def portfolio_listing(ctx: PageContext, path: HandlePath) -> Listing:
    """Return a page of the pictures in a member's portfolio."""
    grid, following = await _portfolio(ctx, await member_of(ctx, path.handle), path)
    return Listing((), following, grid)


async def _portfolio(ctx: PageContext, member: Member, path: HandlePath) -> tuple[PhotoGrid, str]:
    found, _ = await _posts(ctx, member, ProfilePath(handle=path.handle, before=path.before))
    grid = every_picture(ctx, [entry for entry in found.entries if entry.post.open], alone=not path.before)
    return grid, next_of(ctx, f"/@{member.name}/portfolio", found.next)


async def head(ctx: PageContext, member: Member) -> ProfileHead:
    return (await _profile(ctx, member))[1]


async def _profile(ctx: PageContext, member: Member) -> tuple[Profile, ProfileHead]:
    """Return the profile of a member, and the header of the profile page as the viewer sees it."""
    reads, viewer = ctx.reads, ctx.viewer_id
    others = viewer if viewer != member.id else None
    profiles, current, known = await asyncio.gather(
        profiles_by_id(reads.graph, viewer, (member.id,)),
        relation(reads.graph, viewer, member.id),
        familiar(reads, others, (member.id,)) if others is not None else _no_profiles(),
    )
    if not profiles:
        # The member was suspended while this request was processed.
        raise Gone(ctx.words.text("This member is suspended."))
    profile, at = profiles[0], ctx.app.at
    member, followers = profile.member, known.get(member.id, [])
    return (
        profile,
        ProfileHead(
            face=face_of(ctx, member),
            avatar=srcset_of(with_sizes(at.avatar(still_of(member.avatar)), AVATAR[0])),
            header=(header := at.media(member.header) if member.header else ""),
            header_files=srcset_of(with_sizes(header, HEADER[0])),
            note=Markup(at.html(member.note, member.mentions)),  # noqa: S704 (escaped when it was made)
            numbers=tuple(_numbers(ctx, profile)),
            location=location_label(ctx.words, member.location) if member.shows_location else "",
            relationship=relationship_of(ctx, member, current),
            marks=tuple(_marks(ctx, member, current)),
            known=tuple(face_of(ctx, follower.member) for follower in followers[:_FACES]),
            known_words=_known(ctx, followers),
            private_note=current.note,
        ),
    )


async def _no_profiles() -> dict[int, list[Profile]]:
    return {}


async def change_relationship(ctx: PageContext, asked: RelationshipForm) -> Response:
    """Change the viewer's relationship with a member, or undo the change. A script gets the updated button."""
    pending = PendingAction("follow", asked.id).at if asked.do == "follow" else None
    me, writes = ctx.checked(asked, pending), ctx.writes
    verb = _FOLLOW.get(asked.do) or _OTHERS[asked.do]
    current = await verb(writes, me.id, asked.id)
    if not ctx.partial:
        return ctx.back(asked)
    node = (await ctx.graph.obj_get((asked.id,))).get(asked.id)
    if not isinstance(node, Member):
        raise NotFound("There is no such member")
    return part(ctx, "follow", relationship=relationship_of(ctx, node, current), face=face_of(ctx, node))


async def member_of(ctx: PageContext, name: str) -> Member:
    """Return the member with this user name. Raises `NotFound`, or `Gone` for a suspended member."""
    member = await members.find(ctx.writes, name) if "@" not in name else None
    if member is None or member.pending:
        raise NotFound("There is no such member")
    if member.suspended:
        raise Gone(ctx.words.text("This member is suspended."))
    return member


async def keep_picture(ctx: PageContext, which: Literal["avatar", "header"], sent: Upload | None) -> dict[str, str]:
    """Store the uploaded avatar or header, if any. Return the error by field name; empty without an error."""
    if sent is None:
        return {}
    change = ProfileChange(avatar=sent.data) if which == "avatar" else ProfileChange(header=sent.data)
    sent.close()
    try:
        await members.update_profile(ctx.writes, ctx.member.id, change)
    except InvalidInput as error:
        return {which: error_text(ctx.words, error)}
    return {}


_Typed = Annotated[str, Meta(max_length=4_000)]


class FieldTyped(msgspec.Struct, frozen=True):
    name: _Typed = ""
    value: _Typed = ""


class ProfileForm(Form, frozen=True, kw_only=True):
    display_name: _Typed = ""
    note: Text = ""
    fields: Annotated[tuple[FieldTyped, ...], Meta(max_length=100)] = ()
    location: _Typed = ""
    shows_location: bool = False
    bot: bool = False
    avatar: Upload | None = None
    header: Upload | None = None


class RemoveForm(Form, frozen=True, kw_only=True):
    which: Literal["avatar", "header"]


async def show_settings(
    ctx: PageContext, query: SettingsQuery = NOT_SAVED, wrong: Wrong = RIGHT, typed: ProfileForm | None = None
) -> Response:
    member = ctx.member
    typed = typed or ProfileForm(
        display_name=member.display_name,
        note=member.note,
        fields=tuple(FieldTyped(field.name, field.value) for field in member.fields),
        location=location_label(ctx.words, member.location),
        shows_location=member.shows_location,
        bot=member.bot,
    )
    empty = ctx.limits.profile_fields - len(typed.fields)
    return await settings_page(
        ctx,
        "profile",
        wrong=wrong,
        saved=query.saved,
        typed=typed,
        rows=(*typed.fields, *(FieldTyped() for _ in range(empty))),
        face=face_of(ctx, member),
        may_locate=_may_locate(member),
        has_avatar=bool(member.avatar),
        header=next(iter(with_sizes(ctx.app.at.media(member.header), HEADER[0]).values())) if member.header else "",
    )


def _may_locate(member: Member) -> bool:
    """Return whether the form has a field for the location: the server knows towns, or the member has a location to delete."""
    return member.location is not None or gazetteer.installed() is not None


async def save(ctx: PageContext, asked: ProfileForm) -> Response:
    member = ctx.checked(asked)
    wrong: dict[str, str] = {}
    is_held = False
    pictures: tuple[tuple[Literal["avatar", "header"], Upload | None], ...] = (
        ("avatar", asked.avatar),
        ("header", asked.header),
    )
    for which, sent in pictures:
        try:
            wrong |= await keep_picture(ctx, which, sent)
        except Held:
            is_held = True
    change = ProfileChange(
        display_name=asked.display_name,
        note=asked.note,
        fields=[(field.name, field.value) for field in asked.fields],
        bot=asked.bot,
    )
    try:
        if _may_locate(member):
            change = replace(change, shows_location=asked.shows_location)
            if asked.location.strip() != location_label(ctx.words, member.location):
                location = await members.location_of(asked.location, ctx.words.code)
                change = replace(change, location=location)
        await members.update_profile(ctx.writes, member.id, change)
    except InvalidInput as error:
        wrong |= wrong_of(ctx.words, error)
    except Held:
        is_held = True
    if wrong:
        return await show_settings(ctx, wrong=wrong, typed=asked)
    return ctx.go("/pending") if is_held else saved_at(ctx, "profile")


async def remove(ctx: PageContext, asked: RemoveForm) -> Response:
    member = ctx.checked(asked)
    await members.remove_picture(ctx.writes, member.id, asked.which)
    return saved_at(ctx, "profile")


def routes(settings: Settings) -> tuple[Route, ...]:
    most = 2 * settings.max_upload_bytes + routing.FORM_BYTES
    return (
        routing.page("/@{handle}", show, ProfilePath, cached=True),
        routing.page("/@{handle}/portfolio", portfolio, HandlePath, cached=True),
        routing.form("/members/{id}/bond", change_relationship, RelationshipForm),
        routing.page("/settings/profile", show_settings, SettingsQuery),
        routing.form("/settings/profile", save, ProfileForm, max_body=most),
        routing.form("/settings/profile/remove", remove, RemoveForm),
    )
