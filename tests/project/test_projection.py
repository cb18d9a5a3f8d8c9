"""The tables of `shoal project` equal the network after random histories, with the program killed at any point."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from shoal import Shoal
from shoal.commands import declared_reactions
from shoal.core.errors import Conflict
from shoal.core.model import Post
from shoal.core.reactions import Reaction
from shoal.library.handle import Handle
from shoal_project.changes import Event
from shoal_project.projection import EventsPage, Projection
from shoal_project.targets import Statement, Target, opened
from tests.api.events.consumer import PRIVATE, PUBLIC, key_of
from tests.api.events.test_copy import Story
from tests.api.in_memory_network import NetworkFixture, network_fixture, picture
from tests.engines import postgres
from tests.project.crashing import RecordedSource
from tests.project.projections import MortalTarget, RoutedSource, contents, facts_in, facts_of, read_all
from tests.tiers import deep

ROUNDS, ACTIONS = 12, 12
DEATHS = 0.15
PAGES = 16


class Databases:
    """The owner of the PostgreSQL databases of a test."""


_NAMES = ("cooked", "going", "maybe")


class HidingStory(Story):
    """Members also hide their connections, write tags and comments, and react with declared reactions."""

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
                verb = who.unreact if who.id % 7 == 0 else who.react
                await verb(post, _NAMES[(who.id ^ post.id) % len(_NAMES)])
            case 4 if dice.random() < 0.2:
                media = await who.upload(picture(), description="low tide")
                self._posts.append(await who.create("a photo", media=[media]))
            case _:
                await super()._relate(who, other, post)


@pytest.fixture
def logged() -> Iterator[NetworkFixture]:
    with network_fixture(event_log="on") as made:
        for name in _NAMES:
            reaction = Reaction(name=name, title=name, group="" if name == "cooked" else "attendance")
            made.run(declared_reactions.declare(made.network.writes, reaction))
        yield made


async def url_on(engine: str, folder: Path, owner: object) -> str:
    if engine == "postgresql":
        schema = f"?search_path=t{Random().getrandbits(60)}"
        url = await postgres.database(owner)
        async with opened(url) as plain:
            await plain.write([Statement(f"CREATE SCHEMA {schema.partition('=')[2]}")])
        return url + schema
    if engine in ("duckdb", "parquet"):
        pytest.importorskip("duckdb")
    paths = {"sqlite": "///{}/copy.db", "duckdb": "{}/copy.duckdb", "parquet": "{}/copy"}
    return f"{engine}:{paths[engine].format(folder)}"


@asynccontextmanager
async def target_on(engine: str, folder: Path, owner: object) -> AsyncIterator[Target]:
    async with opened(await url_on(engine, folder, owner)) as target:
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
                # The program stops somewhere in the log, or in a rebuild during which members act.
                if dice.random() < 0.5:
                    await Projection(target, source, includes).begin(rebuild=True)
                for _ in range(dice.randrange(6)):
                    await Projection(target, source, includes, at_once=1).step()
                    await story.act(2)
            await shoal.network.settle()
            await read_all(mortal, source, includes)
            while not mortal.deaths:
                await story.act(ACTIONS)
                await shoal.network.settle()
                await read_all(mortal, source, includes)
            assert await facts_in(target) == await facts_of(shoal.network.store, includes)
            before = await contents(target)
            await read_all(mortal, source, includes, rebuild=True)
            assert await contents(target) == before
            filled = ("members", "posts", "comments", "tags", "likes", "daily") if seed == 1 else ("members", "posts")
            assert [name for name in filled if not before[name]] == []

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


@pytest.mark.parametrize("engine", ["sqlite", *deep("postgresql")])
def test_projection_of_sharded_network_equals_it_after_random_actions_and_kills(tmp_path: Path, engine: str) -> None:
    if engine == "sqlite":
        stores = [f"sqlite:///{tmp_path}/{name}.db" for name in "ab"]
    else:
        owner = Databases()
        stores = [asyncio.run(postgres.database(owner)) for _ in range(2)]
    settings: dict[str, Any] = {
        "store": {"0-31": stores[0], "32-63": stores[1]},
        "media": "memory://",
        "tags": "memory://",
    }
    with network_fixture(**settings, search="memory://", event_log="on") as shoal:
        check(shoal, "sqlite", tmp_path, 5, PUBLIC, [])


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_projection_by_two_programs_at_once_equals_network(logged: NetworkFixture, tmp_path: Path, engine: str) -> None:
    dice, owner = Random(4), Databases()
    story = HidingStory(Shoal(logged.network), dice)
    source = RoutedSource(logged, key_of(logged, *PUBLIC), dice)
    logged.run(story.act(ACTIONS))

    async def told() -> None:
        url = await url_on(engine, tmp_path, owner)
        conflicts = 0

        async def run(target: Target) -> None:
            nonlocal conflicts
            for _ in range(25):
                await story.act(1)
                try:
                    await Projection(target, source, at_once=1).step()
                except Conflict:
                    conflicts += 1

        async with opened(url) as one, opened(url) as other:
            await Projection(one, source).begin()
            await asyncio.gather(run(one), run(other))
            await logged.network.settle()
            await read_all(one, source)
            assert await facts_in(one) == await facts_of(logged.network.store)
        assert conflicts

    logged.run(told())


class Recorder(RecordedSource):
    """Records the pages of a network in which members act between the pages."""

    def __init__(self, source: RoutedSource, story: HidingStory) -> None:
        super().__init__({})
        self._source, self._story = source, story

    async def end(self) -> str:
        self.pages["end",] = await self._source.end()
        return await super().end()

    async def events(self, after: str, wait: int) -> EventsPage:
        await self._story.act(2)
        page = (await self._source.events(after, wait))._replace(more=True)
        if len(self.pages) < PAGES:
            self.pages["events", after] = page
        return await super().events(after, wait)

    async def state(self, after: str, member_id: int) -> tuple[Sequence[Event], str | None]:
        await self._story.act(2)
        if ("state", after, member_id) not in self.pages:
            self.pages["state", after, member_id] = await self._source.state(after, member_id)
        return await super().state(after, member_id)


@pytest.mark.parametrize("engine", ["sqlite", "postgresql", *deep("duckdb", "parquet")])
def test_projection_killed_on_both_sides_of_each_commit_equals_uninterrupted_one(
    logged: NetworkFixture, tmp_path: Path, engine: str
) -> None:
    dice, owner = Random(3), Databases()
    story = HidingStory(Shoal(logged.network), dice)
    recorder = Recorder(RoutedSource(logged, key_of(logged, *PUBLIC), dice), story)
    logged.run(story.act(6 * ACTIONS))

    async def told() -> None:
        async with opened(f"sqlite:///{tmp_path}/whole.db") as whole:
            projection = Projection(whole, recorder, at_once=1)
            await projection.begin()
            while len(recorder.pages) < PAGES or await projection.step():
                await projection.step()
            expected = await facts_in(whole)
        (tmp_path / "pages").write_bytes(pickle.dumps(recorder.pages))
        url = await url_on(engine, tmp_path, owner)
        command = [sys.executable, "-m", "tests.project.crashing", str(tmp_path / "pages"), url]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) > PAGES // 2
        async with opened(url) as target:
            assert await facts_in(target) == expected
        assert all(expected[name] for name in ("members", "posts", "comments", "tags", "daily"))

    logged.run(told())
