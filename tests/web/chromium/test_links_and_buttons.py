"""Links, buttons and keyboard shortcuts of all pages open a whole page or change a part of the page, and Back returns."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser

from scripts.web_pages import STRANGERS, Subjects
from shoal.core.model import Role
from tests.example_counts import DEEP
from tests.web.chromium.browser_sessions import LiveServer
from tests.web.chromium.crawler import (
    ALONE,
    PAGES,
    VIEWERS,
    WIDTHS,
    Crawler,
    Viewer,
    cast,
    crawler,
    network_of_pages,
)

_DEPTH = 2
"""The number of successive clicks on one page: the first may open a menu or a form with more controls."""
_PARTS = ("home", "post", "profile-posts", "people", "notifications", "conversation", "message", "list-edit")
"""Pages that together contain all parts with partial responses: posts, comments, member cards, polls and forms."""
_KEYS = ("c", "r", "l", "f", "b", "s", "o", "p", ".", "?", "n", "/")
_DESTRUCTIVE = re.compile(
    r"delete|remove|dismiss|discard|logout|forget|/end|/undo|/confirm|/reset|/goodbye|suspend|block|drop"
    r"|/settings/(account|email|password|second_factor|sessions|invitations)|/moderation/|/ops/|/notifications/requests"
)
"""Kinds of buttons that delete an object of other pages or end the session. They are clicked on a copy of the network."""

# The controls of a page by kind: two controls of the same kind come from the same line of a template.
_CONTROLS = """() => {
  const plain = (url) => decodeURIComponent(new URL(url, location.href).pathname)
    .replace(/@[^/]+/g, "@").replace(/[0-9]+/g, "0").replace(/^.(tags|recipe|invite|goodbye).[^/]+/, "/$1/");
  const names = (one) => one ? one.tagName + [...one.classList].sort().map((name) => "." + name).join("") : "";
  const found = {};
  for (const one of document.querySelectorAll("main a[href], main button, main summary")) {
    const href = one.getAttribute("href"), form = one.closest("form");
    const target = new URL(href ?? form?.getAttribute("action") ?? "", location.href);
    if (!one.checkVisibility() || one.target || target.origin !== location.origin || APART.test(target.pathname)) continue;
    const holder = one.parentElement.closest("article, li, form, nav, section, aside, dialog, div[class]");
    const sent = form ? [plain(form.getAttribute("action") ?? ""), one.name, (one.value ?? "").replace(/[0-9]+/g, "0")] : [];
    found[[names(one), href ? plain(href) : sent.join(" "), names(holder), names(form)].join(" | ")] ??= one;
  }
  return found;
}"""
_CONTROLS = _CONTROLS.replace("APART", r"/^.(embed|docs|media|logout|settings.archive)\b|[.]atom$|.portfolio$/")
"""Excludes pages without a navigation, downloads, and log-out."""
_KINDS = f"() => Object.keys(({_CONTROLS})())"
_FOCUS = f"""(kind) => {{
  window.stays = true;
  const control = ({_CONTROLS})()[kind];
  control?.focus();
  return control !== undefined && document.activeElement === control;
}}"""
"""Focuses a control."""


class Walk(NamedTuple):
    """The page to open, and the controls to click in turn."""

    page: str
    kinds: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}: {' > '.join(self.kinds)}"


class Clicker:
    """Clicks each kind of control once, except those that were clicked as another viewer."""

    def __init__(self, crawl: Crawler, known: set[str]) -> None:
        self.clicked: list[str] = []
        self.postponed: list[Walk] = []
        """Walks whose last click is destructive."""
        self._crawl = crawl
        self._known = known

    def look(self, name: str) -> None:
        """Click each new kind of control on a page."""
        if not self._crawl.open(name):
            return
        waiting = deque(self._new(name, ()))
        while waiting:
            walk = waiting.popleft()
            if walk.kinds[-1].startswith("BUTTON") and _DESTRUCTIVE.search(walk.kinds[-1]):
                self.postponed.append(walk)
            elif self.walk(walk) and len(walk.kinds) < _DEPTH:
                waiting.extend(self._new(name, walk.kinds))

    def walk(self, walk: Walk) -> bool:
        """Click the controls, and return whether the page is still open."""
        crawl, page = self._crawl, self._crawl.ours.page
        crawl.open(walk.page)
        before = page.evaluate("crawl.state()")
        for kind in walk.kinds:
            if not page.evaluate(_FOCUS, kind):
                return False
            page.keyboard.press("Enter")
            crawl.settle()
            crawl.check(str(walk))
        self.clicked.append(walk.kinds[-1])
        after = page.evaluate("crawl.state()")
        if after["lost"]:
            crawl.note(str(walk), "the focus is lost")
        if after["path"] == before["path"]:
            return bool(after["stays"])
        if walk.kinds[-1].startswith(("A ", "A.")) and len(walk.kinds) == 1:
            page.go_back()
            crawl.settle()
            back = page.evaluate("crawl.state()")
            if (back["path"], back["heading"]) != (before["path"], before["heading"]):
                crawl.note(str(walk), f"Back leads to {back['path']}, not to {before['path']}")
            crawl.check(f"{walk} > Back")
        return False

    def try_walk(self, walk: Walk) -> bool:
        """Click the controls, and return whether they are there; note no faults if they are not."""
        faults, clicked = len(self._crawl.faults), len(self.clicked)
        self.walk(walk)
        if len(self.clicked) == clicked:
            del self._crawl.faults[faults:]
        return len(self.clicked) > clicked

    def press(self, name: str, key: str) -> None:
        """Press a key at the first post of a page."""
        self._crawl.open(name)
        keyboard = self._crawl.ours.page.keyboard
        keyboard.press("j")
        keyboard.press(key)
        self._crawl.settle()
        self._crawl.check(f"{name}: key {key}")

    def _new(self, name: str, before: tuple[str, ...]) -> list[Walk]:
        kinds = [kind for kind in self._crawl.ours.page.evaluate(_KINDS) if kind not in self._known]
        self._known.update(kinds)
        return [Walk(name, (*before, kind)) for kind in kinds]


@pytest.fixture(scope="module")
def known() -> dict[int, set[str]]:
    """Kinds of controls that were clicked, by the width of the window."""
    return {width: set() for width in WIDTHS}


@contextmanager
def clicking(
    at: LiveServer, subjects: Subjects, of: Browser, viewer: Viewer, width: int = 1_280, known: set[str] | None = None
) -> Iterator[Clicker]:
    """Click controls as a viewer, and assert at the end that no page had a fault."""
    with crawler(at, subjects, of, viewer, width, set()) as crawl:
        clicker = Clicker(crawl, known if known is not None else set())
        yield clicker
    assert not crawl.faults, "\n".join(crawl.faults)


def walk_on_copies(walks: Sequence[Walk], of: Browser, viewer: Viewer, width: int, mail: str) -> int:
    """Walk on copies of the network: on a new one when an earlier walk removed the control. Return the number of clicks."""
    waiting, clicked = deque(walks), 0
    while waiting:
        with network_of_pages(mail) as at, clicking(at, cast(at), of, viewer, width) as clicker:
            while waiting and clicker.try_walk(waiting[0]):
                waiting.popleft()
            if not clicker.clicked:
                # Only a click elsewhere showed the control.
                waiting.popleft()
        clicked += len(clicker.clicked)
    return clicked


def pages_of(pages: dict[str, str]) -> list[str]:
    """Return the names of pages that have a navigation."""
    return [name for name in pages if name not in ALONE]


def test_anonymous_pages_have_one_main_and_one_navigation_after_each_click(
    at: LiveServer, subjects: Subjects, chromium: Browser
) -> None:
    with clicking(at, subjects, chromium, VIEWERS[0]) as clicker:
        for name in pages_of(STRANGERS)[:: 1 if DEEP else 3]:
            clicker.look(name)
    assert len(clicker.clicked) > (30 if DEEP else 10)


def test_pages_have_one_main_and_one_navigation_after_each_keyboard_shortcut(
    at: LiveServer, subjects: Subjects, chromium: Browser
) -> None:
    with clicking(at, subjects, chromium, VIEWERS[2]) as clicker:
        for name in ("home", "post", "profile-posts"):
            for key in _KEYS:
                clicker.press(name, key)


def test_post_pages_have_one_main_and_one_navigation_after_each_click(
    at: LiveServer, subjects: Subjects, chromium: Browser
) -> None:
    with clicking(at, subjects, chromium, VIEWERS[2]) as clicker:
        for name in _PARTS:
            clicker.look(name)
    for control in (
        "A.more",
        "A.comment",
        "A.answer-link",
        "BUTTON.as-link | /posts/0/comments do more",
        "/polls/0/vote",
    ):
        assert any(control in kind for kind in clicker.clicked), control


@pytest.mark.deep
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("viewer", [VIEWERS[4], *VIEWERS[:4]], ids=lambda viewer: viewer.who)
def test_pages_have_one_main_and_one_navigation_after_each_click(
    at: LiveServer,
    subjects: Subjects,
    chromium: Browser,
    known: dict[int, set[str]],
    tmp_path: Path,
    viewer: Viewer,
    width: int,
) -> None:
    with clicking(at, subjects, chromium, viewer, width, known[width]) as clicker:
        for name in pages_of(PAGES):
            clicker.look(name)
    if viewer.role is Role.ADMIN:
        assert len(clicker.clicked) > 150
    walk_on_copies(clicker.postponed, chromium, viewer, width, tmp_path.as_uri())
