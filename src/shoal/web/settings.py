"""General settings: the overview, appearance, posting defaults and privacy.

Appearance is stored in the browser and available without login.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal import gazetteer
from shoal.commands import members
from shoal.commands.members import ProfileChange
from shoal.core.errors import InvalidInput
from shoal.core.licenses import License
from shoal.core.model import Visibility
from shoal.core.places import PlacePrecision
from shoal.i18n import LANGUAGES
from shoal.mastodon_api.instance import LANGUAGES as POST_LANGUAGES
from shoal.web import routing
from shoal.web.form_errors import RIGHT, Wrong, wrong_of
from shoal.web.layout import look_of
from shoal.web.photo_details import license_choices
from shoal.web.request_context import LANGUAGE_COOKIE, LOOK_COOKIE, Form, PageContext
from shoal.web.settings_layout import NOT_SAVED, SettingsQuery, found_sections, saved_at, settings_page
from shoal.web.view_models import face_of


class OverviewQuery(msgspec.Struct, frozen=True, kw_only=True):
    q: Annotated[str, Meta(max_length=200)] = ""


async def show_overview(ctx: PageContext, query: OverviewQuery) -> Response:
    member = ctx.member
    since, asked = ctx.words.day(member.created_at), query.q.strip()
    found = found_sections(ctx, asked) if asked else []
    return await settings_page(
        ctx, "", template="overview", face=face_of(ctx, member), since=since, query=asked, found=found
    )


class AppearanceForm(Form, frozen=True, kw_only=True):
    scheme: Literal["system", "light", "dark"] = "system"
    contrast: bool = False
    dense: bool = False
    still: bool = False
    language: Literal["browser", "en", "de", "es", "fr", "ar"] = "browser"


async def show_appearance(ctx: PageContext, query: SettingsQuery) -> Response:
    _, cookies = ctx.words.text, ctx.request.cookies
    schemes = (
        ("system", _("Automatic"), _("Follow the system setting")),
        ("light", _("Light"), ""),
        ("dark", _("Dark"), ""),
    )
    chosen = cookies.get(LANGUAGE_COOKIE, "")
    return await settings_page(
        ctx,
        "appearance",
        saved=query.saved,
        look=look_of(cookies.get(LOOK_COOKIE, "")),
        schemes=schemes,
        languages=[("browser", _("Browser default")), *LANGUAGES.items()],
        language=chosen if chosen in LANGUAGES else "browser",
    )


async def save_appearance(ctx: PageContext, asked: AppearanceForm) -> Response:
    ctx.check_sent(asked)
    flags = [flag for flag in ("contrast", "dense", "still") if getattr(asked, flag)]
    look = "-".join([asked.scheme if asked.scheme != "system" else "", *flags]).strip("-")
    response = saved_at(ctx, "appearance")
    ctx.keep_choice(response, LOOK_COOKIE, look)
    ctx.keep_choice(response, LANGUAGE_COOKIE, "" if asked.language == "browser" else asked.language)
    return response


class PostingForm(Form, frozen=True, kw_only=True):
    default_visibility: Literal["public", "unlisted", "followers"] = "public"
    default_sensitive: bool = False
    default_language: Annotated[str, Meta(max_length=100)] = ""
    shows_photo_details: bool = False
    default_license: License = License.RESERVED
    allows_downloads: bool = False


async def show_posting(ctx: PageContext, query: SettingsQuery = NOT_SAVED, wrong: Wrong = RIGHT) -> Response:
    _, member = ctx.words.text, ctx.member
    visibilities = (
        (Visibility.PUBLIC, _("Public"), _("In public timelines, tags and search")),
        (
            Visibility.UNLISTED,
            _("Unlisted"),
            _("Your followers and anyone with the link; not in public timelines"),
        ),
        (Visibility.FOLLOWERS, _("Followers"), _("Your followers and the people you mention")),
    )
    known = {language.code: language.name for language in POST_LANGUAGES}
    own = member.default_language
    languages = {"": _("Interface language"), **({own: own} if own and own not in known else {}), **known}
    return await settings_page(
        ctx,
        "posting",
        wrong=wrong,
        saved=query.saved,
        of=member,
        visibilities=visibilities,
        languages=list(languages.items()),
        licenses=license_choices(ctx.words),
    )


async def save_posting(ctx: PageContext, asked: PostingForm) -> Response:
    member = ctx.checked(asked)
    change = msgspec.convert(asked, ProfileChange, from_attributes=True)
    try:
        await members.update_profile(ctx.writes, member.id, change)
    except InvalidInput as error:
        return await show_posting(ctx, wrong=wrong_of(ctx.words, error))
    return saved_at(ctx, "posting")


class PrivacyForm(Form, frozen=True, kw_only=True):
    """Who can see and find the member. The defaults are False, because browsers do not send unchecked boxes."""

    locked: bool = False
    hides_connections: bool = False
    discoverable: bool = False
    indexable: bool = False
    rankable: bool = False
    findable_by_email: bool = False
    place_precision: PlacePrecision = PlacePrecision.KM


async def show_privacy(
    ctx: PageContext, query: SettingsQuery = NOT_SAVED, wrong: Wrong = RIGHT, typed: PrivacyForm | None = None
) -> Response:
    """Show the stored settings; after an error, show the settings as typed."""
    _, member = ctx.words.text, ctx.member
    town = (PlacePrecision.CITY, _("Town"), _("The coordinates of the town"))
    places = (
        (PlacePrecision.NONE, _("Don't store"), ""),
        *((town,) if gazetteer.installed() is not None or member.place_precision is PlacePrecision.CITY else ()),
        (PlacePrecision.KM10, _("Rounded to 10 kilometers"), _("Region")),
        (PlacePrecision.KM, _("Rounded to 1 kilometer"), _("Neighborhood")),
        (PlacePrecision.M100, _("Rounded to 100 meters"), _("Street")),
        (PlacePrecision.EXACT, _("Exactly"), _("Exact position, even if it is your home")),
    )
    return await settings_page(ctx, "privacy", wrong=wrong, saved=query.saved, typed=typed or member, places=places)


async def save_privacy(ctx: PageContext, asked: PrivacyForm) -> Response:
    member = ctx.checked(asked)
    change = msgspec.convert(asked, ProfileChange, from_attributes=True)
    try:
        await members.update_profile(ctx.writes, member.id, change)
    except InvalidInput as error:
        none = ctx.words.text("This account has no e-mail address.")
        wrong = wrong_of(ctx.words, error, findable_by_email=none)
        return await show_privacy(ctx, wrong=wrong, typed=asked)
    return saved_at(ctx, "privacy")


ROUTES = (
    routing.page("/settings", show_overview, OverviewQuery),
    routing.page("/settings/appearance", show_appearance, SettingsQuery),
    routing.form("/settings/appearance", save_appearance, AppearanceForm, limit_class="pages"),
    routing.page("/settings/posting", show_posting, SettingsQuery),
    routing.form("/settings/posting", save_posting, PostingForm),
    routing.page("/settings/privacy", show_privacy, SettingsQuery),
    routing.form("/settings/privacy", save_privacy, PrivacyForm),
)
