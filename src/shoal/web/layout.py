"""The layout around every page: network name, viewer, navigation, language and appearance."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from shoal.core.errors import Unavailable
from shoal.core.model import Role
from shoal.core.text import isolated
from shoal.graph.cache.dependencies import do_not_cache
from shoal.i18n import LANGUAGES
from shoal.queries import notifications
from shoal.web.request_context import LOOK_COOKIE, PageContext, is_local
from shoal.web.view_models import Face, face_of

_MOST_UNREAD = 20
"""Maximum number of unread notifications that are counted. At this number, the badge shows "20+"."""

_SCHEMES = ("light", "dark")
_NO_RETURN = ("/login", "/signup", "/invite", "/forgotten", "/reset", "/oauth", "/about")
"""Beginnings of paths that a visitor does not return to after logging in."""
_FLAGS = ("contrast", "dense", "still")


class NavLink(NamedTuple):
    path: str
    icon: str
    words: str
    here: bool
    badge: str = ""
    main: bool = True
    """Whether the link is one of the five in the navigation bar of phones."""


class Appearance(NamedTuple):
    """Appearance settings of a browser: light, dark or as in the system; high contrast; dense layout; reduced motion."""

    scheme: str = ""
    flags: tuple[str, ...] = ()

    @property
    def classes(self) -> str:
        return " ".join([f"look-{part}" for part in (self.scheme, *self.flags) if part])


class Shell(msgspec.Struct, frozen=True):
    title: str
    """Title of the browser tab: the title of the page and the name of the network."""
    network: str
    description: str
    form_token: str
    look: Appearance
    nav_links: tuple[NavLink, ...]
    languages: tuple[tuple[str, str, str], ...]
    viewer: Face | None


def look_of(text: str) -> Appearance:
    """Return the appearance in the text of a cookie. Unknown parts are ignored."""
    parts = text.split("-")
    scheme = next((part for part in parts if part in _SCHEMES), "")
    return Appearance(scheme, tuple(flag for flag in _FLAGS if flag in parts))


async def shell_of(ctx: PageContext, title: str = "", *, returns: bool = True) -> Shell:
    """Return the layout of a page. With `returns`, a visitor returns to this page after logging in or signing up."""
    return _shell(ctx, title, await nav_links_of(ctx, returns=returns))


def bare_shell(ctx: PageContext, title: str) -> Shell:
    return _shell(ctx, title, _nav_links(ctx, "", returns=False))


def _shell(ctx: PageContext, title: str, links: tuple[NavLink, ...]) -> Shell:
    settings, viewer = ctx.settings, ctx.viewer
    network = isolated(settings.title)
    languages = () if viewer else tuple((code, name, ctx.in_language(code)) for code, name in LANGUAGES.items())
    return Shell(
        title=f"{title} · {network}" if title else network,
        network=network,
        description=settings.description,
        form_token=ctx.form_token,
        look=look_of(ctx.request.cookies.get(LOOK_COOKIE, "")),
        nav_links=links,
        languages=languages,
        viewer=face_of(ctx, viewer) if viewer else None,
    )


async def nav_links_of(ctx: PageContext, *, returns: bool = True) -> tuple[NavLink, ...]:
    """Return the navigation links, with the number of unread notifications. Costs one read if a member is logged in."""
    if ctx.viewer is None:
        return _nav_links(ctx, "", returns=returns)
    try:
        unread = await notifications.unread(ctx.reads, ctx.viewer.id, _MOST_UNREAD)
    except Unavailable:
        do_not_cache()
        unread = 0
    badge = f"{unread}" if unread < _MOST_UNREAD else f"{_MOST_UNREAD}+"
    return _nav_links(ctx, badge if unread else "")


def _nav_links(ctx: PageContext, unread: str, *, returns: bool = True) -> tuple[NavLink, ...]:
    _, viewer, at = ctx.words.text, ctx.viewer, ctx.request.scope["path"]
    explore = NavLink("/explore", "compass", _("Explore"), at.startswith(("/explore", "/tags/", "/search")))
    if viewer is None:
        # Do not repeat a token from the URL in the links of a page.
        returns = returns and at != "/" and is_local(ctx.path) and "access_token" not in ctx.path
        back = f"?to={ctx.quoted_path}" if returns and not at.startswith(_NO_RETURN) else ""
        links = [
            NavLink("/", "house", _("Home"), at == "/"),
            explore,
            NavLink("/about", "info", _("About"), at == "/about"),
            NavLink(f"/login{back}", "log-in", _("Log in"), at == "/login"),
        ]
        if ctx.settings.registrations:
            links.append(NavLink(f"/signup{back}", "user-plus", _("Sign up"), at == "/signup"))
        return tuple(links)

    def link(path: str, icon: str, words: str, badge: str = "", *, main: bool = False) -> NavLink:
        return NavLink(path, icon, words, at.startswith(path), badge, main)

    links = [
        NavLink("/", "house", _("Home"), at in {"/", "/for-you", "/catch-up"}),
        explore,
        NavLink("/compose", "square-pen", _("New post"), at == "/compose"),
        link("/notifications", "bell", _("Notifications"), unread, main=True),
        link(f"/@{viewer.name}", "circle-user-round", _("Profile"), main=True),
        link("/conversations", "messages-square", _("Messages")),
        link("/saved", "bookmark", _("Saved")),
        link("/lists", "list", _("Lists")),
        link("/settings", "settings", _("Settings")),
    ]
    if viewer.role.rank >= Role.MODERATOR.rank:
        links.append(link("/moderation", "shield", _("Moderation")))
    if viewer.role.rank >= Role.ADMIN.rank:
        links.append(link("/ops", "activity", _("Operations")))
    return tuple(links)
