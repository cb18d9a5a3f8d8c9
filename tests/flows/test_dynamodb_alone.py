"""A network of several processes on DynamoDB and nothing else: store, timelines and live updates."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import pytest
from msgspec.structs import replace

from shoal import Shoal
from shoal.core.errors import InvalidInput
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.dynamodb import DynamoGraph
from shoal.graph.dynamodb.items import END, new_spot, number_of
from shoal.graph.dynamodb.transactions import still
from shoal.queries import home
from shoal.settings import Settings, build, environment
from shoal.timelines.dynamodb import DynamoTimelines
from tests.async_runner import eventually, in_loop
from tests.engines import dynamodb
from tests.engines.dynamodb_faults import Moods, moody
from tests.flows.members import home_texts, register
from tests.flows.shared_network import processes
from tests.timelines.on_dynamodb import new_url


def settings_of(timelines: str = "", **more: object) -> Settings:
    return build(store=dynamodb.new_table(), timelines=timelines or new_url(), media="memory://", **more)


@in_loop
async def test_dynamodb_network_change_in_one_process_is_immediately_visible_in_the_other() -> None:
    async with processes(2, settings_of()) as (one, two):
        ann, ben = await register(one, "ann", "ben")
        ann_two, ben_two = await two.member(ann.id), await two.member(ben.id)
        await ben.follow(ann)
        post = await ann.create("first")
        await one.settle()
        assert await home_texts(ben_two) == ["first"]
        for reader in (ben, ben_two):
            assert (await reader.read(post)).likes == 0
        await ben_two.like(post)
        assert (await ann.read(post)).likes == (await ann_two.read(post)).likes == 1
        second = await ann_two.create("second")
        await two.settle()
        assert await home_texts(ben) == await home_texts(ben_two) == ["second", "first"]
        await ann.delete(second)
        await one.settle()
        assert await home_texts(ben) == await home_texts(ben_two) == ["first"]
        await ben_two.unfollow(ann)
        assert await home_texts(ben) == []


@in_loop
async def test_live_update_reaches_followers_in_every_process() -> None:
    async with processes(2, settings_of()) as (one, two):
        channels = [shoal.network.effects.channel for shoal in (one, two)]
        start = await channels[1].end()
        ann, ben = await register(one, "ann", "ben")
        await ben.follow(ann)
        await ann.create("told")
        async with asyncio.timeout(60), aclosing(channels[1].follow(start)) as messages:
            assert (await anext(messages)).message
        assert [channel is channels[0] for channel in channels] == [True, False]


def _requests(shoal: Shoal) -> int:
    """Return the number of requests that a process has sent to its two tables."""
    graph, timelines = shoal.network.store, shoal.network.timelines
    assert isinstance(graph, CachedGraph)
    assert isinstance(graph._store, DynamoGraph)
    assert isinstance(timelines, DynamoTimelines)
    return graph._store.round_trips + timelines.service.capacity.requests.total()


@in_loop
async def test_cold_home_page_on_dynamodb_takes_four_requests_including_one_for_timeline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A slow page would read the timeline again.
    monkeypatch.setattr(home, "MARKED_SECONDS", 3_600.0)
    settings = settings_of(run_consequences=False)
    costs = []
    for posts in (2, 10):
        settings = replace(settings, store=dynamodb.new_table(), timelines=new_url())
        async with processes(1, replace(settings, run_consequences=True)) as (shoal,):
            ann, *others = await register(shoal, "ann", "ben", "cyd")
            for other in others:
                await ann.follow(other)
            await ann.home()
            for number in range(posts):
                await ann.like(await others[number % 2].create(f"post {number}"))
            await shoal.settle()
        async with processes(1, settings) as (another,):
            reader = await another.member(ann.id)
            before = _requests(another)
            timelines = another.network.timelines
            assert isinstance(timelines, DynamoTimelines)
            read = timelines.service.capacity.requests.total()
            assert len((await reader.home(limit=40)).entries) == posts
            assert timelines.service.capacity.requests.total() - read == 1
            costs.append(_requests(another) - before)
    assert costs == [4, 4]


@in_loop
async def test_home_page_reads_timeline_again_if_high_fan_out_marks_were_read_much_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(home, "MARKED_SECONDS", 0.0)
    async with processes(1, settings_of()) as (shoal,):
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        await ann.create("first")
        await shoal.settle()
        assert await home_texts(ben) == ["first"]
        timelines = shoal.network.timelines
        assert isinstance(timelines, DynamoTimelines)
        read = timelines.service.capacity.requests.total()
        assert await home_texts(ben) == ["first"]
        assert timelines.service.capacity.requests.total() - read == 2


@pytest.mark.parametrize(
    ("store", "timelines", "message"),
    [
        (
            "sqlite:///{folder}/shoal.db",
            "dynamodb://timelines",
            r"timelines: dynamodb://table requires a store on DynamoDB \(got sqlite:///.*\): use memory:// or redis://",
        ),
        (
            "dynamodb://shoal?region=local",
            "dynamodb://shoal?region=local",
            "timelines: the table shoal belongs to the store: name another table",
        ),
        (
            "dynamodb://shoal?region=local",
            "dynamodb://timelines?region=local&spread=8",
            "timelines: the URL option spread is only for the table of the store: remove it",
        ),
        (
            "dynamodb://shoal?region=local",
            "mongodb://host",
            "timelines: 'mongodb' is not supported; use one of memory://",
        ),
    ],
)
@in_loop
async def test_network_with_timelines_setting_unsuited_to_store_is_refused_before_store_is_opened(
    tmp_path: Path, store: str, timelines: str, message: str
) -> None:
    settings = build(store=store.format(folder=tmp_path), timelines=timelines, media="memory://")
    with pytest.raises(InvalidInput, match=message):
        async with processes(1, settings):
            pass
    assert not (tmp_path / "shoal.db").exists()


async def _followed_by_many(shoal: Shoal, count: int) -> tuple[int, list[int]]:
    """Create a member with many followers whose timelines are warm, and return their ids."""
    ann, *readers = await register(shoal, "ann", *(f"reader{n}" for n in range(count)))
    for reader in readers:
        await reader.follow(ann)
        await shoal.network.timelines.create(reader.id)
        await shoal.network.timelines.fill(reader.id, [], 0)
    return ann.id, [reader.id for reader in readers]


class _Worker:
    """A worker with its supervisor."""

    def __init__(self, settings: Settings) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "shoal.cli", "worker"],
            env={**os.environ, **environment(settings)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


async def _end_leases(shoal: Shoal) -> None:
    """End the leases of a killed worker, which last a minute."""
    graph = shoal.network.store
    assert isinstance(graph, CachedGraph)
    assert isinstance(graph._store, DynamoGraph)
    outbox = graph._store._outbox
    for number in range(outbox._spread):
        for item in await outbox._service.index(f"out#{number}", "0", END, 10):
            seq = number_of(item["sort"]["S"])
            seen = still(part=item["part"]["S"], place=item["place"]["S"])
            assert await outbox._move(seq, new_spot(seq, outbox._spread), {}, seen)


@in_loop
async def test_worker_killed_in_the_middle_of_a_fan_out_leaves_no_timeline_without_the_post() -> None:
    async with moody() as moods:
        direct = settings_of()
        behind = replace(direct, timelines=direct.timelines.partition("&endpoint=")[0] + f"&endpoint={moods.url}")
        async with processes(1, direct) as (shoal,):
            author, readers = await _followed_by_many(shoal, 30)
        sent = asyncio.Event()

        async def hangs(moods: Moods, request: object, body: bytes) -> object:
            sent.set()
            await asyncio.Event().wait()
            raise AssertionError

        async with processes(1, replace(direct, run_consequences=False)) as (shoal,):
            # The first batch of 25 is written; the worker is killed while it waits for the others, which it may send again.
            moods.next("BatchExecuteStatement", Moods.pass_on, *[hangs] * 100)  # type: ignore[arg-type]
            worker = _Worker(behind)
            try:
                await (await shoal.member(author)).create("told to all")
                async with asyncio.timeout(60):
                    await sent.wait()
            finally:
                await asyncio.to_thread(worker.kill)
            texts = [await home_texts(await shoal.member(reader)) for reader in readers]
            assert 5 <= texts.count([]) <= 25, "the fan-out was interrupted"

            await _end_leases(shoal)
            another = _Worker(direct)
            try:

                async def told() -> int:
                    found = [await home_texts(await shoal.member(reader)) for reader in readers]
                    return found.count(["told to all"])

                await eventually(told, len(readers), seconds=150, pause=1.0)
            finally:
                await asyncio.to_thread(another.kill)


@in_loop
async def test_home_timeline_after_loss_of_dynamodb_table_is_pulled_and_rebuilt_in_a_new_table() -> None:
    settings = settings_of()
    async with processes(1, settings) as (shoal,):
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        await ben.home()
        await ann.create("before")
        await shoal.settle()
        timelines = shoal.network.timelines
        assert isinstance(timelines, DynamoTimelines)
        await timelines.service.call("delete_table", TableName=timelines.service.table)
        await ann.create("meanwhile")
        assert await home_texts(ben) == ["meanwhile", "before"]
    async with processes(1, settings) as (shoal,):
        await shoal.settle()
        ben, ann = await shoal.member(ben.id), await shoal.member(ann.id)
        assert await home_texts(ben) == ["meanwhile", "before"]
        await ann.create("after")
        await shoal.settle()
        before = shoal.network.effects.push_counter.pushed
        assert await home_texts(ben) == ["after", "meanwhile", "before"]
        assert before == 1
