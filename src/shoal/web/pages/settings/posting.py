"""Posting: how a new post begins."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from shoal.commands import members
from shoal.commands.members import ProfileChange
from shoal.core.errors import InvalidInput
from shoal.core.model import Visibility
from shoal.mastodon_api.instance import LANGUAGES
from shoal.web import rows
from shoal.web.pages.settings.frame import SettingsQuery, saved_at, settings_page
from shoal.web.views.errors.refusals import RIGHT, Wrong, wrong_of
from shoal.web.visit import Form, Visit


class PostingForm(Form, frozen=True, kw_only=True):
    """How a new post begins."""

    default_visibility: Literal["public", "unlisted", "followers"] = "public"
    default_sensitive: bool = False
    default_language: Annotated[str, Meta(max_length=100)] = ""


async def show(visit: Visit, query: SettingsQuery) -> Response:
    """Posting as it is."""
    return await _page(visit, saved=query.saved)


async def save(visit: Visit, asked: PostingForm) -> Response:
    """Keep it as it was filled in."""
    member = visit.checked(asked)
    change = ProfileChange(
        default_visibility=Visibility(asked.default_visibility),
        default_sensitive=asked.default_sensitive,
        default_language=asked.default_language,
    )
    try:
        await members.update_profile(visit.front.writes, member.id, change)
    except InvalidInput as error:
        return await _page(visit, wrong_of(visit.words, error))
    return saved_at(visit, "posting")


async def _page(visit: Visit, wrong: Wrong = RIGHT, *, saved: bool = False) -> Response:
    _, member = visit.words.text, visit.member
    visibilities = (
        (Visibility.PUBLIC, _("Everybody"), _("In public lists, under tags and in search")),
        (
            Visibility.UNLISTED,
            _("Everybody, but quietly"),
            _("Whoever has the link, and your followers; in no public list"),
        ),
        (Visibility.FOLLOWERS, _("Followers"), _("Those who follow you, and whoever is named")),
    )
    known = [(one.code, one.name) for one in LANGUAGES]
    own = member.default_language
    kept = [(own, own)] if own and own not in dict(known) else []
    languages = [("", _("The language of these pages")), *kept, *known]
    return await settings_page(
        visit,
        "posting",
        wrong=wrong,
        saved=saved,
        of=member,
        visibilities=visibilities,
        languages=languages,
    )


ROUTES = (
    rows.page("/settings/posting", show, SettingsQuery),
    rows.form("/settings/posting", save, PostingForm),
)
