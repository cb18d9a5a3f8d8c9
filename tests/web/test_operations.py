"""The pages of operators: fan-out counts, data sources and engines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shoal.admin.report import Progress
from shoal.admin.resharding import spread_of
from shoal.commands import moderation, posts, relationships
from shoal.commands.posts import Draft
from shoal.core.model import Member, Role, Visibility
from shoal.graph.bulk import Spread
from shoal.graph.contract import Store
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.web.browser import Visitor, member, visitor

PUSHED, POPULAR = "Fan-out writes", "High fan-out members and tags"


def tile(operator: Visitor, name: str) -> list[str]:
    """Return the values of a tile."""
    found = operator.open("/ops").html.find("dt", string=name)
    assert found is not None
    assert found.parent is not None
    return [one.text for one in found.parent.find_all("dd")]


def post(here: NetworkFixture, author: Member, text: str, visibility: Visibility = Visibility.PUBLIC) -> None:
    here.run(posts.create(here.writes, author.id, Draft(text=text, visibility=visibility)))
    here.settle()


def test_operations_page_counts_timeline_pushes_and_reads_of_high_fan_out_sources() -> None:
    with network_fixture(high_fan_out_from=2) as here:
        star, dan, ann, *others = (member(here, name) for name in ("star", "dan", "ann", "bob", "cat"))
        for fan in (ann, *others):
            here.run(relationships.follow(here.writes, fan.id, star.id))
        here.run(relationships.follow(here.writes, ann.id, dan.id))
        here.run(moderation.set_role(here.writes, ann.id, Role.ADMIN))
        operator = visitor(here, "ann")
        for browser in (operator, visitor(here, "bob"), visitor(here, "cat")):
            browser.open("/")
        post(here, star, "now it is known how many follow")
        before = int(tile(operator, PUSHED)[0])
        post(here, star, "to everybody")
        assert int(tile(operator, PUSHED)[0]) == before
        post(here, dan, "to one")
        assert int(tile(operator, PUSHED)[0]) == before + 1
        post(here, dan, "@ann for you alone", Visibility.DIRECT)
        assert int(tile(operator, PUSHED)[0]) == before + 2
        assert tile(operator, POPULAR) == ["1", "reads of their posts for Home: 0"]
        assert "to everybody" in operator.open("/").text
        assert tile(operator, POPULAR) == ["1", "reads of their posts for Home: 1"]


def test_operations_page_of_shards_scans_network_once_for_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    with network_fixture() as here:
        ann = member(here, "ann")
        here.run(moderation.set_role(here.writes, ann.id, Role.ADMIN))
        operator, scans = visitor(here, "ann"), []

        async def counted(store: Store, tell: Progress) -> list[Spread]:
            scans.append(store)
            return await spread_of(store, tell)

        monkeypatch.setattr("shoal.web.operations.spread_of", counted)
        pages = [operator.open("/ops/shards") for _ in range(3)]
        assert [page.status for page in pages] == [200, 200, 200]
        assert pages[0].html.time is not None
        assert len(scans) == 1


def test_operations_page_shows_engine_sizes_and_unreachable_engine(tmp_path: Path) -> None:
    with network_fixture(store=f"sqlite:///{tmp_path / 'own.db'}") as here:
        ann = member(here, "ann")
        here.run(moderation.set_role(here.writes, ann.id, Role.ADMIN))
        operator = visitor(here, "ann")
        cards = operator.open("/ops").html.select(".engine-cards li")
        assert [card.h3.get_text(" ", strip=True).split()[0] for card in cards if card.h3] == ["SQLite"] * 3
        assert all(re.search(r"own\.db.*Stored\s*[\d.]+ [KM]iB", card.text, re.DOTALL) for card in cards)
        assert not operator.open("/ops").html.select(".engine-cards .away")
        (tmp_path / "own.db.search").rename(tmp_path / "elsewhere")
        # Engine states are cached for five seconds; a new front end has an empty cache.
        here.show(here.app_parts.reads.tags)
        (away,) = visitor(here, "ann").open("/ops").html.select(".engine-cards .away")
        assert "own.db.search" in away.text
        assert "Not responding." in away.text
