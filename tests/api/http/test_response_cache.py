"""Cached responses equal uncached ones after any change, and clients with a current copy get 304."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shoal.commands import sessions
from shoal.core.tokens import opened
from shoal.graph.cache import dependencies
from shoal.graph.cache.change_log import ChangeLog
from shoal.graph.cache.dependencies import ReadSet
from shoal.queries import home, trends
from shoal.tagcloud import reader
from tests.api.http.response_cache_scenario import HOME, FrontEnd, Story, differs, told
from tests.api.in_memory_network import network_fixture
from tests.example_counts import DEEP, examples

STEPS = 120 if DEEP else 60


async def unnoted(ask: Callable[[], Awaitable[Any]]) -> Any:
    """Call without recording dependencies."""
    token = dependencies._READ.set(None)
    try:
        return await ask()
    finally:
        dependencies._READ.reset(token)


def played(seed: int, steps: int) -> str:
    """Perform random actions; return the first difference of a cached page from a fresh one, or an empty text."""
    with network_fixture() as here:
        story = Story(here, seed)
        ours, fresh = FrontEnd(here, 64_000), FrontEnd(here, 0)
        with contextlib.closing(ours), contextlib.closing(fresh):
            return told(story, steps, ours, lambda: differs(story, ours, fresh))


@pytest.mark.parametrize("seed", range(examples(1, full=3)))
def test_response_cache_returns_same_pages_as_uncached_server(seed: int) -> None:
    assert played(seed, STEPS) == ""


@pytest.mark.parametrize(
    ("where", "what"),
    [
        (ReadSet, "note_objects"),
        (ReadSet, "note_lists"),
        (home, "depends_on"),
        (trends, "compared"),
        (reader, "compared"),
        (ChangeLog, "note"),
        (ChangeLog, "unchanged"),
    ],
)
def test_response_cache_test_detects_missing_dependency_tracking(
    monkeypatch: pytest.MonkeyPatch, where: object, what: str
) -> None:
    monkeypatch.setattr(where, what, unnoted if what == "compared" else lambda *_: what == "unchanged")
    assert any(played(seed, STEPS) for seed in range(3))


def test_response_cache_sends_etag_and_304_until_page_changes() -> None:
    with network_fixture() as here:
        ann, ben = here.join("ann"), here.join("ben")
        here.json("POST", f"/api/v1/accounts/{ben.id}/follow", ann)
        ours = FrontEnd(here, 64_000)
        with contextlib.closing(ours):
            assert "etag" not in ours.ask(HOME, ann.token).headers
            tag = ours.ask(HOME, ann.token).headers["etag"]
            had = ours.ask(HOME, ann.token, **{"If-None-Match": tag})
            assert (had.status_code, had.content, had.headers["etag"]) == (304, b"", tag)
            assert had.headers["cache-control"] == "private, no-cache"
            assert "content-length" not in had.headers
            assert "content-type" not in had.headers
            assert ours.ask(HOME, ben.token, **{"If-None-Match": tag}).status_code == 200
            here.json("POST", "/api/v1/statuses", ben, json={"status": "Low tide"})
            here.settle()
            first, again = (ours.ask(HOME, ann.token, **{"If-None-Match": tag}) for _ in range(2))
            assert first.status_code == again.status_code == 200
            assert [one["content"] for one in first.json()] == ["<p>Low tide</p>"]
            assert first.headers["etag"] == again.headers["etag"] != tag


def test_response_cache_is_not_shared_between_tokens_and_respects_revocation() -> None:
    with network_fixture() as here:
        ann, ben = here.join("ann"), here.join("ben")
        private = here.json("POST", "/api/v1/statuses", ann, json={"status": "secret", "visibility": "direct"})
        path = f"/api/v1/statuses/{private['id']}"
        ours = FrontEnd(here, 64_000)
        with contextlib.closing(ours):
            assert [ours.ask(path, ann.token).status_code for _ in range(3)] == [200] * 3
            assert [ours.ask(path, token).status_code for token in (ben.token, "")] == [404, 404]
            here.run(sessions.end(here.writes, ann.member.id, opened(ann.token).id))
            assert ours.ask(path, ann.token).status_code == 401


def test_response_cache_reflects_expiry_of_mute_filter_and_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = 0
    real = time.time_ns
    monkeypatch.setattr("time.time_ns", lambda: real() + ahead)
    with network_fixture() as here:
        ann, ben, cleo = here.join("ann"), here.join("ben"), here.join("cleo")
        for other in (ben, cleo):
            here.json("POST", f"/api/v1/accounts/{other.id}/follow", ann)
        poll = {"options": ["yes", "no"], "expires_in": 3_600}
        here.json("POST", "/api/v1/statuses", ben, json={"status": "A tide?", "poll": poll})
        here.json("POST", "/api/v1/statuses", cleo, json={"status": "A boat"})
        here.settle()
        ours, fresh = FrontEnd(here, 64_000), FrontEnd(here, 0)
        path = f"/api/v1/accounts/{ben.id}/statuses"
        terms = {"keyword": "boat", "title": "boats", "context": ["home"], "filter_action": "hide", "expires_in": 1_800}
        with contextlib.closing(ours), contextlib.closing(fresh):
            here.json("POST", "/api/v2/filters", ann, json={**terms, "keywords_attributes": [{"keyword": "boat"}]})
            here.json("POST", f"/api/v1/accounts/{ben.id}/mute", ann, json={"duration": 900})
            here.settle()
            shown = []
            for minutes in (0, 16, 31, 61):
                ahead = minutes * 60 * 1_000_000_000
                pages = [(HOME, ann.token), (path, ""), (path, ""), (HOME, ann.token), (HOME, ann.token)]
                found = [ours.ask(*page).json() for page in pages]
                assert found == [fresh.ask(*page).json() for page in pages]
                shown.append((sum(not one["filtered"] for one in found[-1]), found[1][0]["poll"]["expired"]))
            assert shown == [(0, False), (1, False), (2, False), (2, True)]
