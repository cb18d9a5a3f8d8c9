"""The layout around every page: network name, viewer, navigation, language and appearance."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from shoal.core.errors import Unavailable
from shoal.core.model import Member, Role
from shoal.core.text import isolated
from shoal.graph.cache.dependencies import not_noted
from shoal.i18n import LANGUAGES
from shoal.queries import notifications
from shoal.web.request_context import LOOK_COOKIE, Visit
from shoal.web.view_models import Face, face_of

_MOST_UNREAD = 20
"""Maximum of notifications counted for the badge; beyond it, the badge shows "more"."""

Scheme = Literal["", "light", "dark"]
_SCHEMES = ("light", "dark")
_FLAGS = ("contrast", "dense", "still")


class NavLink(NamedTuple):
    path: str
    icon: str
    words: str
    here: bool
    badge: str = ""
    main: bool = True
    """Whether the link is among the five in the phone's navigation bar."""


class Appearance(NamedTuple):
    """Appearance settings of a browser: `light`, `dark` or as the system; high contrast, dense layout, reduced motion."""

    scheme: str = ""
    flags: tuple[str, ...] = ()

    @property
    def classes(self) -> str:
        return " ".join([f"look-{one}" for one in (self.scheme, *self.flags) if one])


class Shell(msgspec.Struct, frozen=True):
    title: str
    """Title of the tab: the page's own title and the network's name."""
    network: str
    description: str
    form_token: str
    look: Appearance
    places: tuple[NavLink, ...]
    languages: tuple[tuple[str, str, str], ...]
    """Code, name and URL of this page in each language, for anonymous viewers."""
    viewer: Face | None = None
    live: bool = False
    """Whether the page opens an event stream."""


def look_of(text: str) -> Appearance:
    """Return the appearance stored in a cookie, without unknown parts."""
    said = text.split("-")
    scheme = next((one for one in said if one in _SCHEMES), "")
    return Appearance(scheme, tuple(flag for flag in _FLAGS if flag in said))


async def shell_of(visit: Visit, title: str = "") -> Shell:
    return _shell(visit, title, await places_of(visit))


async def places_of(visit: Visit) -> tuple[NavLink, ...]:
    """Return the navigation links, with the number of unread notifications. Costs one read for a logged-in member."""
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
    """Return a layout that needs no reads, for error pages."""
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
