"""In a network of several processes, cached responses equal the uncached responses of other processes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, cast

import httpx
import pytest

from shoal.app.network import open_network
from shoal.graph.cache.coherence import VersionTokenGuard
from shoal.graph.cache.dependencies import ReadSet
from shoal.queries import home
from shoal.server import AppParts
from shoal.tagcloud import reader
from shoal.tagcloud.contract import CloudStore
from shoal.tagcloud.reader import TagCloud
from tests.api.http.response_cache_scenario import HOME, FrontEnd, Story, differs, never_old, told
from tests.api.http.test_response_cache import unnoted
from tests.api.in_memory_network import BASE, NetworkFixture, network_fixture
from tests.example_counts import DEEP, examples
from tests.flows.shared_network import SharedDatabases
from tests.flows.test_multiprocess import counted

STEPS = 60 if DEEP else 30


@contextlib.contextmanager
def two_processes() -> Iterator[tuple[NetworkFixture, AppParts]]:
    """Yield a network on two PostgreSQL stores and Redis, and the app parts of another process."""
    place = SharedDatabases()
    settings = asyncio.run(place.settings())
    with network_fixture(store=settings.store, timelines=settings.timelines, media=settings.media) as here:
        stack = AsyncExitStack()
        other = here.run(stack.enter_async_context(open_network(here.network.settings)))
        reads = never_old(other, other.reads)
        parts = (other.settings, other.store, other.writes, reads, other.media, other.hub)
        try:
            yield here, AppParts(*parts, base_url=BASE)
        finally:
            here.run(stack.aclose())


def played(seed: int, steps: int) -> str:
    """Perform random actions; return the first difference of a cached page from a fresh one, or an empty text."""
    with two_processes() as (here, there):
        story = Story(here, seed)
        ours, fresh = FrontEnd(here, 64_000, there), FrontEnd(here, 0)
        with contextlib.closing(ours), contextlib.closing(fresh):
            return told(story, steps, ours, lambda: differs(story, ours, fresh))


@pytest.mark.parametrize("seed", range(examples(1, full=2)))
def test_response_cache_of_one_process_returns_same_pages_as_uncached_other_process(seed: int) -> None:
    assert played(seed, STEPS) == ""


@pytest.mark.parametrize(
    ("where", "what"),
    [
        (VersionTokenGuard, "are_still"),
        (ReadSet, "note_versions"),
        (home, "depends_on"),
        pytest.param(reader, "compared", marks=pytest.mark.deep),
    ],
)
def test_response_cache_test_detects_missing_version_token_checks(
    monkeypatch: pytest.MonkeyPatch, where: object, what: str
) -> None:
    async def still(*_: object) -> bool:
        return True

    instead: dict[str, object] = {"are_still": still, "compared": unnoted}
    monkeypatch.setattr(where, what, instead.get(what, lambda *_: None))
    assert any(played(seed, STEPS) for seed in range(3))


async def counting(front: FrontEnd, path: str, token: str = "", **headers: str) -> tuple[httpx.Response, list[str]]:
    """Send a request. Return the response and its engine calls, which exclude calls of background tasks."""
    with counted() as asked:
        return await front.request(path, token, **headers), asked


def test_response_cache_revalidates_unchanged_home_with_three_redis_reads() -> None:
    with two_processes() as (here, there):
        ann, *others = [here.join(name) for name in ("ann", "ben", "cleo")]
        for other in others:
            here.json("POST", f"/api/v1/accounts/{other.id}/follow", ann)
            here.json("POST", "/api/v1/statuses", other, json={"status": "Low tide"})
        here.settle()
        ours = FrontEnd(here, 64_000, there)
        with contextlib.closing(ours):
            ours.ask(HOME, ann.token)
            ours.ask(HOME, ann.token)
            page = ours.ask(HOME, ann.token)
            again, asked = here.run(counting(ours, HOME, ann.token))
            # One read for the token, its member and the token list; then version tokens and timeline in parallel.
            assert asked == ["redis"] * 3
            assert again.content == page.content
            assert [one["favourites_count"] for one in again.json()] == [0, 0]
            same, asked = here.run(counting(ours, HOME, ann.token, **{"If-None-Match": page.headers["etag"]}))
            assert asked == ["redis"] * 3
            assert same.status_code == 304
            here.json("POST", f"/api/v1/statuses/{again.json()[0]['id']}/favourite", others[0])
            assert [one["favourites_count"] for one in ours.ask(HOME, ann.token).json()] == [1, 0]


class AskedCloud:
    """A tag cloud store that records the names of called methods."""

    def __init__(self, store: CloudStore) -> None:
        self._store = store
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return getattr(self._store, name)


def test_response_cache_revalidates_unchanged_tag_pages_with_at_most_one_read_of_tag_cloud() -> None:
    with two_processes() as (here, there):
        ann = here.join("ann")
        for _ in range(2):
            here.json("POST", "/api/v1/statuses", ann, json={"status": "Low tide #harbour #boats"})
        here.settle()
        store = AskedCloud(here.network.tag_store)
        tags = TagCloud(cast("CloudStore", store), seconds=600)
        ours = FrontEnd(here, 64_000, replace(there, reads=replace(there.reads, tags=tags)))
        with contextlib.closing(ours):
            for path, questions in (("/api/v1/trends/tags", []), ("/api/v1/tags/harbour", ["tags"])):
                for _ in range(3):
                    assert ours.ask(path).json()
                store.asked.clear()
                _, asked = here.run(counting(ours, path))
                assert (asked, store.asked) == ([], questions), path
