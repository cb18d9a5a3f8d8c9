"""Content that waits for approval: the author's page, and the moderators' queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import held_content
from shoal.core.errors import NotFound
from shoal.core.ids import milliseconds_of
from shoal.core.model import Media, Member, Role, Visibility
from shoal.core.publishing import MAX_REASON, HeldContent
from shoal.graph.access import get_object, members_by_id, objects_of
from shoal.i18n import When
from shoal.queries.moderation import HeldPage, held_page
from shoal.web import routing
from shoal.web.compose import visibility_words
from shoal.web.rendering import BeforeQuery, next_of, page
from shoal.web.request_context import IdForm, IdPath, PageContext
from shoal.web.view_models import Face, face_of

_SIZE = 20
_HEADERS = {
    "Cache-Control": "private, no-store",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
}


class HeldCard(msgspec.Struct, frozen=True):
    id: int
    kind: str
    author: Face | None
    when: When
    text: str
    data: str
    descriptions: tuple[str, ...]
    visible_to: str
    pictures: tuple[str, ...]
    """URLs of pictures, for the author and for moderators only."""
    reason: str
    """Why it was held; only for moderators."""
    target: str
    """Path of the post that is edited; empty for any other content."""
    rejected: bool
    refusal: str


class QueueQuery(BeforeQuery, frozen=True, kw_only=True):
    done: Literal["", "approve", "reject"] = ""


class DecisionForm(IdForm, frozen=True, kw_only=True):
    do: Literal["approve", "reject"]
    reason: Annotated[str, Meta(max_length=MAX_REASON)] = ""


class PicturePath(IdPath, frozen=True):
    number: Annotated[int, Meta(ge=0, le=100)]


async def show_own(ctx: PageContext, query: BeforeQuery) -> Response:
    found = await held_page(ctx.graph, query.cursor(_SIZE), ctx.member.id)
    return await page(
        ctx,
        "pending",
        title=ctx.words.text("Waiting for approval"),
        cards=await _cards(ctx, found),
        next=next_of(ctx, "/pending", found.next),
    )


async def withdraw(ctx: PageContext, asked: IdForm) -> Response:
    await held_content.withdraw(ctx.writes, ctx.checked(asked).id, asked.id)
    return ctx.go("/pending")


async def queue(ctx: PageContext, query: QueueQuery) -> Response:
    me = ctx.staff(Role.MODERATOR)
    found = await held_page(ctx.graph, query.cursor(_SIZE))
    _ = ctx.words.text
    done = {"approve": _("Approved. It is public now."), "reject": _("Rejected. The author sees the reason.")}
    return await page(
        ctx,
        "held",
        title=_("Approval queue"),
        admin=me.role is Role.ADMIN,
        show="held",
        cards=await _cards(ctx, found, staff=True),
        most=MAX_REASON,
        next=next_of(ctx, "/moderation/held", found.next),
        confirmation=done.get(query.done, ""),
    )


async def decide(ctx: PageContext, asked: DecisionForm) -> Response:
    ctx.staff(Role.MODERATOR)
    ctx.check_sent(asked)
    if asked.do == "approve":
        await held_content.approve(ctx.writes, asked.id)
    else:
        await held_content.reject(ctx.writes, asked.id, asked.reason)
    return ctx.go("/moderation/held", done=asked.do)


async def picture(ctx: PageContext, asked: PicturePath) -> Response:
    """Return a picture of held content to its author or a moderator. No public URL serves it before the approval."""
    held = await get_object(ctx.graph, HeldContent, asked.id)
    if held.owner_id != ctx.member.id:
        if ctx.member.role is Role.NONE:
            raise NotFound("There is no such file")
        ctx.staff(Role.MODERATOR)
    keys = _keys(held, {media.id: media for media in await objects_of(ctx.graph, Media, held.media)})
    if asked.number >= len(keys):
        raise NotFound("There is no such file")
    data, kind = await ctx.app.media.read(keys[asked.number])
    return Response(data, media_type=kind, headers=_HEADERS)


def _keys(held: HeldContent, media: Mapping[int, Media]) -> list[str]:
    previews = [media[id_].preview_key or media[id_].key for id_ in held.media if id_ in media]
    # The derived files of a profile's pictures have other names; the first of each picture is the picture itself.
    return [*filter(None, previews), *held.files]


async def _cards(ctx: PageContext, found: HeldPage, *, staff: bool = False) -> list[HeldCard]:
    authors = await members_by_id(ctx.graph, list({held.owner_id for held in found.items}))
    files = await objects_of(ctx.graph, Media, list({id_ for held in found.items for id_ in held.media}))
    media = {each.id: each for each in files}
    return [_card(ctx, held, authors.get(held.owner_id), _keys(held, media), staff=staff) for held in found.items]


def _card(ctx: PageContext, held: HeldContent, author: Member | None, keys: Sequence[str], *, staff: bool) -> HeldCard:
    _ = ctx.words.text
    kinds = {"post": _("Post"), "edit": _("Edit"), "profile": _("Profile"), "media": _("Description")}
    return HeldCard(
        id=held.id,
        kind=kinds[held.kind],
        author=face_of(ctx, author) if author else None,
        when=ctx.when(milliseconds_of(held.id)),
        text=held.text,
        data=held.data,
        descriptions=tuple(filter(None, held.descriptions)),
        visible_to=visibility_words(ctx.words)[Visibility(held.visibility)][0] if held.kind in {"post", "edit"} else "",
        pictures=tuple(ctx.url(f"/held/{held.id}/pictures/{number}") for number, _key in enumerate(keys)),
        reason=" · ".join(filter(None, (held.rule, held.reason))) if staff else "",
        target=ctx.url(f"/@{author.name}/{held.target_id}") if author and held.kind == "edit" else "",
        rejected=bool(held.rejected_at),
        refusal=held.refusal,
    )


ROUTES = (
    routing.page("/pending", show_own, BeforeQuery),
    routing.form("/pending/{id}", withdraw, IdForm),
    routing.page("/held/{id}/pictures/{number}", picture, PicturePath, secret=True),
    routing.page("/moderation/held", queue, QueueQuery),
    routing.form("/moderation/held/{id}", decide, DecisionForm),
)
