"""Privacy: who may follow, and what others find."""

from __future__ import annotations

from starlette.responses import Response

from shoal.commands import members
from shoal.commands.members import ProfileChange
from shoal.core.errors import InvalidInput
from shoal.core.places import PlacePrecision
from shoal.web import rows
from shoal.web.pages.settings.frame import SettingsQuery, saved_at, settings_page
from shoal.web.views.errors.refusals import RIGHT, Wrong, wrong_of
from shoal.web.visit import Form, Visit


class PrivacyForm(Form, frozen=True, kw_only=True):
    """Everything about who sees and finds what. A box that is not ticked is not sent."""

    locked: bool = False
    hides_connections: bool = False
    discoverable: bool = False
    indexable: bool = False
    rankable: bool = False
    findable_by_email: bool = False
    place_precision: PlacePrecision = PlacePrecision.KM


async def show(visit: Visit, query: SettingsQuery) -> Response:
    """Privacy as it is."""
    member = visit.member
    typed = PrivacyForm(
        locked=member.locked,
        hides_connections=member.hides_connections,
        discoverable=member.discoverable,
        indexable=member.indexable,
        rankable=member.rankable,
        findable_by_email=member.findable_by_email,
        place_precision=member.place_precision,
    )
    return await _page(visit, typed, saved=query.saved)


async def save(visit: Visit, asked: PrivacyForm) -> Response:
    """Keep it as it was filled in."""
    member = visit.checked(asked)
    change = ProfileChange(
        locked=asked.locked,
        hides_connections=asked.hides_connections,
        discoverable=asked.discoverable,
        indexable=asked.indexable,
        rankable=asked.rankable,
        findable_by_email=asked.findable_by_email,
        place_precision=asked.place_precision,
    )
    try:
        await members.update_profile(visit.front.writes, member.id, change)
    except InvalidInput as error:
        none = visit.words.text("This account has no e-mail address.")
        return await _page(visit, asked, wrong_of(visit.words, error, findable_by_email=none))
    return saved_at(visit, "privacy")


async def _page(visit: Visit, typed: PrivacyForm, wrong: Wrong = RIGHT, *, saved: bool = False) -> Response:
    _ = visit.words.text
    places = (
        (PlacePrecision.NONE, _("Not at all"), ""),
        (PlacePrecision.KM10, _("To ten kilometres"), _("About the town")),
        (PlacePrecision.KM, _("To a kilometre"), _("About the quarter")),
        (PlacePrecision.M100, _("To a hundred metres"), _("About the street")),
        (PlacePrecision.EXACT, _("Exactly"), _("The very spot, your home too")),
    )
    return await settings_page(visit, "privacy", wrong=wrong, saved=saved, typed=typed, places=places)


ROUTES = (
    rows.page("/settings/privacy", show, SettingsQuery),
    rows.form("/settings/privacy", save, PrivacyForm),
)
