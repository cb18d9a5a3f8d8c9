"""Onboarding of a new member: interests, suggested members, profile, first post.

Each step is optional and can be done later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, NamedTuple

from msgspec import Meta
from starlette.responses import Response

from shoal.commands import members, ranking, relationships
from shoal.commands.members import ProfileChange
from shoal.core.errors import InvalidInput, NotAllowed
from shoal.core.filters import FilterContext
from shoal.core.model import MediaKind, Member
from shoal.core.ranking.preferences import MOST_PICKED
from shoal.core.signup import may_invite
from shoal.graph.payloads.members import personalization_of
from shoal.graph.schema import FOLLOWS
from shoal.http.params import Id, Upload
from shoal.http.routes import Route
from shoal.queries.hydration import Entry
from shoal.queries.pipeline import filtered
from shoal.queries.suggestions import Suggestion, portfolios, suggestions
from shoal.queries.tags import TagOffer, offers
from shoal.settings import Settings
from shoal.web import routing
from shoal.web.form_errors import RIGHT, Wrong, error_text, wrong_of
from shoal.web.photo_grid import GridPhoto, grid_of, popular_then_newest
from shoal.web.profiles import keep_picture
from shoal.web.relationships import follow_all
from shoal.web.rendering import page
from shoal.web.request_context import Form, IdForm, Line, PageContext, TagName, Text
from shoal.web.view_models import PersonView, Photo, face_of, photo_of, suggested


class Step(NamedTuple):
    path: str
    words: str
    here: bool
    done: bool


class OfferedTag(NamedTuple):
    name: str
    picked: bool
    photo: Photo | None
    uses: str


class SuggestedPerson(NamedTuple):
    person: PersonView
    photos: tuple[GridPhoto, ...]


def _steps(ctx: PageContext, here: str) -> list[Step]:
    _ = ctx.words.text
    steps = {"interests": _("Interests"), "people": _("People"), "profile": _("You"), "first": _("Post")}
    at = list(steps).index(here)
    return [Step(ctx.url(f"/welcome/{key}"), name, n == at, n < at) for n, (key, name) in enumerate(steps.items())]


def _offered(ctx: PageContext, offer: TagOffer) -> OfferedTag:
    media = offer.example.media if offer.example else ()
    picture = next((file for file in media if file.kind is MediaKind.IMAGE and file.preview_key), None)
    uses = ctx.words.counted("%(n)s post", "%(n)s posts", offer.uses) if offer.uses else ""
    return OfferedTag(offer.name, offer.picked, photo_of(ctx, picture) if picture else None, uses)


def people_of(
    ctx: PageContext, found: Sequence[Suggestion], photos: Mapping[int, Sequence[Entry]]
) -> list[SuggestedPerson]:
    return [
        SuggestedPerson(suggested(ctx, one), grid_of(ctx, photos.get(one.profile.member.id, ())).photos)
        for one in found
    ]


_TAGS = 36
_PEOPLE = 12
_PHOTOS = 12
_MOST_AT_ONCE = 100


class InterestsForm(Form, frozen=True, kw_only=True):
    tags: Annotated[tuple[TagName, ...], Meta(max_length=MOST_PICKED)] = ()
    more: Text = ""
    """More tags, separated by spaces or commas."""


class SeveralForm(Form, frozen=True, kw_only=True):
    ids: Annotated[tuple[Id, ...], Meta(max_length=_MOST_AT_ONCE)] = ()


class YouForm(Form, frozen=True, kw_only=True):
    display_name: Line = ""
    note: Text = ""
    avatar: Upload | None = None


async def begin(ctx: PageContext, _params: None) -> Response:
    return ctx.go("/welcome/interests")


async def interests(
    ctx: PageContext, _params: None = None, typed: InterestsForm | None = None, wrong: Wrong = RIGHT
) -> Response:
    member = ctx.member
    found = [_offered(ctx, offer) for offer in await offers(ctx.reads, member.id, _TAGS)]
    if typed:
        found = [offer._replace(picked=offer.name in typed.tags) for offer in found]
    return await page(
        ctx,
        "welcome_interests",
        title=ctx.words.text("Interests"),
        steps=_steps(ctx, "interests"),
        pictured=[interest for interest in found if interest.photo],
        plain=[interest for interest in found if not interest.photo],
        typed=typed or InterestsForm(),
        wrong=wrong,
    )


async def pick(ctx: PageContext, asked: InterestsForm) -> Response:
    """Store the interests, and follow their tags and unfollow removed tags.

    This also follows tags of stored interests that an interrupted request did not follow.
    """
    member, writes = ctx.checked(asked), ctx.writes
    before = (await personalization_of(ctx.graph, member.id)).feedback.picked
    try:
        picked = await ranking.pick_tags(writes, member.id, [*asked.tags, *asked.more.replace(",", " ").split()])
    except InvalidInput as error:
        return await interests(ctx, typed=asked, wrong={"more": error_text(ctx.words, error)})
    for tag in before:
        if tag not in picked:
            await relationships.unfollow_tag(writes, member.id, tag)
    with suppress(NotAllowed):
        # At the maximum number of followed tags, store the interests without following their tags.
        for tag in picked:
            await relationships.follow_tag(writes, member.id, tag)
    return ctx.back(asked, "/welcome/people")


async def people(ctx: PageContext, _params: None) -> Response:
    member, reads = ctx.member, ctx.reads
    found = await suggestions(reads, member.id, _PEOPLE)
    photos = await portfolios(reads, member.id, [suggestion.profile.member.id for suggestion in found])
    return await page(
        ctx,
        "welcome_people",
        title=ctx.words.text("People"),
        steps=_steps(ctx, "people"),
        people=people_of(ctx, found, photos),
        follows=await _follows(ctx, member),
        invites=may_invite(ctx.writes.inviters, member),
    )


async def follow_several(ctx: PageContext, asked: SeveralForm) -> Response:
    ctx.checked(asked)
    await follow_all(ctx, asked.ids)
    return ctx.back(asked, "/welcome/profile")


async def dismiss(ctx: PageContext, asked: IdForm) -> Response:
    """Stop suggesting a member. A script gets an empty response, which replaces the member's card."""
    member = ctx.checked(asked)
    await relationships.dismiss_suggestion(ctx.writes, member.id, asked.id)
    return Response("", media_type="text/html") if ctx.partial else ctx.back(asked, "/welcome/people")


