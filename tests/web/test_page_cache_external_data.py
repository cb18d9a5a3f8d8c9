"""Cached pages with data outside the graph: tags, trends and the directory. They change as soon as that data changes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import NamedTuple

import pytest

from shoal.core.errors import Unavailable
from shoal.queries import members, suggestions, tags, trends
from shoal.tagcloud import reader
from shoal.tagcloud.contract import DAY_MS
from shoal.tagcloud.rules import denying
from shoal.web import explore
from tests.api.http.response_cache_scenario import FrontEnd, never_old
from tests.api.http.test_response_cache import unnoted
from tests.api.in_memory_network import NetworkFixture, Someone, network_fixture, picture
from tests.web.test_page_cache import Look, seen

_COOKIE = (("Cookie", f"shoal_form={'s' * 43}"),)


def post(here: NetworkFixture, who: Someone, status: str, *, photo: bool = False) -> str:
    """Create a post, and return its id."""
    form: dict[str, object] = {"status": status}
    if photo:
        files = {"file": ("a.png", picture(), "image/png")}
        form["media_ids"] = [here.json("POST", "/api/v2/media", who, files=files)["id"]]
    return str(here.json("POST", "/api/v1/statuses", who, json=form)["id"])


def _denied(here: NetworkFixture, _post: str) -> None:
    here.run(here.network.tags.rule(denying("harbour")))


def _used(here: NetworkFixture, _post: str) -> None:
    post(here, here.join("dan"), "Fog #harbour #fog")


def _liked(here: NetworkFixture, post_id: str) -> None:
    for name in ("dan", "eva"):
        here.json("POST", f"/api/v1/statuses/{post_id}/favourite", here.join(name))


def _joined(here: NetworkFixture, _post: str) -> None:
    post(here, here.join("dan"), "Hello")


class Move(NamedTuple):
    """A page, an action that changes only data outside the graph, and the modules that compare that data."""

    path: str
    act: Callable[[NetworkFixture, str], None]
    where: tuple[ModuleType, ...]


MOVES = (
    Move("/", _denied, (reader,)),
    Move("/explore/tags", _denied, (reader,)),
    Move("/explore/people", _joined, (suggestions,)),
    Move("/explore/people?order=new", _joined, (members,)),
    Move("/explore/people?order=active", _joined, (members,)),
    Move("/tags/harbour", _denied, (reader, tags)),
    Move("/api/v1/trends", _denied, (trends,)),
    Move("/api/v1/trends/tags", _used, (trends,)),
    Move("/api/v1/trends/statuses", _liked, (trends,)),
    Move("/api/v1/tags/harbour", _used, (reader,)),
    Move("/api/shoal/v1/tags/cloud", _used, (reader,)),
    Move("/api/shoal/v1/tags/harbour/related", _used, (tags,)),
)


def looked(move: Move) -> tuple[str, str, str]:
    """Return the anonymous page before a change, and after it from the cache and freshly rendered."""
    with network_fixture() as here:
        ann = here.join("ann")
        ids = [post(here, ann, "Low tide #harbour #boats", photo=n == 0) for n in range(3)]
        here.settle()
        app_parts = replace(here.app_parts, reads=never_old(here.network, here.app_parts.reads))
        ours, fresh = FrontEnd(here, 64_000, app_parts), FrontEnd(here, 0, app_parts)
        asked = Look(move.path, _COOKIE)
        with contextlib.closing(ours), contextlib.closing(fresh):
            before = [seen(ours, asked)[1] for _ in range(4)]
            assert ours.app_context.response_cache is not None
            assert ours.app_context.response_cache.missed == 2, "the page is not cached"
            assert len(set(before)) == 1
            move.act(here, ids[0])
            here.settle()
            return before[0], seen(ours, asked)[1], seen(fresh, asked)[1]


@pytest.mark.parametrize("move", MOVES, ids=[move.path for move in MOVES])
def test_page_cache_entry_is_invalidated_by_changes_outside_graph(move: Move) -> None:
    before, cached, fresh = looked(move)
    assert cached == fresh != before


@pytest.mark.parametrize("move", MOVES, ids=[move.path for move in MOVES])
def test_page_cache_that_does_not_compare_external_data_serves_stale_page(
    move: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in move.where:
        monkeypatch.setattr(module, "compared", unnoted)
    before, cached, fresh = looked(move)
    assert cached == before != fresh


@pytest.mark.parametrize("path", ["/tags/harbour", "/explore", "/api/v1/tags/harbour", "/api/v1/trends/statuses"])
def test_page_cache_shows_time_dependent_tag_data_like_fresh_page(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trends and related tags are cached for a minute, and the days of a tag depend on the clock."""
    real, ahead = time.time_ns, 0
    monkeypatch.setattr("time.time_ns", lambda: real() + ahead * 1_000_000)
    with network_fixture() as here:
        ann = here.join("ann")
        ids = [post(here, ann, "Low tide #harbour #boats", photo=True) for _ in range(2)]
        here.settle()
        ours, fresh = FrontEnd(here, 64_000, here.app_parts), FrontEnd(here, 0, here.app_parts)
        asked = Look(path, _COOKIE)
        found = []
        with contextlib.closing(ours), contextlib.closing(fresh):
            for ahead in (0, 30_000, 61_000, DAY_MS, 8 * DAY_MS):
                shown = [seen(ours, asked) for _ in range(3)]
                assert shown == [seen(fresh, asked)] * 3
                found.append(shown[0])
                if ahead == 0:
                    _liked(here, ids[0])
                    post(here, ann, "Fog #harbour #fog")
                    here.settle()
        assert len(set(found)) >= 2


