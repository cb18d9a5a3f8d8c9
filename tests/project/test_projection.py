"""The tables of `shoal project` equal the network after random histories, with the program killed at any point."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from shoal import Shoal
from shoal.core.model import Post
from shoal.library.handle import Handle
from shoal_project.projection import Projection
from shoal_project.targets import Statement, Target, opened
from tests.api.events.consumer import PRIVATE, PUBLIC, key_of
from tests.api.events.test_copy import Story
from tests.api.in_memory_network import NetworkFixture, network_fixture, picture
from tests.engines import postgres
from tests.project.projections import MortalTarget, RoutedSource, contents, facts_in, facts_of, read_all
from tests.tiers import deep

ROUNDS, ACTIONS = 12, 12
DEATHS = 0.15


class Databases:
    """The owner of the PostgreSQL databases of a test."""


class HidingStory(Story):
    """Members also hide their connections, and write tags and comments."""

    async def _relate(self, who: Handle, other: Handle, post: Post) -> None:
        dice = self._dice
        match dice.randrange(8):
            case 0:
                await who.update_profile(hides_connections=dice.random() < 0.5)
            case 1:
                self._posts.append(await who.create(f"low #tide at #{dice.choice(['dawn', 'dusk'])}"))
            case 2:
                await who.follow(other, shares=dice.random() < 0.5)
            case 3:
                await who.like(post)
            case 4 if dice.random() < 0.2:
                media = await who.upload(picture(), description="low tide")
                self._posts.append(await who.create("a photo", media=[media]))
            case _:
                await super()._relate(who, other, post)


@pytest.fixture
def logged() -> Iterator[NetworkFixture]:
    with network_fixture(event_log="on") as made:
        yield made


@asynccontextmanager
async def target_on(engine: str, folder: Path, owner: object) -> AsyncIterator[Target]:
    if engine == "postgresql":
        schema = f"?search_path=t{Random().getrandbits(60)}"
        url = await postgres.database(owner)
        async with opened(url) as plain:
            await plain.write([Statement(f"CREATE SCHEMA {schema.partition('=')[2]}")])
        url += schema
    else:
        paths = {"sqlite": "///{}/copy.db", "duckdb": "{}/copy.duckdb", "parquet": "{}/copy"}
        url = f"{engine}:{paths[engine].format(folder)}"
    if engine in ("duckdb", "parquet"):
        pytest.importorskip("duckdb")
    async with opened(url) as target:
        yield target


def check(
    shoal: NetworkFixture, engine: str, folder: Path, seed: int, key: tuple[str, ...], includes: list[str]
) -> None:
    """Tell a story, and compare the tables with the graph and with those of a new projection."""
    dice, owner = Random(seed), Databases()
    story = HidingStory(Shoal(shoal.network), dice)
    source = RoutedSource(shoal, key_of(shoal, *key), dice, private=bool(includes))
    shoal.run(story.act(ACTIONS))

    async def told() -> None:
        async with target_on(engine, folder, owner) as target:
            mortal = MortalTarget(target, dice, DEATHS)
            for number in range(ROUNDS):
                await read_all(mortal, source, includes, rebuild=number == ROUNDS // 2)
                await story.act(ACTIONS)
                if dice.random() < 0.5:
                    # The program stops somewhere in the log.
                    await Projection(target, source, includes).step()
            await shoal.network.settle()
            await read_all(mortal, source, includes)
            assert mortal.deaths > 0
            assert await facts_in(target) == await facts_of(shoal.network.store, includes)
            before = await contents(target)
            await read_all(mortal, source, includes, rebuild=True)
            assert await contents(target) == before
            assert all(before[name] for name in ("members", "posts", "comments", "tags", "likes", "daily"))

    shoal.run(told())


@pytest.mark.parametrize("seed", [1, 2, *deep(*range(3, 30))])
@pytest.mark.parametrize("engine", ["sqlite", "postgresql", *deep("duckdb")])
def test_projection_equals_network_after_random_actions_and_kills(
    logged: NetworkFixture, tmp_path: Path, engine: str, seed: int
) -> None:
    if seed % 2:
        check(logged, engine, tmp_path, seed, PUBLIC, [])
    else:
        check(logged, engine, tmp_path, seed, PRIVATE, ["followers", "direct", "connections"][seed % 3 :])
