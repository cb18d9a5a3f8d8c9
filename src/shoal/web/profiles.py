"""Member profiles: the profile page, the settings page that edits it, and the upload of avatar and header images."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec
from markupsafe import Markup
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import members, relationships
from shoal.commands.members import ProfileChange
from shoal.core.errors import Gone, InvalidInput, NotFound
from shoal.core.filters import FilterContext
from shoal.core.model import Member
from shoal.core.visibility import Relation
from shoal.graph.access import relation
from shoal.graph.contract import Cursor
from shoal.graph.schema import ENDORSES
from shoal.http.params import Upload
from shoal.http.routes import Route
from shoal.queries import members as member_queries
from shoal.queries import posts
from shoal.queries import tags as tag_queries
from shoal.queries.hydration import Profile, profiles_by_id
from shoal.queries.members import Received, familiar
from shoal.queries.pipeline import Page, filtered
from shoal.settings import Settings
from shoal.web import routing, syndication
from shoal.web.form_errors import RIGHT, Wrong, told, wrong_of
from shoal.web.rendering import HandlePath, feed_page, next_of, part
from shoal.web.request_context import Form, IdForm, Text, Visit
from shoal.web.settings_layout import NOT_SAVED, SettingsQuery, saved_at, settings_page
from shoal.web.syndication import profile_card
from shoal.web.view_models import Bond, Face, bond_of, face_of, posts_of, tag_path

_FACES = 3


class Number(NamedTuple):
    """A number on a profile with its label and link; an empty path is no link."""

    value: str
    words: str
    path: str = ""


class ProfileHead(msgspec.Struct, frozen=True):
    """The part of a profile page above the posts."""

    face: Face
    header: str
    note: Markup
    fields: tuple[tuple[str, Markup], ...]
    numbers: tuple[Number, ...]
    joined: str
    bond: Bond
    marks: tuple[str, ...]
    """Labels such as "automated" and "follows you"."""
    known: tuple[Face, ...]
    """Followees of the viewer who follow the member."""
    known_words: str
    endorsed: tuple[Face, ...]
    tags: tuple[tuple[str, str], ...]
    """Featured tags, each with its URL."""
    private_note: str = ""


def _numbers(visit: Visit, profile: Profile, received: Received) -> Iterator[Number]:
    member, words = profile.member, visit.words
    shows = not member.hides_connections or member.id == visit.viewer_id
    path = visit.url(f"/@{member.name}")

    def number(one: str, many: str, n: int, leads: str = "") -> Number:
        return Number(words.compact(n), words.plural(one, many, n), leads)

    yield number("post", "posts", profile.posts)
    yield number("follower", "followers", profile.followers, f"{path}/followers" if shows else "")
    if shows:
        yield number("followed", "followed", profile.following, f"{path}/following")
    if received.likes:
        yield number("like received", "likes received", received.likes)
    if received.shares:
        yield number("share received", "shares received", received.shares)


def _marks(visit: Visit, member: Member, relation: Relation) -> Iterator[str]:
    _ = visit.words.text
    if member.bot:
        yield _("automated")
    if relation.followed_by:
        yield _("follows you")
    if relation.requested_by:
        yield _("asks to follow you")
    if relation.muting:
        yield _("muted")
    if member.locked:
        yield _("chooses followers")


def _known(visit: Visit, known: Sequence[Profile]) -> str:
    if not known:
        return ""
    names = ", ".join(one.member.shown_name for one in known[:2])
    if (others := len(known) - 2) > 0:
        return visit.words.counted(
            "Followed by %(names)s and %(n)s other you know",
            "Followed by %(names)s and %(n)s others you know",
            others,
            names=names,
        )
    return visit.words.text("Followed by %(names)s, whom you know") % {"names": names}


_ENDORSED = 6
"""Endorsed members shown on a profile."""
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
    show: Literal["photos", "posts", "replies"] = "photos"


class BondForm(IdForm, frozen=True, kw_only=True):
    do: Literal["follow", "unfollow", "block", "unblock", "mute", "unmute", "remove", "endorse", "unendorse"]


_QUERIES = {
    "photos": posts.MemberFeedQuery(only_media=True, no_shares=True, no_comments=True),
    "posts": posts.MemberFeedQuery(no_comments=True),
    "replies": posts.ALL,
}


async def show(visit: Visit, path: ProfilePath) -> Response:
    """Show a member's profile with their posts, or their Atom feed if the path has its ending."""
    name, ending = syndication.ending_of(path.handle)
    member = await member_of(visit, name)
    if ending:
        return await syndication.of_member(visit, member, ending)
    found = await _posts(visit, member, path)
    following = next_of(visit, f"/@{member.name}", found.next, show="" if path.show == "photos" else path.show)
    if visit.partial and path.show == "photos":
        return part(visit, "photo_grid", posts=await posts_of(visit, found.entries), next=following)
    if visit.partial:
        return await feed_page(visit, "profile", found.entries, following)
    profile, shown = await _profile(visit, member)
    return await feed_page(
        visit,
        "profile",
        found.entries,
        following,
        title=f"{shown.face.shown} (@{member.name})",
        head=shown,
        tab=path.show,
        card=profile_card(visit, profile),
    )


