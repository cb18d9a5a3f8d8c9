"""The layout of settings pages: sections in groups, the current section, and the error or success message of a form."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from starlette.responses import Response

from shoal.core.signup import may_invite
from shoal.web.form_errors import RIGHT, Wrong
from shoal.web.rendering import page
from shoal.web.request_context import LogInFirst, Visit

_Groups = list[tuple[str, tuple[tuple[str, str, str, str], ...]]]
"""Groups by label, each with the key, icon, label and hint of its sections."""


class Section(NamedTuple):
    key: str
    path: str
    icon: str
    words: str
    hint: str
    here: bool


class SettingsGroup(NamedTuple):
    words: str
    sections: tuple[Section, ...]


def groups_of(visit: Visit, here: str) -> list[SettingsGroup]:
    """Return the settings available to the viewer; anonymous viewers have only the appearance."""
    _ = visit.words.text
    groups: _Groups = [
        (_("This browser"), (("appearance", "palette", _("Appearance"), _("Light or dark, contrast, language")),))
    ]
    if visit.viewer is not None:
        groups = [*_of_member(visit), *groups, *_of_account(visit)]
    return [SettingsGroup(words, tuple(_section(visit, here, *one) for one in sections)) for words, sections in groups]


def _of_member(visit: Visit) -> _Groups:
    _ = visit.words.text
    return [
        (
            _("You"),
            (
                ("profile", "circle-user-round", _("Profile"), _("Name, pictures, a few words")),
                ("privacy", "lock", _("Privacy"), _("Who may follow you and find what you post")),
                ("posting", "square-pen", _("Posting"), _("How a new post begins")),
            ),
        ),
        (
            _("What you see"),
            (
                ("ranking", "sliders-horizontal", _("Ranking"), _("What stands first in For you")),
                ("feedback", "thumbs-up", _("More and less"), _("What you asked more or less of")),
                ("filters", "funnel", _("Filters"), _("Words that you do not want to read")),
                ("people", "volume-x", _("Muted and blocked"), _("People whom you do not want to see")),
                ("notifications", "bell", _("Notifications"), _("Whose notifications reach you")),
            ),
        ),
    ]


def _of_account(visit: Visit) -> _Groups:
    _ = visit.words.text
    invites = may_invite(visit.front.writes.inviters, visit.member)
    invitations = (("invitations", "send", _("Invitations"), _("Links by which others join")),) if invites else ()
    shelf = visit.front.archives
    takes = shelf is not None and shelf.most_bytes > 0
    moving_in = (("import", "upload", _("Move in"), _("Your posts from another network")),) if takes else ()
    return [
        (
            _("Account"),
            (
                ("password", "key-round", _("Password"), _("Choose another one")),
                ("passkeys", "smartphone", _("Passkeys"), _("Log in by a finger, a face or a key")),
                ("second_factor", "shield-check", _("Second factor"), _("A code besides the password")),
                ("email", "mail", _("E-mail address"), _("Where mail for you goes")),
                ("sessions", "laptop", _("Sessions and apps"), _("Where you are logged in")),
                ("contacts", "user-plus", _("Find friends"), _("Whom you follow on another network")),
                *invitations,
                *moving_in,
                ("archive", "archive", _("Your data"), _("Take everything with you")),
                ("account", "trash-2", _("Delete the account"), _("Leave, with all that is yours")),
            ),
        ),
    ]


def _section(visit: Visit, here: str, key: str, icon: str, words: str, hint: str) -> Section:
    return Section(key, visit.url(f"/settings/{key}"), icon, words, hint, key == here)


_FOR_ALL = frozenset({"appearance"})
"""Sections that are also available without login."""


class SettingsQuery(msgspec.Struct, frozen=True):
    """Whether the form of the page was just saved."""

    saved: bool = False


async def settings_page(
    visit: Visit, key: str, *, template: str = "", wrong: Wrong = RIGHT, saved: bool = False, **views: object
) -> Response:
    """Return the page of a section, with status 422 if there are errors. Raises `LogInFirst` if it is for members."""
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
    """Redirect to a section with a message that it was saved."""
    return visit.go(f"/settings/{key}", saved=1)
