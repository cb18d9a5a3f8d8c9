"""A page of settings in its frame."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from shoal.web.rendering import page
from shoal.web.views.errors.refusals import RIGHT, Wrong
from shoal.web.views.settings.sections import groups_of
from shoal.web.visit import LogInFirst, Visit

_FOR_ALL = frozenset({"appearance"})
"""Sections that strangers have, too."""


class SettingsQuery(msgspec.Struct, frozen=True):
    """A page of settings, and whether something was just saved there."""

    saved: bool = False


async def settings_page(
    visit: Visit, key: str, *, template: str = "", wrong: Wrong = RIGHT, saved: bool = False, **views: object
) -> Response:
    """Return the page of a section. With something `wrong` its status is 422. Raises `LogInFirst` where it is for members."""
    if visit.viewer is None and key not in _FOR_ALL:
        raise LogInFirst
    groups = groups_of(visit, key)
    heading = next((one.words for group in groups for one in group.sections if one.here), visit.words.text("Settings"))
    return await page(
        visit,
        f"settings/{template or key}",
        status=422 if wrong else 200,
        title=heading,
        groups=groups,
        heading=heading,
        wrong=wrong,
        saved=saved,
        limits=visit.front.writes.limits,
        **views,
    )


def saved_at(visit: Visit, key: str) -> Response:
    """Send the browser back to a section, which says that it was saved."""
    return visit.go(f"/settings/{key}", saved=1)
