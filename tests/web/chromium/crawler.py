"""A crawler in a real browser: it opens pages as different viewers, clicks their controls, and checks the whole page each time.

A page is whole if it has one `main` and one main navigation and no page within a page; it reports no errors, requests nothing that
is refused, fits the window, does not move while it loads, shows where the focus is, and follows the rules of axe.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Browser, Error, Request, Response

from scripts.web_pages import MEMBERS, STRANGERS, Subjects, prepared
from shoal.commands import media, members, moderation, posts, reactions, relationships
from shoal.commands.polls import PollDraft
from shoal.commands.posts import Draft
from shoal.core.model import Member, Post, Role, Visibility
from tests.api.in_memory_network import picture
from tests.web.chromium.accessibility import hindrances, pale
from tests.web.chromium.browser_sessions import LiveServer, Screen, live_server, screen

PAGES = STRANGERS | MEMBERS
"""All pages by name. Each viewer opens all of them: a refused page must be a whole page too."""
ALONE = frozenset({"embedded", "offline", "offline-home", "portfolio"})
"""Pages without a navigation."""
WIDTHS = (390, 1_280)
ZOOMED = 640
"""The width of a desktop window of 1,280 by 900 pixels at 200 % zoom."""
_GONE = frozenset({"not-found", "link-over", "invitation-over"})
_STAFF = frozenset(
    {
        "moderation",
        "moderation-held",
        "moderation-report",
        "moderation-members",
        "moderation-member",
        "bulk-actions",
        "bulk-action",
    }
)
_ADMINS = frozenset(
    {
        "operations",
        "data-sources",
        "webhooks",
        "webhook",
        "audit-log",
        "moderation-rules",
        "moderation-rule-new",
        "moderation-rule",
    }
)
_OF_HERO = re.compile(r"(?!/posts/{own}/history|/feeds/{feed}$).*{(own|talk|album|list|feed|filter|sender)}")
"""Paths of objects that only Hal may see. The earlier versions of his post are public."""
_REFUSED = frozenset({403, 404, 410})
_SECONDS = 60

_SCRIPT = Path(__file__).with_name("crawler.js")
_PAINTED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


class Viewer(NamedTuple):
    """A visitor of the pages: a member with a role, or without a name a stranger."""

    who: str
    name: str = ""
    role: Role = Role.NONE

    @property
    def _gone(self) -> frozenset[str]:
        # A member who opens an invitation is sent home.
        return _GONE - {"invitation-over"} if self.name else _GONE

    def may_open(self, page: str) -> bool:
        """Return whether a page of `PAGES` opens for this viewer. Strangers see the login page instead of pages for members."""
        if page in _STAFF | _ADMINS:
            needed = Role.ADMIN if page in _ADMINS else Role.MODERATOR
            return not self.name or self.role.rank >= needed.rank
        return page not in self._gone and not (self.who == "newcomer" and _OF_HERO.match(PAGES[page]))


VIEWERS = (
    Viewer("stranger"),
    Viewer("newcomer", "nia"),
    Viewer("member", "hal"),
    Viewer("moderator", "hal", Role.MODERATOR),
    Viewer("admin", "hal", Role.ADMIN),
)


@contextmanager
def network_of_pages(mail: str) -> Iterator[LiveServer]:
    """Run a server whose operator has written all texts."""
    texts = {"rules": ("Be kind.",), "terms_of_service": "Post your own photos.", "privacy_policy": "Posts are kept."}
    with live_server(mail=mail, invitations="members", contact_email="help@example.org", **texts) as made:
        yield made


def cast(at: LiveServer) -> Subjects:
    """Fill a network: Hal, a member with one object of every kind; Ann, the author of the posts; and Nia, a newcomer."""
    hal, ann, ben = at.join("hal"), at.join("ann"), at.join("ben")
    at.join("nia")
    sea = _posted(at, ann, "Low tide at the #sea", 2)
    own = _posted(at, hal, "My first #sea", 1)
    at.run(posts.update(at.network.writes, hal.id, own.id, Draft(text="My very first #sea", media=own.media)))
    poll = PollDraft(options=("High", "Low"), seconds=86_400)
    at.run(posts.create(at.network.writes, ann.id, Draft(text="Which tide?", poll=poll)))
    _posted(at, ann, "No members found yet", 0, spoiler="Weather")
    for member in (hal, ben):
        at.run(reactions.like(at.network.writes, member.id, sea.id))
        at.run(posts.create(at.network.writes, member.id, Draft(text="I was there", parent_id=sea.id)))
    at.run(relationships.follow(at.network.writes, ben.id, hal.id))
    at.run(posts.create(at.network.writes, hal.id, Draft(text="@ann hello", visibility=Visibility.DIRECT)))
    found = at.run(prepared(at.network.writes, "hal", "ann", "sea"))
    at.settle()
    return found


def _posted(at: LiveServer, author: Member, text: str, photos: int, **more: Any) -> Post:
    """Create a post with photos of different proportions."""
    writes = at.network.writes
    sizes = [(600, 400), (400, 600)][:photos]
    found = [at.run(media.upload(writes, author.id, picture(*size), description=f"{size} of {text}")) for size in sizes]
    return at.run(posts.create(writes, author.id, Draft(text=text, media=tuple(one.id for one in found), **more)))


class Crawler:
    """A browser window of a viewer that opens pages and notes their faults."""

    def __init__(self, ours: Screen, viewer: Viewer, subjects: Subjects, known: set[str]) -> None:
        self.ours = ours
        self.viewer = viewer
        self.faults: list[str] = []
        self.opened = 0
        self._subjects = subjects
        self._known = known
        """Structures of pages that were checked with axe and by the keyboard."""
        self._open: set[Request] = set()
        self._refused: list[Response] = []
        page = ours.page
        page.add_init_script(path=_SCRIPT)
        page.on("request", self._begun)
        page.on("requestfinished", self._ended)
        page.on("requestfailed", self._ended)
        page.on("response", self._answered)

    def path(self, name: str) -> str:
        """Return the address of a page."""
        hers = {"hero": self.viewer.name} if self.viewer.who == "newcomer" else {}
        return PAGES[name].format(**{**self._subjects._asdict(), **hers})

    def open(self, name: str) -> bool:
        """Open a page, check its status, and return whether the viewer may see it."""
        self._refused.clear()
        may = self.viewer.may_open(name)
        answer = self.ours.page.goto(self.ours.at.url + self.path(name))
        assert answer is not None
        self.settle()
        self.opened += 1
        if (answer.status == 200) != may or not (may or answer.status in _REFUSED):
            self.note(name, f"status {answer.status}")
        if not may:
            self._refused[:] = [one for one in self._refused if one.url != answer.url]
        return may

    def note(self, where: str, what: str) -> None:
        self.faults.append(f"{where}: {what}")

    def check(self, where: str, *, alone: bool = False, opened: bool = False) -> None:
        """Note faults of the structure, the layout and the requests of a page that was `opened` or changed by a click."""
        try:
            found = self.ours.page.evaluate("([alone, opened]) => crawl.faults(alone, opened)", [alone, opened])
        except Error:  # A script opened another page.
            self.settle()
            found = self.ours.page.evaluate("([alone, opened]) => crawl.faults(alone, opened)", [alone, opened])
        for fault in found:
            self.note(where, fault)
        for answer in self._refused:
            self.note(where, f"{answer.status} {answer.request.method} {answer.url}")
        for complaint in self.ours.complaints:
            self.note(where, complaint.what)
        self._refused.clear()
        self.ours.complaints.clear()

    def check_closely(self, where: str, *, dark: bool) -> None:
        """Note violations of axe's rules and of the visibility of the focus, unless a page of the same structure was checked."""
        page = self.ours.page
        skeleton = page.evaluate("crawl.skeleton()")
        if skeleton in self._known:
            return
        self._known.add(skeleton)
        for fault in [*hindrances(page), *pale(page, dark=not dark)]:
            self.note(where, fault)
        page.emulate_media(color_scheme="dark" if dark else "light")
        page.keyboard.press("Tab")
        for fault in page.evaluate("crawl.focusFaults()"):
            self.note(where, fault)

    def settle(self) -> None:
        """Wait until nothing is loading or changing."""
        page = self.ours.page
        for _ in range(_SECONDS * 50):
            try:
                if not (page.evaluate("crawl.busy()") or self._open):
                    page.evaluate(_PAINTED)
                    return
            except Error:  # Another page is loading.
                pass
            page.wait_for_timeout(20)
        raise AssertionError(f"{page.url} does not become idle: {[one.url for one in self._open]}")

    def _begun(self, request: Request) -> None:
        if request.resource_type != "eventsource":
            self._open.add(request)

    def _ended(self, request: Request) -> None:
        self._open.discard(request)

    def _answered(self, response: Response) -> None:
        # A form that is sent without its required values is refused with an explanation.
        if response.status >= 400 and response.status != 422:
            self._refused.append(response)


@contextmanager
def crawler(
    at: LiveServer, subjects: Subjects, of: Browser, viewer: Viewer, width: int, known: set[str]
) -> Iterator[Crawler]:
    """Open a window as a viewer; the role of a member is changed to the viewer's."""
    if viewer.name == "hal":
        hal = at.run(members.find(at.network.writes, "hal"))
        assert hal is not None
        at.run(moderation.set_role(at.network.writes, hal.id, viewer.role))
        at.settle()
    with screen(at, of, width, dark=width > 800, touch=width < 800) as ours:
        if width == ZOOMED:
            ours.page.set_viewport_size({"width": width, "height": 450})
        if viewer.name:
            ours.log_in(viewer.name)
        yield Crawler(ours, viewer, subjects, known)
