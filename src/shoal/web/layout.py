"""The layout around every page: network name, viewer, navigation, language and appearance."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import msgspec

from shoal.core.errors import Unavailable
from shoal.core.model import Role, Visibility
from shoal.core.text import isolated
from shoal.graph.access import count_of
from shoal.graph.cache.dependencies import do_not_cache
from shoal.graph.payloads.notifications import Kind
from shoal.graph.schema import HOLDS
from shoal.i18n import LANGUAGES
from shoal.queries import conversations, notifications
from shoal.web.request_context import LOOK_COOKIE, PageContext, is_local
from shoal.web.view_models import Face, face_of

_MOST_UNREAD = 20
"""Maximum number of notifications, and of conversations, that are counted for a badge; at this number it shows "20+"."""

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
    """Whether the link is among the five in the phone's navigation bar."""
    id: str = ""
    """Id of the element, for links that the event stream replaces or a style sheet marks."""


class Unread(NamedTuple):
    notifications: int = 0
    messages: int = 0
    """Number of conversations."""
    pending: int = 0
    """Amount of the viewer's own content that waits for approval or was rejected."""
    on_icon: int | None = None
    """The number on the icon of the installed app, where a message and its mention count once; None if it is not known."""


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
    unread: Unread


def look_of(text: str) -> Appearance:
    """Return the appearance in the text of a cookie. Unknown parts are ignored."""
    parts = text.split("-")
    scheme = next((part for part in parts if part in _SCHEMES), "")
    return Appearance(scheme, tuple(flag for flag in _FLAGS if flag in parts))


async def shell_of(ctx: PageContext, title: str = "", *, returns: bool = True) -> Shell:
    """Return the layout of a page. With `returns`, a visitor comes back to this page after logging in or signing up."""
    unread = await unread_of(ctx)
    return _shell(ctx, title, nav_links(ctx, unread, returns=returns), unread)


def bare_shell(ctx: PageContext, title: str) -> Shell:
    """Return a page layout that needs no reads from the stores, for error pages."""
    return _shell(ctx, title, nav_links(ctx, _NOTHING, returns=False), _NOTHING)


def _shell(ctx: PageContext, title: str, links: tuple[NavLink, ...], unread: Unread) -> Shell:
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
        unread=unread,
    )


_NOTHING = Unread()


async def unread_of(ctx: PageContext) -> Unread:
    """Return the unread notifications and messages of the viewer.

    Without any, this costs three reads for a logged-in member, and one more if content of the member was ever held.
    """
    if ctx.viewer is None:
        return _NOTHING
    try:
        notices, messages = await asyncio.gather(
            notifications.newer(ctx.reads, ctx.viewer.id, _MOST_UNREAD),
            conversations.unread(ctx.reads, ctx.viewer.id, _MOST_UNREAD),
        )
    except Unavailable:
        do_not_cache()
        return _NOTHING
    direct = sum(
        one.notice.kind is Kind.MENTION and one.entry is not None and one.entry.post.visibility is Visibility.DIRECT
        for one in notices
    )
    pending = await count_of(ctx.graph, ctx.viewer.id, HOLDS) if ctx.viewer.has_held else 0
    return Unread(len(notices), messages, pending, max(len(notices) - direct, 0) + messages)


def _badge(number: int) -> str:
    return "" if not number else f"{number}" if number < _MOST_UNREAD else f"{_MOST_UNREAD}+"


def nav_links(ctx: PageContext, unread: Unread, *, returns: bool = True) -> tuple[NavLink, ...]:
    """Return the navigation links, with badges of unread notifications and messages."""
    _, viewer, at = ctx.words.text, ctx.viewer, ctx.request.scope["path"]
    explore = NavLink("/explore", "compass", _("Explore"), at.startswith(("/explore", "/tags/", "/search", "/feeds")))
    if viewer is None:
        # A token in the URL must not be copied into the links of the page.
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

    def link(path: str, icon: str, words: str, number: int = 0, *, main: bool = False, name: str = "") -> NavLink:
        return NavLink(path, icon, words, at.startswith(path), _badge(number), main, name)

    links = [
        NavLink("/", "house", _("Home"), at in {"/", "/for-you", "/catch-up"}),
        explore,
        NavLink("/compose", "square-pen", _("New post"), at == "/compose"),
        link("/notifications", "bell", _("Notifications"), unread.notifications, main=True, name="bell"),
        link(f"/@{viewer.name}", "circle-user-round", _("Profile"), main=True, name="me"),
        *([link("/pending", "shield-check", _("Waiting for approval"))] if unread.pending else []),
        link("/conversations", "messages-square", _("Messages"), unread.messages, name="messages"),
        link("/saved", "bookmark", _("Saved")),
        link("/lists", "list", _("Lists")),
        link("/settings", "settings", _("Settings")),
    ]
    if viewer.role.rank >= Role.MODERATOR.rank:
        links.append(link("/moderation", "shield", _("Moderation")))
    if viewer.role.rank >= Role.ADMIN.rank:
        links.append(link("/ops", "activity", _("Operations")))
    return tuple(links)
