"""What a target refuses, what leaves no trace, and Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from shoal import Shoal
from shoal.app.network import Network
from shoal.core.errors import Conflict, Gone, InvalidInput, Unavailable
from shoal.core.model import Visibility
from shoal.graph.contract import MAX_TIME
from shoal.graph.event_log import EventLog
from shoal_project.changes import MOST_FIELDS
from shoal_project.projection import EventsPage, Projection
from shoal_project.targets import Statement, Target, opened
from tests.api.events.consumer import PRIVATE, PUBLIC, key_of
from tests.api.in_memory_network import NetworkFixture, network_fixture, picture
from tests.project.projections import RoutedSource, contents, facts_in, facts_of, read_all
from tests.project.test_projection import Databases, target_on
from tests.tiers import deep


class Logged(NamedTuple):
    """A network with an event log, read with a key for public data and with one for private data."""

    shoal: NetworkFixture
    secret: str
    public: RoutedSource
    private: RoutedSource

    @property
    def network(self) -> Network:
        return self.shoal.network


@pytest.fixture
def logged() -> Iterator[Logged]:
    dice = Random(1)
    with network_fixture(event_log="on") as shoal:
        public, private = key_of(shoal, *PUBLIC), key_of(shoal, *PRIVATE)
        sources = (RoutedSource(shoal, public, dice), RoutedSource(shoal, private, dice, private=True))
        yield Logged(shoal, public, *sources)


async def lively(shoal: Shoal) -> None:
    """Create a row in each table, and private data."""
    ann, bob, cyd = [await shoal.register(name) for name in ("ann", "bob", "cyd")]
    post = await ann.create(
        "Low #tide", media=[await ann.upload(picture(), description="A heron")], data={"kind": "offer", "price": 12.5}
    )
    await bob.follow(ann)
    await bob.like(post)
    await bob.share(post)
    await bob.like(await cyd.comment(post, "Nice"))
    secret = await ann.create("a secret #party", visibility=Visibility.FOLLOWERS)
    await bob.like(secret)
    await bob.react(post, "👍")
    await bob.react(post, "❤️")
    await bob.react(secret, "🎉")
    await ann.create("@bob a letter", visibility=Visibility.DIRECT)
    await cyd.follow(bob)
    await cyd.update_profile(hides_connections=True)


SECRETS = (b"secret", b"party", b"letter")


def test_projection_without_include_has_no_private_data_in_any_table(logged: Logged, tmp_path: Path) -> None:
    """Also with a key that could read them, and also in the internal tables and free pages of the file."""
    file = tmp_path / "copy.db"

    async def told() -> None:
        await lively(Shoal(logged.network))
        async with opened(f"sqlite:///{file}") as target:
            for source in (logged.private, logged.public):
                await read_all(target, source, rebuild=True)
                assert await facts_in(target) == await facts_of(logged.network.store)
            tables = await contents(target)
            assert all(tables.values()), tables
            assert await target.read("SELECT count(*) FROM follows") == [(1,)]

    logged.shoal.run(told())
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"Low #tide" in stored
    assert [text for text in SECRETS if text in stored] == []


@pytest.mark.parametrize(
    ("includes", "posts", "follows"), [(["followers"], 3, 1), (["direct"], 3, 1), (["followers", "connections"], 3, 2)]
)
def test_projection_with_include_adds_exactly_that(
    logged: Logged, tmp_path: Path, includes: list[str], posts: int, follows: int
) -> None:
    async def told() -> None:
        await lively(Shoal(logged.network))
        async with opened(f"sqlite:///{tmp_path}/copy.db") as target:
            await read_all(target, logged.private, includes)
            assert await facts_in(target) == await facts_of(logged.network.store, includes)
            counts = await target.read("SELECT (SELECT count(*) FROM posts), (SELECT count(*) FROM follows)")
            assert counts == [(posts, follows)]

    logged.shoal.run(told())


def test_projection_of_deleted_post_and_member_keeps_none_of_their_data(logged: Logged, tmp_path: Path) -> None:
    async def told() -> None:
        shoal = Shoal(logged.network)
        ann, bob = await shoal.register("ann"), await shoal.register("bob")
        post = await ann.create("regretted #once")
        await bob.like(post)
        await bob.follow(ann)
        async with opened(f"sqlite:///{tmp_path}/copy.db") as target:
            await read_all(target, logged.public)
            assert (await target.read("SELECT likes, follows, posts FROM daily")) == [(1, 1, 1)]
            await ann.delete(post)
            await shoal.delete_member(bob)
            await logged.network.settle()
            await read_all(target, logged.public)
            tables = await contents(target)
            assert {name: len(rows) for name, rows in tables.items() if rows} == {"members": 1, "daily": 1}
            assert await target.read("SELECT kind FROM shoal_edges WHERE NOT deleted AND kind = 'like'") == []

    logged.shoal.run(told())
    assert [path.name for path in tmp_path.iterdir() if b"regretted" in path.read_bytes()] == []


@pytest.mark.parametrize("engine", ["sqlite", "postgresql", *deep("duckdb")])
def test_projection_has_values_in_data_of_posts_by_path(logged: Logged, tmp_path: Path, engine: str) -> None:
    owner = Databases()
    data = {
        "title": "Soup",
        "steps": [{"minutes": 5}, {"minutes": 2.5, "hot": True}],
        "none": None,
        "a\0": 1,
        "k" * 201: 1,
    }
    nested = {"huge": 10**400, "large": 10**30, "many": list(range(300)), "nul": "a\0b"}

    async def told() -> None:
        ann = await Shoal(logged.network).register("ann")
        post = await ann.create("one", data=data)
        other = await ann.create("two", data={"in": nested})
        await ann.create("three", data=True)
        query = "SELECT path, position, text, number, flag FROM post_fields WHERE post_id = $1 ORDER BY path, position"
        async with target_on(engine, tmp_path, owner) as target:
            await read_all(target, logged.public)
            assert await target.read(query, post.id) == [
                ("steps.hot", 0, None, None, True),
                ("steps.minutes", 0, None, 5.0, None),
                ("steps.minutes", 1, None, 2.5, None),
                ("title", 0, "Soup", None, None),
            ]
            rows = await target.read(query, other.id)
            assert rows[:2] == [("in.large", 0, None, 1e30, None), ("in.many", 0, None, 0.0, None)]
            assert len(rows) == MOST_FIELDS
            assert await target.read("SELECT path, flag FROM post_fields WHERE path = ''") == [("", True)]
            await ann.update(post, data={"title": "Stew"})
            await ann.delete(other)
            await read_all(target, logged.public)
            assert await target.read(query, post.id) == [("title", 0, "Stew", None, None)]
            assert await target.read(query, other.id) == []

    logged.shoal.run(told())


def test_projection_of_member_who_returns_has_their_posts_again(logged: Logged, tmp_path: Path) -> None:
    async def told() -> None:
        shoal = Shoal(logged.network)
        ann, bob = await shoal.register("ann"), await shoal.register("bob")
        await bob.like(await ann.create("before"))
        async with opened(f"sqlite:///{tmp_path}/copy.db") as target:
            source = logged.public
            await read_all(target, source)
            before = await contents(target)
            await shoal.suspend(ann)
            await logged.network.settle()
            await read_all(target, source)
            assert await target.read("SELECT text FROM posts") == []
            assert await target.read("SELECT * FROM likes") == []
            await shoal.restore(ann)
            await logged.network.settle()
            await read_all(target, source)
            after = await contents(target)
            assert {name: rows for name, rows in after.items() if name not in ("members", "posts")} == {
                name: rows for name, rows in before.items() if name not in ("members", "posts")
            }
            assert await target.read("SELECT text FROM posts") == [("before",)]

    logged.shoal.run(told())


def test_projection_of_member_who_shows_connections_again_has_follows_of_the_hidden_time(
    logged: Logged, tmp_path: Path
) -> None:
    async def told() -> None:
        shoal = Shoal(logged.network)
        ann, bob, cyd = [await shoal.register(name) for name in ("ann", "bob", "cyd")]
        await ann.follow(bob)
        async with opened(f"sqlite:///{tmp_path}/copy.db") as target:
            source = logged.public
            await read_all(target, source)
            await ann.update_profile(hides_connections=True)
            await cyd.follow(ann)
            await ann.unfollow(bob)
            await read_all(target, source)
            assert await target.read("SELECT * FROM follows") == []
            assert await target.read("SELECT * FROM shoal_edges WHERE kind = 'follow' AND NOT deleted") == []
            await ann.update_profile(hides_connections=False)
            await read_all(target, source)
            assert await target.read("SELECT follower_id, followee_id FROM follows") == [(cyd.id, ann.id)]

    logged.shoal.run(told())


def test_projection_of_second_program_on_one_target_is_refused_without_effect(logged: Logged, tmp_path: Path) -> None:
    class Overtaken(RoutedSource):
        def __init__(self, target: Target) -> None:
            super().__init__(logged.shoal, logged.secret, Random(1))
            self._target = target

        async def events(self, after: str, wait: int) -> EventsPage:
            page = await super().events(after, wait)
            await Projection(self._target, logged.public).step()
            return page

    async def told() -> None:
        ann = await Shoal(logged.network).register("ann")
        async with opened(f"sqlite:///{tmp_path}/copy.db") as target:
            await read_all(target, logged.public)
            await ann.create("one")
            with pytest.raises(Conflict, match="another `shoal project`"):
                await Projection(target, Overtaken(target)).step()
            await read_all(target, logged.public)
            assert await facts_in(target) == await facts_of(logged.network.store)

    logged.shoal.run(told())


def test_projection_of_program_that_follows_replaced_tables_is_refused(logged: Logged, tmp_path: Path) -> None:
    """Also when both programs have made equally many transactions."""

    class Replaced(RoutedSource):
        def __init__(self, target: Target) -> None:
            super().__init__(logged.shoal, logged.secret, Random(1))
            self._target = target

        async def events(self, after: str, wait: int) -> EventsPage:
            page = await super().events(after, wait)
            query = "SELECT revision FROM shoal_projection"
            before = await self._target.read(query)
            await Projection(self._target, logged.public).begin(rebuild=True)
            while await self._target.read(query) < before:
                await Shoal(logged.network).register(f"member_{Random().getrandbits(40)}")
                await Projection(self._target, logged.public).step()
            return page

    async def told() -> None:
        ann = await Shoal(logged.network).register("ann")
        async with opened(f"sqlite:///{tmp_path}/copy.db") as target:
            await Projection(target, logged.public).begin()
            while await Projection(target, logged.public).step():
                pass
            await ann.create("one")
            with pytest.raises(Conflict, match="another `shoal project`"):
                await Projection(target, Replaced(target)).step()

    logged.shoal.run(told())


def test_projection_after_trimmed_log_asks_for_rebuild(logged: Logged, tmp_path: Path) -> None:
    async def told() -> None:
        shoal = Shoal(logged.network)
        ann = await shoal.register("ann")
        async with opened(f"sqlite:///{tmp_path}/copy.db") as target:
            await read_all(target, logged.public)
            for number in range(3):
                await ann.create(f"post {number}")
            await EventLog(logged.network.store).trim(MAX_TIME)
            with pytest.raises(Gone):
                await read_all(target, logged.public)
            await read_all(target, logged.public, rebuild=True)
            assert await facts_in(target) == await facts_of(logged.network.store)

    logged.shoal.run(told())


@pytest.mark.parametrize("engine", ["sqlite", "postgresql", "duckdb"])
@pytest.mark.parametrize("kind", ["TABLE members", "VIEW daily"])
def test_projection_refuses_target_with_table_of_another_program(
    logged: Logged, tmp_path: Path, engine: str, kind: str
) -> None:
    owner = Databases()

    async def told() -> None:
        async with target_on(engine, tmp_path, owner) as target:
            await target.write([Statement(f"CREATE {kind} AS SELECT 1 AS id")])
            with pytest.raises(InvalidInput, match=f"table {kind.split()[1]} of another program"):
                await Projection(target, logged.public).begin(rebuild=True)

    logged.shoal.run(told())


@pytest.mark.parametrize("engine", ["sqlite", "postgresql", "duckdb"])
def test_target_that_refuses_statement_reports_it_as_error_of_input(
    logged: Logged, tmp_path: Path, engine: str
) -> None:
    owner = Databases()

    async def told() -> None:
        async with target_on(engine, tmp_path, owner) as target:
            await Projection(target, logged.public).begin()
            insert = "INSERT INTO shoal_reading VALUES (1, '')"
            with pytest.raises(InvalidInput, match=r"(?i)unique|duplicate"):
                await target.write([Statement(insert), Statement(insert)])

    logged.shoal.run(told())


def test_postgresql_target_without_right_to_write_is_refused(logged: Logged, tmp_path: Path) -> None:
    owner = Databases()

    async def told() -> None:
        async with target_on("postgresql", tmp_path, owner) as target:
            await target.read("SET default_transaction_read_only = on")
            with pytest.raises(InvalidInput, match="cannot execute CREATE TABLE in a read-only transaction"):
                await Projection(target, logged.public).begin()

    logged.shoal.run(told())


def test_sqlite_target_with_damaged_pages_is_refused(logged: Logged, tmp_path: Path) -> None:
    file = tmp_path / "copy.db"

    async def told() -> None:
        await lively(Shoal(logged.network))
        async with opened(f"sqlite:///{file}") as target:
            await read_all(target, logged.public)
        stored = file.read_bytes()
        file.write_bytes(stored[:4096] + b"\xff" * (len(stored) - 4096))
        async with opened(f"sqlite:///{file}") as target:
            with pytest.raises(InvalidInput, match=r"copy\.db: database disk image is malformed"):
                await Projection(target, logged.public).step()

    logged.shoal.run(told())


def test_projection_refuses_target_of_other_version_or_includes(logged: Logged, tmp_path: Path) -> None:
    async def told() -> None:
        async with opened(f"sqlite:///{tmp_path}/copy.db") as target:
            await Projection(target, logged.public).begin()
            with pytest.raises(InvalidInput, match=r"built with other private data \(none\): run with --rebuild"):
                await Projection(target, logged.private, ["direct"]).begin()
            await target.write([Statement("UPDATE shoal_projection SET schema_version = 99")])
            with pytest.raises(InvalidInput, match="schema version 99, not 3"):
                await Projection(target, logged.public).begin()

    logged.shoal.run(told())


@pytest.mark.parametrize("to", ["copy.db", "mysql://host/db", "sqlite:copy.db", "duckdb:", "parquet:/", "sqlite:///"])
def test_target_of_unknown_kind_is_refused(logged: Logged, to: str) -> None:
    async def told() -> None:
        with pytest.raises(InvalidInput, match=r"--to: .* is not one of postgresql://"):
            async with opened(to):
                pass

    logged.shoal.run(told())


def test_parquet_files_follow_events_and_are_replaced_as_a_whole(logged: Logged, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    folder = tmp_path / "it's files"

    def rows(name: str) -> Any:
        query = "SELECT * FROM read_parquet(?, hive_partitioning = false) ORDER BY ALL"
        return duckdb.execute(query, [f"{folder}/{name}/*/rows.parquet"]).fetchall()

    async def told() -> None:
        shoal = Shoal(logged.network)
        await lively(shoal)
        async with opened(f"parquet:{folder}") as target:
            source = logged.public
            await read_all(target, source)
            assert list(folder.glob("*/*")) == []
            await target.publish()
            stored = await contents(target)
            assert {name: rows(name) for name in stored} == stored
            (old,) = folder.glob("posts/*/rows.parquet")
            before = old.stat().st_ino
            bob = await shoal.member("bob")
            await bob.like(await bob.create("another"))
            await read_all(target, source)
            await target.publish()
            assert (len(rows("posts")), len(rows("likes")), old.stat().st_ino != before) == (3, 3, True)
            unchanged = next(folder.glob("media/*/rows.parquet")).stat().st_mtime_ns
            await target.publish()
            assert next(folder.glob("media/*/rows.parquet")).stat().st_mtime_ns == unchanged
            for name in ("ann", "bob", "cyd"):
                await shoal.suspend(name)
            await logged.network.settle()
            await read_all(target, source)
            await target.publish()
            assert list(folder.glob("*/*/*")) == []

    logged.shoal.run(told())


def test_parquet_files_of_earlier_contents_are_deleted_by_rebuild(logged: Logged, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")

    async def told() -> None:
        async with opened(f"parquet:{tmp_path}") as target:
            await read_all(target, logged.public)
            names = ("posts/month=2020-01", "photos/month=2020-01", "posts/month=it's mine")
            files = [tmp_path / name / "rows.parquet" for name in names]
            for file in files:
                file.parent.mkdir(parents=True)
                file.touch()
            await read_all(target, logged.public, rebuild=True)
            await target.publish()
            # Files with other names are not of this program.
            assert [file.exists() for file in files] == [False, True, True]

    logged.shoal.run(told())


def test_postgresql_target_without_connection_is_unavailable(logged: Logged, tmp_path: Path) -> None:
    owner = Databases()

    async def told() -> None:
        async with target_on("postgresql", tmp_path, owner) as target:
            terminate = Statement("SELECT pg_terminate_backend(pg_backend_pid())")
            for _ in range(2):
                with pytest.raises(Unavailable, match="the target"):
                    await target.write([terminate])

    logged.shoal.run(told())


def test_target_that_is_no_database_is_refused_with_its_path(logged: Logged, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("these are notes, and no database" * 100)

    async def told() -> None:
        async with opened(f"sqlite:///{tmp_path}/notes.txt") as target:
            with pytest.raises(InvalidInput, match=r"notes\.txt: file is not a database"):
                await Projection(target, logged.public).begin()

    logged.shoal.run(told())


def test_projection_with_private_data_follows_descriptions_of_pictures(logged: Logged, tmp_path: Path) -> None:
    async def told() -> None:
        ann = await Shoal(logged.network).register("ann")
        picture_of = await ann.upload(picture(), description="A heron")
        post = await ann.create("one", media=[picture_of])
        async with opened(f"sqlite:///{tmp_path}/copy.db") as target:
            await read_all(target, logged.private, ["followers"])
            await ann.describe(picture_of, description="An egret")
            await read_all(target, logged.private, ["followers"])
            assert await target.read("SELECT post_id, position, description FROM media") == [(post.id, 0, "An egret")]

    logged.shoal.run(told())
