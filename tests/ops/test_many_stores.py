"""Networks on more stores than data sources: parts of data sources in different stores."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import asyncpg
import pytest

from benchmarks.measure import rss, tree_cpu
from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.core.ids import EPOCH_MS, compose, shard_of
from shoal.core.model import Member
from shoal.core.placement import SHARDS, place
from shoal.graph.shard_map import first_map, heartbeat_seconds, parse_shards, ranges_of
from shoal.library.handle import Handle
from tests.async_runner import in_loop
from tests.engines import postgres
from tests.ops.shard_move_network import UPPER, Load, member_on, mover, populate, process
from tests.stores import add

PATIENT_SECONDS = 300.0
MOST_THREADS, MOST_FILES = 3, 10
"""Maximum of threads and open files per SQLite store: docs/howto/grow.md has the measured numbers."""


def divided(urls: Sequence[str]) -> dict[str, str]:
    """Return a shard map with an equal part for each store. Most parts begin and end within a data source."""
    edges = [at * SHARDS // len(urls) for at in range(len(urls) + 1)]
    return {ranges_of(range(*part)): url for part, url in zip(itertools.pairwise(edges), urls, strict=True)}


def names_in_all(stores: dict[str, str], each: int = 1) -> list[str]:
    """Return names of which every store keeps `each`."""
    known = first_map(stores)
    found: dict[int, list[str]] = {}
    for n in itertools.count():
        mine = found.setdefault(known.owners[place(f"m{n}").shard], [])
        if len(mine) < each:
            mine.append(f"m{n}")
            if len(found) == len(known.stores) and all(len(names) == each for names in found.values()):
                return sorted(name for names in found.values() for name in names)
    raise AssertionError


async def live(shoal: Shoal, names: Sequence[str]) -> None:
    """Let members of all stores post, follow, like, comment and delete, and check what each of them sees."""
    people = [await shoal.register(name) for name in names]
    posts = [await person.create(f"post of {person.name} #all") for person in people]
    for person, other, post in zip(people, [*people[1:], people[0]], [*posts[1:], posts[0]], strict=True):
        await person.follow(other)
        await person.like(post)
        await person.comment(post, "a comment")
    await shoal.settle()
    await _expect(shoal, people, [post.id for post in posts])
    for person, post in zip(people[::3], posts[::3], strict=True):
        await person.delete(post)
    await shoal.settle()
    await _expect(shoal, people, [post.id for n, post in enumerate(posts) if n % 3])
    assert (await check(shoal.network)).clean


async def _expect(shoal: Shoal, people: Sequence[Handle], posts: Sequence[int]) -> None:
    listed = [entry.post.id for entry in (await shoal.visitor.public(limit=len(people) + 1)).entries]
    assert listed == sorted(posts, reverse=True)
    followed = set(posts)
    for person, other in zip(people, [*people[1:], people[0]], strict=True):
        home = {entry.post.author_id for entry in (await person.home()).entries if entry.post.id in followed}
        assert home <= {person.id, other.id}
        profile = await shoal.visitor.profile_of(other)
        assert profile.followers == 1


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("number", [5, 66, pytest.param(130, marks=[pytest.mark.deep, pytest.mark.timeout(600)])])
@in_loop
async def test_sqlite_stores_that_divide_data_sources_serve_all_members_with_bounded_threads_and_files(
    number: int, tmp_path: Path
) -> None:
    stores = divided([f"sqlite:///{tmp_path}/{at}.db" for at in range(number)])
    names = names_in_all(stores, each=5 if number < 10 else 1)
    gc.collect()
    before = threading.active_count(), _open_files()
    async with Shoal.open(stores, media="memory://", search="memory://", tags="memory://") as shoal:
        await live(shoal, names)
        threads, files = threading.active_count() - before[0], _open_files() - before[1]
        print(f"\n{number} stores: {threads} threads and {files} open files more")  # noqa: T201
        assert threads < MOST_THREADS * number + 20
        assert files < MOST_FILES * number + 20
    async with Shoal.open(stores, media="memory://", search="memory://", tags="memory://") as again:
        assert len((await again.visitor.public(limit=len(names))).entries) == len(names) - len(names[::3])


@pytest.mark.deep
@pytest.mark.timeout(1_200)
@in_loop
async def test_data_source_on_one_of_130_postgresql_stores_is_divided_under_load_with_no_request_refused() -> None:
    server = postgres.start_own("fsync=off", "synchronous_commit=off", "max_connections=1500", "shared_buffers=256MB")
    urls = await _databases(server.url, 131)
    stores = divided(urls[:130])
    # The store of the last shard of data source 17 keeps it from here on.
    half = [shard for shard in parse_shards("17:64-127") if first_map(stores).owners[shard] == _owner(stores, 17, 100)]
    memory = rss(os.getpid())
    async with process(stores) as graph:
        print(f"\n{(rss(os.getpid()) - memory) / 130 / 1024:.0f} KiB per store of an idle process")  # noqa: T201
        await _print_heartbeats(server.pid or 0)
        members = [compose(EPOCH_MS + 9, shards[0]) for shards in first_map(stores).by_store()]
        await asyncio.gather(*[add(graph, Member(id=id_, name="m")) for id_ in members])
        await populate(graph, halves=[*range(64), UPPER + 17])
        load = Load([graph], [16, 17, UPPER + 17, 18])
        async with load.running():
            await load.more(20, patience=PATIENT_SECONDS)
            async with mover(stores) as moving:
                (moved,) = await moving.move(half, urls[130])
            await load.more(10, [UPPER + 17], patience=PATIENT_SECONDS)
            async with mover(stores) as moving:
                assert await moving.finish(half)
            await load.more(10, [UPPER + 17], patience=PATIENT_SECONDS)
        print(f"frozen {moved.frozen:.3f} s, the slowest request {load.longest:.3f} s")  # noqa: T201
        await load.check(graph)
        assert set(await graph.obj_get(members)) == set(members)
        assert shard_of(member_on(UPPER + 17)) in half
        connection = await asyncpg.connect(server.url)
        sessions = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'shoal%'"
        )
        await connection.close()
        print(f"{sessions} sessions of the process on 131 stores")  # noqa: T201


async def _print_heartbeats(server: int) -> None:
    """Print the processor time of heartbeats of a process to 130 stores, in the process and in PostgreSQL."""
    seconds = 10.0
    ours, theirs = time.process_time(), tree_cpu(server)
    await asyncio.sleep(seconds)
    ours, theirs = time.process_time() - ours, tree_cpu(server) - theirs
    number = 130 * seconds / heartbeat_seconds(130)
    print(f"a heartbeat: {ours / number * 1e6:.0f} us in the process, {theirs / number * 1e6:.0f} us in PostgreSQL")  # noqa: T201


def _owner(stores: dict[str, str], source: int, shard: int) -> int:
    return first_map(stores).owners[parse_shards(f"{source}:{shard}")[0]]


async def _databases(url: str, number: int) -> list[str]:
    connection = await asyncpg.connect(url)
    try:
        for at in range(number):
            await connection.execute(f"CREATE DATABASE store_{at}")
    finally:
        await connection.close()
    return [f"{url.removesuffix('/postgres')}/store_{at}" for at in range(number)]
