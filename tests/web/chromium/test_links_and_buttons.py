"""Links, buttons and keyboard shortcuts of all pages open a complete page or change a part of the page."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Error, Request
from scripts.web_pages import MEMBERS, STRANGERS, Subjects, prepared

from shoal.commands import posts, reactions, relationships
from shoal.commands.polls import PollDraft
from shoal.commands.posts import Draft
from shoal.core.model import Visibility
from tests.example_counts import DEEP
from tests.web.chromium.browser_sessions import LiveServer, Screen, screen
from tests.web.pictures import posted

_DEPTH = 2
"""The number of successive clicks on one page: the first may open a menu or a form with more controls."""
_SECONDS = 60
_PARTS = ("home", "post", "profile-posts", "people", "notifications", "conversation", "message", "list-edit")
"""Pages that together contain all parts with partial responses: posts, comments, member cards, polls and forms."""
_ALONE = ("embedded", "offline")
"""Pages without a navigation."""
_KEYS = ("c", "l", "b", "s", "o", "p", ".", "?", "n", "/")

# The controls of a page by kind: two controls of the same kind come from the same line of a template.
_CONTROLS = """() => {
  const plain = (url) => decodeURIComponent(new URL(url, location.href).pathname)
    .replace(/@[^/]+/g, "@").replace(/[0-9]+/g, "0").replace(/^.(tags|recipe|invite|goodbye).[^/]+/, "/$1/");
  const names = (one) => one ? one.tagName + [...one.classList].sort().map((name) => "." + name).join("") : "";
  const found = {};
  for (const one of document.querySelectorAll("main a[href], main button, main summary")) {
    const href = one.getAttribute("href"), form = one.closest("form");
    const target = new URL(href ?? form?.getAttribute("action") ?? "", location.href);
    if (target.origin !== location.origin || APART.test(target.pathname)) continue;
    const holder = one.parentElement.closest("article, li, form, nav, section, aside, dialog, div[class]");
    const sent = form ? [plain(form.getAttribute("action") ?? ""), one.name, (one.value ?? "").replace(/[0-9]+/g, "0")] : [];
    found[[names(one), href ? plain(href) : sent.join(" "), names(holder), names(form)].join(" | ")] ??= one;
  }
  return found;
}"""
_CONTROLS = _CONTROLS.replace("APART", r"/^.(embed|docs|media|logout|settings.archive)\b|[.]atom$/")
"""Excludes pages without a navigation, downloads, and log-out."""
_KINDS = f"() => Object.keys(({_CONTROLS})())"
_CLICK = f"""(kind) => {{
  htmx.config.globalViewTransitions = false;
  const control = ({_CONTROLS})()[kind];
  if (!control) return false;
  control.dispatchEvent(new MouseEvent("click", {{ bubbles: true, cancelable: true }}));
  return true;
}}"""
_COUNTS = """() => ({
  busy: document.readyState !== "complete" || document.querySelector(".htmx-request") !== null,
  mains: document.querySelectorAll("main").length,
  navigations: document.querySelectorAll("nav.navigation").length,
})"""


class Walk(NamedTuple):
    """The page to open, and the controls to click in turn."""

    path: str
    kinds: tuple[str, ...]


class Clicker:
    """Clicks each kind of control once."""

    def __init__(self, ours: Screen) -> None:
        self._ours = ours
        self._open: set[Request] = set()
        self.clicked: list[str] = []
        self.torn: list[str] = []
        self._known: set[str] = set()
        page = ours.page
        page.on("request", self._begun)
        page.on("requestfinished", self._ended)
        page.on("requestfailed", self._ended)

    def look(self, path: str) -> None:
        """Click each kind of control on a page that was not clicked on another page."""
        self._ours.open(path)
        waiting = deque(self._new(path, ()))
        while waiting:
            walk = waiting.popleft()
            if self._walked(walk) and len(walk.kinds) < _DEPTH:
                waiting.extend(self._new(path, walk.kinds))

    def press(self, path: str, key: str) -> None:
        """Press a key at the first post of a page."""
        page = self._ours.open(path)
        page.evaluate("() => { htmx.config.globalViewTransitions = false; }")
        page.keyboard.press("j")
        page.keyboard.press(key)
        self._check(f"{path}: key {key}")

    def _begun(self, request: Request) -> None:
        if request.resource_type != "eventsource":
            self._open.add(request)

    def _ended(self, request: Request) -> None:
        self._open.discard(request)

    def _walked(self, walk: Walk) -> bool:
        """Click the controls, and return whether the page is still open."""
        page = self._ours.open(walk.path)
        for kind in walk.kinds:
            if not page.evaluate(_CLICK, kind):
                return False
            self._check(f"{walk.path}: {kind}")
        self.clicked.append(walk.kinds[-1])
        return page.url == self._ours.at.url + walk.path

    def _new(self, path: str, before: tuple[str, ...]) -> list[Walk]:
        kinds = [kind for kind in self._ours.page.evaluate(_KINDS) if kind not in self._known]
        self._known.update(kinds)
        return [Walk(path, (*before, kind)) for kind in kinds]

    def _check(self, what: str) -> None:
        counts = self._settled()
        if (counts["mains"], counts["navigations"]) != (1, 1):
            self.torn.append(f"{what}: {counts}")

    def _settled(self) -> dict[str, Any]:
        page = self._ours.page
        for _ in range(_SECONDS * 100):
            try:
                counts: dict[str, Any] = page.evaluate(_COUNTS)
            except Error:  # Another page is loading.
                counts = {"busy": True}
            if not (counts["busy"] or self._open):
                return counts
            page.wait_for_timeout(10)
        raise AssertionError(f"{page.url} does not become idle: {[one.url for one in self._open]}")


@pytest.fixture(scope="module")
def subjects(at: LiveServer) -> Subjects:
    """Hal, the viewer, and Ann, the author of posts with photos, comments, a poll and a warning."""
    hal, ann, ben = at.join("hal"), at.join("ann"), at.join("ben")
    sea = posted(at, ann, "Low tide at the #sea", 2)
    own = posted(at, hal, "My first #sea", 1)
    at.run(posts.update(at.network.writes, hal.id, own.id, Draft(text="My very first #sea", media=own.media)))
    poll = PollDraft(options=("High", "Low"), seconds=86_400)
    at.run(posts.create(at.network.writes, ann.id, Draft(text="Which tide?", poll=poll)))
    posted(at, ann, "No members found yet", spoiler="Weather")
    for member in (hal, ben):
        at.run(reactions.like(at.network.writes, member.id, sea.id))
        at.run(posts.create(at.network.writes, member.id, Draft(text="I was there", parent_id=sea.id)))
    at.run(relationships.follow(at.network.writes, ben.id, hal.id))
    at.run(posts.create(at.network.writes, hal.id, Draft(text="@ann hello", visibility=Visibility.DIRECT)))
    found = at.run(prepared(at.network.writes, "hal", "ann", "sea"))
    at.settle()
    return found


def paths(pages: dict[str, str], subjects: Subjects) -> list[str]:
    """Return the addresses of pages that have a navigation."""
    return [path.format(**subjects._asdict()) for name, path in pages.items() if name not in _ALONE]


def test_anonymous_page_controls_leave_one_main_and_one_navigation(
    at: LiveServer, subjects: Subjects, chromium: Browser
) -> None:
    with screen(at, chromium) as ours:
        clicker = Clicker(ours)
        for path in paths(STRANGERS, subjects)[:: 1 if DEEP else 3]:
            clicker.look(path)
    assert clicker.torn == []
    assert len(clicker.clicked) > (30 if DEEP else 10)


def test_keyboard_shortcuts_leave_one_main_and_one_navigation(
    at: LiveServer, subjects: Subjects, chromium: Browser
) -> None:
    with screen(at, chromium) as ours:
        ours.log_in("hal")
        clicker = Clicker(ours)
        for path in ("/", f"/@{subjects.author}/{subjects.id}", f"/@{subjects.author}?show=posts"):
            for key in _KEYS:
                clicker.press(path, key)
    assert clicker.torn == []


def test_post_comment_card_and_form_controls_leave_one_main_and_one_navigation(
    at: LiveServer, subjects: Subjects, chromium: Browser
) -> None:
    with screen(at, chromium) as ours:
        ours.log_in("hal")
        clicker = Clicker(ours)
        for path in paths({name: MEMBERS[name] for name in _PARTS}, subjects):
            clicker.look(path)
    assert clicker.torn == []
    for control in ("A.more", "A.comment", "A.answer-link", "A | /compose | FORM.comment-form", "/polls/0/vote"):
        assert any(control in kind for kind in clicker.clicked), control


@pytest.mark.deep
def test_member_page_controls_leave_one_main_and_one_navigation(
    at: LiveServer, subjects: Subjects, chromium: Browser
) -> None:
    with screen(at, chromium) as ours:
        ours.log_in("hal")
        clicker = Clicker(ours)
        for path in paths(MEMBERS, subjects):
            clicker.look(path)
    assert clicker.torn == []
    assert len(clicker.clicked) > 200