async def _posts(visit: Visit, member: Member, path: ProfilePath) -> Page:
    reads, viewer = visit.reads, visit.viewer_id
    cursor = path.cursor(24 if path.show == "photos" else 20)
    found = await posts.authored_page(reads, viewer, member.id, cursor, _QUERIES[path.show])
    entries = await filtered(reads.graph, viewer, found.entries, FilterContext.ACCOUNT)
    if path.show == "posts" and not path.before:
        top = await posts.pinned(reads, viewer, member.id)
        entries = [*top, *(entry for entry in entries if entry.id not in {one.id for one in top})]
    return Page(entries, found.next)


async def head(visit: Visit, member: Member) -> ProfileHead:
    return (await _profile(visit, member))[1]


async def _profile(visit: Visit, member: Member) -> tuple[Profile, ProfileHead]:
    """Return the profile of a member, and its header as the viewer sees it."""
    reads, viewer = visit.reads, visit.viewer_id
    others = viewer if viewer != member.id else None
    profiles, stand, known, endorsed, tags, received = await asyncio.gather(
        profiles_by_id(reads.graph, viewer, (member.id,)),
        relation(reads.graph, viewer, member.id),
        familiar(reads, others, (member.id,)) if others is not None else _nobody(),
        member_queries.page(reads, viewer, member.id, ENDORSES, Cursor(limit=_ENDORSED)),
        tag_queries.names(reads.graph, member.id),
        member_queries.received(reads, viewer, member.id),
    )
    if not profiles:
        # The member was suspended after they were read.
        raise Gone(visit.words.text("This member is suspended."))
    profile, words, at = profiles[0], visit.words, visit.front.at
    member, followers = profile.member, known.get(member.id, [])
    return (
        profile,
        ProfileHead(
            face=face_of(visit, member),
            header=at.media(member.header) if member.header else "",
            note=Markup(at.html(member.note, member.mentions)),  # noqa: S704 (escaped when it was made)
            fields=tuple((field.name, Markup(at.html(field.value, member.mentions))) for field in member.fields),  # noqa: S704 (the same)
            numbers=tuple(_numbers(visit, profile, received)),
            joined=words.day(member.created_at),
            bond=bond_of(visit, member, stand),
            marks=tuple(_marks(visit, member, stand)),
            known=tuple(face_of(visit, one.member) for one in followers[:_FACES]),
            known_words=_known(visit, followers),
            endorsed=tuple(face_of(visit, one.member) for one in endorsed.profiles),
            tags=tuple((name, tag_path(visit, name)) for name in tags),
            private_note=stand.note,
        ),
    )


async def _nobody() -> dict[int, list[Profile]]:
    return {}


