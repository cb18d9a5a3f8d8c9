"""Onboarding of a new member: interests, suggested members, profile, first post.

Each step is optional and can be done later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

from msgspec import Meta
from starlette.responses import Response

from shoal.commands import members, ranking, relationships
from shoal.commands.members import ProfileChange
from shoal.core.errors import InvalidInput
from shoal.core.model import MediaKind, Member
from shoal.core.ranking.preferences import MOST_PICKED
from shoal.graph.schema import FOLLOWS
from shoal.http.params import Id, Upload
from shoal.http.routes import Route
from shoal.queries import trends
from shoal.queries.hydration import Entry
from shoal.queries.suggestions import Suggestion, portfolios, suggestions
from shoal.queries.tags import TagOffer, offers
from shoal.settings import Settings
from shoal.web import routing
from shoal.web.explore import WallPhoto, wall_of
from shoal.web.form_errors import RIGHT, Wrong, wrong_of
from shoal.web.profiles import keep_picture
from shoal.web.relationships import follow_all
from shoal.web.rendering import page
from shoal.web.request_context import Form, IdForm, Line, TagName, Text, Visit
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
    photos: tuple[WallPhoto, ...]


def _steps(visit: Visit, here: str) -> list[Step]:
    """Return all steps, with the current one marked."""
    _ = visit.words.text
    steps = {"interests": _("Interests"), "people": _("People"), "profile": _("You"), "first": _("Post")}
    at = list(steps).index(here)
    return [Step(visit.url(f"/welcome/{key}"), name, n == at, n < at) for n, (key, name) in enumerate(steps.items())]


def _offered(visit: Visit, offer: TagOffer) -> OfferedTag:
    media = offer.example.media if offer.example else ()
    picture = next((one for one in media if one.kind is MediaKind.IMAGE and one.preview_key), None)
    uses = visit.words.counted("%(n)s post", "%(n)s posts", offer.uses) if offer.uses else ""
    return OfferedTag(offer.name, offer.picked, photo_of(visit, picture) if picture else None, uses)


def people_of(
    visit: Visit, found: Sequence[Suggestion], photos: Mapping[int, Sequence[Entry]]
) -> list[SuggestedPerson]:
    return [
        SuggestedPerson(suggested(visit, one), tuple(wall_of(visit, photos.get(one.profile.member.id, ()))))
        for one in found
    ]


_TAGS = 36
_PEOPLE = 12
_PHOTOS = 12
_MOST_AT_ONCE = 100


class InterestsForm(Form, frozen=True, kw_only=True):
    tags: Annotated[tuple[TagName, ...], Meta(max_length=MOST_PICKED)] = ()


class SeveralForm(Form, frozen=True, kw_only=True):
    ids: Annotated[tuple[Id, ...], Meta(max_length=_MOST_AT_ONCE)] = ()


class YouForm(Form, frozen=True, kw_only=True):
    display_name: Line = ""
    note: Text = ""
    avatar: Upload | None = None


async def begin(visit: Visit, _params: None) -> Response:
    return visit.go("/welcome/interests")


async def interests(visit: Visit, _params: None) -> Response:
    member = visit.member
    found = [_offered(visit, one) for one in await offers(visit.reads, member.id, _TAGS)]
    return await page(
        visit,
        "welcome_interests",
        title=visit.words.text("Interests"),
        steps=_steps(visit, "interests"),
        pictured=[one for one in found if one.photo],
        plain=[one for one in found if not one.photo],
    )


async def pick(visit: Visit, asked: InterestsForm) -> Response:
    member = visit.checked(asked)
    await ranking.pick_tags(visit.writes, member.id, asked.tags)
    return visit.back(asked, "/welcome/people")


async def people(visit: Visit, _params: None) -> Response:
    """Suggest members to follow, each with a reason and some photos."""
    member, reads = visit.member, visit.reads
    found = await suggestions(reads, member.id, _PEOPLE)
    photos = await portfolios(reads, member.id, [one.profile.member.id for one in found])
    return await page(
        visit,
        "welcome_people",
        title=visit.words.text("People"),
        steps=_steps(visit, "people"),
        people=people_of(visit, found, photos),
        follows=await _follows(visit, member),
    )


async def follow_several(visit: Visit, asked: SeveralForm) -> Response:
    visit.checked(asked)
    await follow_all(visit, asked.ids)
    return visit.back(asked, "/welcome/profile")


async def dismiss(visit: Visit, asked: IdForm) -> Response:
    """Stop suggesting a member. A script gets an empty response that replaces the card."""
    member = visit.checked(asked)
    await relationships.dismiss_suggestion(visit.writes, member.id, asked.id)
    return Response("", media_type="text/html") if visit.partial else visit.back(asked, "/welcome/people")


async def you(visit: Visit, _params: None = None, typed: YouForm | None = None, wrong: Wrong = RIGHT) -> Response:
    member = visit.member
    return await page(
        visit,
        "welcome_you",
        title=visit.words.text("You"),
        steps=_steps(visit, "profile"),
        face=face_of(visit, member),
        typed=typed or YouForm(display_name=member.display_name, note=member.note),
        wrong=wrong,
    )


async def set_you(visit: Visit, asked: YouForm) -> Response:
    member = visit.checked(asked)
    wrong = await keep_picture(visit, "avatar", asked.avatar)
    try:
        change = ProfileChange(display_name=asked.display_name, note=asked.note)
        await members.update_profile(visit.writes, member.id, change)
    except InvalidInput as error:
        wrong |= wrong_of(visit.words, error)
    if wrong:
        return await you(visit, typed=asked, wrong=wrong)
    return visit.back(asked, "/welcome/first")


async def first(visit: Visit, _params: None) -> Response:
    """Show the last step: links to a first post, and trending photos."""
    member = visit.member
    entries = await trends.page(visit.reads, member.id, _PHOTOS)
    return await page(
        visit,
        "welcome_first",
        title=visit.words.text("A first photo"),
        steps=_steps(visit, "first"),
        wall=wall_of(visit, entries),
        follows=await _follows(visit, member),
    )


async def _follows(visit: Visit, member: Member) -> int:
    counted = await visit.graph.assoc_count((member.id,), (FOLLOWS,))
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