async def you(ctx: PageContext, _params: None = None, typed: YouForm | None = None, wrong: Wrong = RIGHT) -> Response:
    member = ctx.member
    return await page(
        ctx,
        "welcome_you",
        title=ctx.words.text("You"),
        steps=_steps(ctx, "profile"),
        face=face_of(ctx, member),
        typed=typed or YouForm(display_name=member.display_name, note=member.note),
        wrong=wrong,
    )


async def set_you(ctx: PageContext, asked: YouForm) -> Response:
    member = ctx.checked(asked)
    wrong = await keep_picture(ctx, "avatar", asked.avatar)
    try:
        change = ProfileChange(display_name=asked.display_name, note=asked.note)
        await members.update_profile(ctx.writes, member.id, change)
    except InvalidInput as error:
        wrong |= wrong_of(ctx.words, error)
    if wrong:
        return await you(ctx, typed=asked, wrong=wrong)
    return ctx.back(asked, "/welcome/first")


async def first(ctx: PageContext, _params: None) -> Response:
    """Show the last step of onboarding: links to the compose form and to For you, and popular photos.

    If there are too few popular photos, the newest ones follow.
    """
    member = ctx.member
    found = await popular_then_newest(ctx.reads, member.id, _PHOTOS)
    shown = await filtered(ctx.reads.graph, member.id, found, FilterContext.PUBLIC)
    return await page(
        ctx,
        "welcome_first",
        title=ctx.words.text("Post your first photo"),
        steps=_steps(ctx, "first"),
        grid=grid_of(ctx, [entry for entry in shown if not entry.filtered], limit=_PHOTOS),
    )


async def _follows(ctx: PageContext, member: Member) -> int:
    counted = await ctx.graph.assoc_count((member.id,), (FOLLOWS,))
    return counted[FOLLOWS].get(member.id, 0)


def routes(settings: Settings) -> tuple[Route, ...]:
    most = settings.max_upload_bytes + routing.FORM_BYTES
    return (
        routing.page("/welcome", begin),
        routing.page("/welcome/interests", interests),
        routing.form("/welcome/interests", pick, InterestsForm),
        routing.page("/welcome/people", people),
        routing.form("/welcome/people", follow_several, SeveralForm),
        routing.form("/suggestions/{id}/dismiss", dismiss, IdForm),
        routing.page("/welcome/profile", you),
        routing.form("/welcome/profile", set_you, YouForm, max_body=most),
        routing.page("/welcome/first", first),
    )
