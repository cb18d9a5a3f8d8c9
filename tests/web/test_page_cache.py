"""Cached pages of the web app equal fresh pages, and contain the form tokens of the requesting browser."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.commands import sessions
from shoal.graph.cache.change_log import ChangeLog
from shoal.graph.cache.coherence import VersionTokenGuard
from shoal.graph.cache.dependencies import ReadSet
from shoal.i18n import words_in
from shoal.queries import home
from shoal.server import AppParts
from shoal.tagcloud import reader
from shoal.web import request_context
from tests.api.http.response_cache_scenario import FrontEnd, Story, at_rest, told
from tests.api.http.test_response_cache import unnoted
from tests.api.http.test_response_cache_multiprocess import two_processes
from tests.api.in_memory_network import NetworkFixture, Someone, network_fixture
from tests.example_counts import examples

STEPS = 60
_OWN = re.compile(r'[0-9a-f]{128}|(?<=name="request" value=")[\w-]{16}')
"""Form tokens and request ids, which differ in each response."""


class Look(NamedTuple):
    """A page and the request headers of a browser."""

    path: str
    headers: tuple[tuple[str, str], ...]


class Browsers:
    """Browsers of all members of a story, and an anonymous one."""

    def __init__(self, here: NetworkFixture, people: list[Someone]) -> None:
        self.cookies = {"": f"shoal_form={'s' * 43}"}
        for n, one in enumerate(people):
            begun = here.run(sessions.begin(here.network.writes, one.member, proved=True))
            self.cookies[one.id] = f"shoal_login={begun.text}; shoal_form={str(n) * 43}"

    def look(self, story: Story, path: str) -> Look:
        """Return a request for a page or its main part, for a random viewer and language."""
        # Few viewers, because only repeated requests test the cache.
        who = story.dice.choice(list(self.cookies)[:3])
        language = story.dice.choice(("en", "en", "en", "de"))
        headers = [("Cookie", self.cookies[who]), ("Accept-Language", language)]
        if story.dice.random() < 0.2:
            headers.append(("HX-Request", "true"))
        return Look(path, tuple(headers))


def paths(story: Story) -> list[str]:
    """Return paths of pages that are cached."""
    one = story.someone()
    name = one.member.name
    found = ["/", "/", "/", "/", "/explore", "/explore", f"/tags/{story.dice.choice(('harbour', 'morning'))}"]
    found += [f"/explore/people?order={story.dice.choice(('followed', 'active', 'new'))}"]
    found += [f"/@{name}", f"/@{name}?show=posts", f"/@{name}?show=replies"]
    if story.posts:
        owner, id_ = story.dice.choice(story.posts)
        page = f"/@{owner.member.name}/{id_}"
        found += [page, page, f"{page}/photos/1", f"/posts/{id_}/comments"]
    return story.dice.sample(found, 6)


def seen(app_context: FrontEnd, asked: Look) -> tuple[int, str]:
    """Return the status and content of a page, without tokens that differ in each response."""
    answer = app_context.ask(asked.path, "", **dict(asked.headers))
    return answer.status_code, _OWN.sub("", answer.text)


def differs(story: Story, browsers: Browsers, ours: FrontEnd, fresh: FrontEnd) -> str:
    """Request some pages three times; return the first that differs from a fresh page, or an empty string."""
    for path in paths(story):
        asked = browsers.look(story, path)
        looked = partial(_differs, asked, ours, fresh)
        if looked() and (wrong := at_rest(story, looked)):
            return wrong
    return ""


def _differs(asked: Look, ours: FrontEnd, fresh: FrontEnd) -> str:
    before = seen(fresh, asked)
    found = [seen(ours, asked) for _ in range(3)]
    # The displayed minute may have changed in between.
    wanted = (before, seen(fresh, asked))
    return next((f"{asked}: {one}\nfresh: {before}" for one in found if one not in wanted), "")


def played(here: NetworkFixture, seed: int, app_parts: AppParts | None = None) -> str:
    """Return the first difference in a story, or an empty string. `app_parts`: of the process under test."""
    story = Story(here, seed)
    browsers = Browsers(here, story.people)
    ours, fresh = FrontEnd(here, 64_000, app_parts), FrontEnd(here, 0)
    with contextlib.closing(ours), contextlib.closing(fresh):
        return told(story, STEPS, ours, lambda: differs(story, browsers, ours, fresh))


@pytest.mark.parametrize("seed", range(examples(3)))
def test_cached_page_equals_fresh_page(seed: int) -> None:
    with network_fixture() as here:
        assert played(here, seed) == ""


def test_cached_page_equals_fresh_page_after_change_in_another_process() -> None:
    with two_processes() as (here, there):
        assert played(here, 1, there) == ""


@pytest.mark.parametrize(
    ("where", "what"),
    [
        (ReadSet, "note_objects"),
        (ReadSet, "note_lists"),
        (home, "depends_on"),
        (reader, "compared"),
        (ChangeLog, "unchanged"),
    ],
)
def test_page_cache_test_without_dependency_tracking_detects_stale_page(
    monkeypatch: pytest.MonkeyPatch, where: object, what: str
) -> None:
    monkeypatch.setattr(where, what, unnoted if what == "compared" else lambda *_: what == "unchanged")

    def wrong(seed: int) -> str:
        with network_fixture() as here:
            return played(here, seed)

    assert any(wrong(seed) for seed in range(4))


def test_page_cache_test_without_version_token_comparison_detects_stale_page_of_second_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def still(*_: object) -> bool:
        return True

    monkeypatch.setattr(VersionTokenGuard, "are_still", still)
    with two_processes() as (here, there):
        assert played(here, 1, there)


class CachedPages(NamedTuple):
    """A network with a post, and a front end with a page cache."""

    here: NetworkFixture
    ours: FrontEnd
    ann: Someone
    path: str
    """The path of the post by Ann."""

    def cookie(self, key: str, who: Someone | None = None) -> str:
        """Return the cookies of a browser with this key; with `who`, a logged-in one."""
        form = f"shoal_form={key * 43}"
        if who is None:
            return form
        begun = self.here.run(sessions.begin(self.here.network.writes, who.member, proved=True))
        return f"{form}; shoal_login={begun.text}"

    def open(self, path: str, cookie: str = "", **headers: str) -> httpx.Response:
        """Ask for a page."""
        return self.ours.ask(path, "", **({"Cookie": cookie} if cookie else {}), **headers)


@pytest.fixture
def cached() -> Iterator[CachedPages]:
    with network_fixture() as here:
        ann = here.join("ann")
        post = here.json("POST", "/api/v1/statuses", ann, json={"status": "Low tide"})
        here.settle()
        with contextlib.closing(FrontEnd(here, 64_000)) as ours:
            yield CachedPages(here, ours, ann, f"/@ann/{post['id']}")


def _token(page: httpx.Response) -> str:
    found = re.search(r'name="form_token" value="([0-9a-f]{128})"', page.text)
    assert found is not None
    return found[1]


def test_cached_page_contains_form_tokens_of_requesting_browser(cached: CachedPages) -> None:
    one, two = cached.cookie("1", cached.ann), cached.cookie("2", cached.ann)
    for _ in range(2):
        cached.open(cached.path, one)
    response_cache = cached.ours.app_context.response_cache
    assert response_cache is not None
    missed = response_cache.missed
    first, second, third = cached.open(cached.path, one), cached.open(cached.path, one), cached.open(cached.path, two)
    assert response_cache.missed == missed
    tokens = [_token(page) for page in (first, second, third)]
    assert len(set(tokens)) == 3
    names = {re.findall(r'name="request" value="([\w-]+)"', page.text)[0] for page in (first, second, third)}
    assert len(names) == 3
    assert not any(
        mark in page.text
        for page in (first, third)
        for mark in (request_context.TOKEN_MARK, request_context.REQUEST_MARK)
    )

    def like(token: str, cookie: str) -> int:
        form = {"form_token": token, "do": "like"}
        asked = cached.ours.send(f"/posts/{cached.path.rsplit('/', 1)[1]}/act", form, cookie)
        return asked.status_code

    assert [like(tokens[1], one), like(tokens[2], two), like(tokens[2], one)] == [303, 303, 403]


def test_page_etag_is_sent_to_anonymous_visitors_and_not_to_members(cached: CachedPages) -> None:
    new = [cached.open("/@ann") for _ in range(3)]
    assert all("shoal_form=" in page.headers["set-cookie"] and "etag" not in page.headers for page in new)
    stranger, other = cached.cookie("1"), cached.cookie("2")
    page = cached.open("/@ann", stranger)
    tag = page.headers["etag"]
    assert (tag[:3], page.headers["cache-control"]) == ('W/"', "private, no-cache")
    had = cached.open("/@ann", stranger, **{"If-None-Match": tag})
    assert (had.status_code, had.content, had.headers["etag"]) == (304, b"", tag)
    assert had.headers["vary"] == page.headers["vary"].replace(", Accept-Encoding", "")
    assert cached.open("/@ann", other, **{"If-None-Match": tag}).status_code == 200
    assert cached.open("/@ann", stranger, **{"If-None-Match": tag, "Accept-Language": "de"}).status_code == 200
    cached.here.json("POST", "/api/v1/statuses", cached.ann, json={"status": "High tide"})
    assert cached.open("/@ann", stranger, **{"If-None-Match": tag}).status_code == 200
    mine = cached.cookie("3", cached.ann)
    shown = [cached.open("/@ann", mine).headers for _ in range(3)]
    assert all((one["cache-control"], "etag" in one) == ("private, no-store", False) for one in shown)


def test_cached_page_updates_relative_post_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = 0
    real = time.time_ns
    monkeypatch.setattr("time.time_ns", lambda: real() + ahead)
    with network_fixture() as here:
        ann = here.join("ann")
        poll = {"options": ["yes", "no"], "expires_in": 3_600}
        here.json("POST", "/api/v1/statuses", ann, json={"status": "A tide?", "poll": poll})
        here.settle()
        ages = []
        ours = FrontEnd(here, 64_000)
        with contextlib.closing(ours):
            for minutes in (0, 2, 59, 61, 3_000):
                ahead = minutes * 60 * 1_000_000_000
                pages = [ours.ask("/@ann?show=posts").text for _ in range(3)]
                short = [re.findall(r"<time[^>]*>([^<]+)</time>", page)[0] for page in pages]
                assert len(set(short)) == 1
                ages.append((short[0].strip(), "ended" in pages[0]))
    assert ages == [("now", False), ("2 min", False), ("59 min", False), ("1 h", True), ("2 d", True)]


@given(st.integers(0, 6 * 86_400_000), st.sampled_from(["en", "de"]))
def test_relative_time_text_changes_exactly_at_predicted_time(age: int, language: str) -> None:
    words, now = words_in(language), 1_790_000_000_000
    change = words.changes_at(now - age, now)
    assert change > now
    short = words.when(now - age, now).short
    assert words.when(now - age, change - 1).short == short
    assert words.when(now - age, change).short != short