async def bond(visit: Visit, asked: BondForm) -> Response:
    """Change the relationship with a member, or undo a change. A script gets the updated button."""
    me, writes = visit.checked(asked), visit.writes
    verb = _FOLLOW.get(asked.do) or _OTHERS[asked.do]
    stand = await verb(writes, me.id, asked.id)
    if not visit.partial:
        return visit.back(asked)
    node = (await visit.graph.obj_get((asked.id,))).get(asked.id)
    if not isinstance(node, Member):
        raise NotFound("There is no such member")
    return part(visit, "follow", bond=bond_of(visit, node, stand), face=face_of(visit, node))


async def member_of(visit: Visit, name: str) -> Member:
    """Return the member with this user name. Raises `NotFound`, or `Gone` for a suspended member."""
    member = await members.find(visit.writes, name) if "@" not in name else None
    if member is None or member.pending:
        raise NotFound("There is no such member")
    if member.suspended:
        raise Gone(visit.words.text("This member is suspended."))
    return member


async def keep_picture(visit: Visit, which: Literal["avatar", "header"], sent: Upload | None) -> dict[str, str]:
    """Store an uploaded picture, if there is one, and return the error by field name."""
    if sent is None:
        return {}
    change = ProfileChange(avatar=sent.data) if which == "avatar" else ProfileChange(header=sent.data)
    sent.close()
    try:
        await members.update_profile(visit.writes, visit.member.id, change)
    except InvalidInput as error:
        return {which: told(visit.words, error)}
    return {}


_Typed = Annotated[str, Meta(max_length=4_000)]


class FieldTyped(msgspec.Struct, frozen=True):
    name: _Typed = ""
    value: _Typed = ""


class ProfileForm(Form, frozen=True, kw_only=True):
    display_name: _Typed = ""
    note: Text = ""
    fields: Annotated[tuple[FieldTyped, ...], Meta(max_length=100)] = ()
    bot: bool = False
    avatar: Upload | None = None
    header: Upload | None = None


class RemoveForm(Form, frozen=True, kw_only=True):
    which: Literal["avatar", "header"]


async def show_settings(
    visit: Visit, query: SettingsQuery = NOT_SAVED, wrong: Wrong = RIGHT, typed: ProfileForm | None = None
) -> Response:
    member = visit.member
    typed = typed or ProfileForm(
        display_name=member.display_name,
        note=member.note,
        fields=tuple(FieldTyped(one.name, one.value) for one in member.fields),
        bot=member.bot,
    )
    empty = visit.limits.profile_fields - len(typed.fields)
    return await settings_page(
        visit,
        "profile",
        wrong=wrong,
        saved=query.saved,
        typed=typed,
        rows=(*typed.fields, *(FieldTyped() for _ in range(empty))),
        face=face_of(visit, member),
        has_avatar=bool(member.avatar),
        header=visit.front.at.media(member.header) if member.header else "",
    )


async def save(visit: Visit, asked: ProfileForm) -> Response:
    member = visit.checked(asked)
    wrong = await keep_picture(visit, "avatar", asked.avatar)
    wrong |= await keep_picture(visit, "header", asked.header)
    change = ProfileChange(
        display_name=asked.display_name,
        note=asked.note,
        fields=[(one.name, one.value) for one in asked.fields],
        bot=asked.bot,
    )
    try:
        await members.update_profile(visit.writes, member.id, change)
    except InvalidInput as error:
        wrong |= wrong_of(visit.words, error)
    return await show_settings(visit, wrong=wrong, typed=asked) if wrong else saved_at(visit, "profile")


async def remove(visit: Visit, asked: RemoveForm) -> Response:
    member = visit.checked(asked)
    await members.remove_picture(visit.writes, member.id, asked.which)
    return saved_at(visit, "profile")


def routes(settings: Settings) -> tuple[Route, ...]:
    most = 2 * settings.max_upload_bytes + routing.FORM_BYTES
    return (
        routing.page("/@{handle}", show, ProfilePath, remembered=True),
        routing.form("/members/{id}/bond", bond, BondForm),
        routing.page("/settings/profile", show_settings, SettingsQuery),
        routing.form("/settings/profile", save, ProfileForm, max_body=most),
        routing.form("/settings/profile/remove", remove, RemoveForm),
    )
