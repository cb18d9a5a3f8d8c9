"""The frame around every page: the name of the network, who is logged in, where one can go, and how it looks."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from shoal.core.errors import Unavailable
from shoal.core.model import Member, Role
from shoal.core.text import isolated
from shoal.graph.cache.responses import not_noted
from shoal.i18n import LANGUAGES
from shoal.queries import notifications
from shoal.web.request_context import LOOK_COOKIE, Visit
from shoal.web.view_models import Face, face_of

_MOST_UNREAD = 20
"""Notifications that are counted for the badge; beyond, it says that there are more."""

Scheme = Literal["", "light", "dark"]
_SCHEMES = ("light", "dark")
_FLAGS = ("contrast", "dense", "still")


class NavLink(NamedTuple):
    """A place in the navigation."""

    path: str
    icon: str
    words: str
    here: bool
    badge: str = ""
    main: bool = True
    """Whether it is among the five in the bar of a phone."""


class Appearance(NamedTuple):
    """How a browser wants to see pages: `light`, `dark` or as the system; and more contrast, less space, less motion."""

    scheme: str = ""
    flags: tuple[str, ...] = ()

    @property
    def classes(self) -> str:
        """Return the classes of the page."""
        return " ".join([f"look-{one}" for one in (self.scheme, *self.flags) if one])


class Shell(msgspec.Struct, frozen=True):
    """Everything that the frame shows."""

    title: str
    """For the tab: the page's own title and the network's name."""
    network: str
    description: str
    form_token: str
    look: Appearance
    places: tuple[NavLink, ...]
    languages: tuple[tuple[str, str, str], ...]
    """The code, the name and the address of this page of each language, for strangers."""
    viewer: Face | None = None
    live: bool = False
    """Whether a script may listen for what happens."""


def look_of(text: str) -> Appearance:
    """Return the look that a cookie says; what it does not know is left out."""
    said = text.split("-")
    scheme = next((one for one in said if one in _SCHEMES), "")
    return Appearance(scheme, tuple(flag for flag in _FLAGS if flag in said))


async def shell_of(visit: Visit, title: str = "") -> Shell:
    """Return the frame of a page; one read of notifications for somebody who is logged in."""
    return _shell(visit, title, await places_of(visit))


async def places_of(visit: Visit) -> tuple[NavLink, ...]:
    """Return where one can go, with the number of unread notifications."""
    unread = ""
    if visit.viewer is not None:
        try:
            found = await notifications.unread(visit.front.reads, visit.viewer.id, _MOST_UNREAD)
        except Unavailable:
            not_noted()
            found = 0
        if found:
            unread = f"{found}" if found < _MOST_UNREAD else f"{_MOST_UNREAD}+"
    return _places(visit, unread)


def bare_shell(visit: Visit, title: str) -> Shell:
    """Return a frame that reads nothing: for a page about an error."""
    return _shell(visit, title, _places(visit, ""))


def _shell(visit: Visit, title: str, places: tuple[NavLink, ...]) -> Shell:
    settings = visit.front.settings
    network = isolated(settings.title)
    return Shell(
        title=f"{title} · {network}" if title else network,
        network=network,
        description=settings.description,
        form_token=visit.form_token,
        look=look_of(visit.request.cookies.get(LOOK_COOKIE, "")),
        places=places,
        languages=()
        if visit.viewer
        else tuple((code, name, visit.in_language(code)) for code, name in LANGUAGES.items()),
        viewer=face_of(visit, visit.viewer) if visit.viewer else None,
        live=visit.viewer is not None,
    )


def _places(visit: Visit, unread: str) -> tuple[NavLink, ...]:
    return _members_places(visit, visit.viewer, unread) if visit.viewer else _strangers_places(visit)


def _members_places(visit: Visit, viewer: Member, unread: str) -> tuple[NavLink, ...]:
    _ = visit.words.text
    at = visit.request.scope["path"]
    me = f"/@{viewer.name}"
    places = [
        NavLink("/", "house", _("Home"), at in {"/", "/for-you", "/catch-up"}),
        NavLink("/explore", "compass", _("Explore"), at.startswith(("/explore", "/tags/", "/search"))),
        NavLink("/compose", "square-pen", _("New post"), at == "/compose"),
        NavLink("/notifications", "bell", _("Notifications"), at.startswith("/notifications"), unread),
        NavLink(me, "circle-user-round", _("Profile"), at.startswith(me)),
        NavLink("/conversations", "messages-square", _("Messages"), at.startswith("/conversations"), main=False),
        NavLink("/saved", "bookmark", _("Saved"), at.startswith("/saved"), main=False),
        NavLink("/lists", "list", _("Lists"), at.startswith("/lists"), main=False),
        NavLink("/settings", "settings", _("Settings"), at.startswith("/settings"), main=False),
    ]
    if viewer.role.rank >= Role.MODERATOR.rank:
        places.append(NavLink("/moderation", "shield", _("Moderation"), at.startswith("/moderation"), main=False))
    if viewer.role.rank >= Role.ADMIN.rank:
        places.append(NavLink("/ops", "activity", _("Operations"), at.startswith("/ops"), main=False))
    return tuple(places)


def _strangers_places(visit: Visit) -> tuple[NavLink, ...]:
    _ = visit.words.text
    at = visit.request.scope["path"]
    places = [
        NavLink("/", "house", _("Front page"), at == "/"),
        NavLink("/explore", "compass", _("Explore"), at.startswith(("/explore", "/tags/", "/search"))),
        NavLink("/about", "info", _("About"), at == "/about"),
        NavLink("/login", "log-in", _("Log in"), at == "/login"),
    ]
    if visit.front.settings.registrations:
        places.append(NavLink("/signup", "user-plus", _("Join"), at == "/signup"))
    return tuple(places)