def test_page_cache_of_unused_tag_updates_usage_history_on_new_day(monkeypatch: pytest.MonkeyPatch) -> None:
    real, ahead = time.time_ns, 0
    monkeypatch.setattr("time.time_ns", lambda: real() + ahead * 1_000_000)
    with network_fixture() as here, contextlib.closing(FrontEnd(here, 64_000)) as ours:

        def today() -> int:
            return int(ours.ask("/api/v1/tags/nobody").json()["history"][0]["day"])

        first = [today() for _ in range(3)]
        ahead = DAY_MS
        assert [today() - day for day in first] == [86_400] * 3


@pytest.mark.parametrize("path", ["/tags/harbour", "/explore/tags", "/", "/api/v1/tags/harbour"])
def test_page_cache_does_not_store_pages_rendered_while_tag_cloud_is_unavailable(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with network_fixture() as here:
        post(here, here.join("ann"), "Low tide #harbour #boats")
        here.settle()
        app_parts = replace(here.app_parts, reads=never_old(here.network, here.app_parts.reads))
        ours = FrontEnd(here, 64_000, app_parts)
        asked = Look(path, _COOKIE)

        async def away() -> None:
            raise Unavailable("the tag cloud is away")

        with contextlib.closing(ours):
            with monkeypatch.context() as patch:
                patch.setattr(app_parts.reads.tags, "_latest", away)
                without = [seen(ours, asked) for _ in range(3)]
            assert [status for status, _ in without] == [200] * 3
            assert seen(ours, asked) != without[0]


@pytest.mark.parametrize("path", ["/explore/people"])
def test_page_cache_does_not_store_pages_rendered_while_member_relations_are_unavailable(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with network_fixture() as here:
        post(here, here.join("ann"), "Low tide")
        here.settle()

        async def away(*_: object) -> None:
            raise Unavailable("the store is away")

        with contextlib.closing(FrontEnd(here, 64_000)) as ours:
            asked = Look(path, _COOKIE)
            with monkeypatch.context() as patch:
                patch.setattr(explore, "relations", away)
                without = [seen(ours, asked) for _ in range(3)]
            assert [status for status, _ in without] == [200] * 3
            assert seen(ours, asked) != without[0]
