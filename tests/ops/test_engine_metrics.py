"""Metrics of real engines: correct while an engine runs, marked as unreachable when it does not answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
from redis import Redis

from shoal import settings as configuration
from shoal.app.engines import engine_probes
from shoal.app.network import open_network
from shoal.core.events import PostCreated
from shoal.graph.contract import Job
from shoal.graph.dynamodb import DynamoGraph
from shoal.health.probes import EngineHealth, EngineProbe, EngineWatch, Measurement
from shoal.health.rabbitmq import look as look_at_broker
from shoal.outbox.rabbitmq import RabbitOutbox
from tests.async_runner import in_loop
from tests.engines import dynamodb, postgres, rabbitmq, redis


def figures(one: EngineHealth) -> dict[str, float]:
    return {vital.name: vital.value for vital in one.measurements}


async def asked(**settings: Any) -> list[EngineHealth]:
    chosen = configuration.build(**{"store": "memory://", **settings})
    return await EngineWatch(engine_probes(chosen), patience=30.0).look()


@in_loop
async def test_engine_measurements_of_sqlite_report_file_sizes(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'own.db'}"
    # Without background tasks, which may write to the files at any moment.
    async with open_network(configuration.build(store=store), background=False) as network:
        found = await EngineWatch(network.engines, patience=30.0).look()
        assert [one.place for one in found] == ["own.db", "own.db.tags", "own.db.search"]
        assert [figures(one)["stored_bytes"] for one in found] == [
            (tmp_path / one.place).stat().st_size for one in found
        ]
        assert all(one.reached and one.version and figures(one)["disk_free_bytes"] > 0 for one in found)


@in_loop
async def test_engine_measurements_of_postgresql_report_connections_and_longest_transaction() -> None:
    owner = asyncio.Event()
    url = await postgres.database(owner)
    secret = url.replace("shoal@", "shoal:a-secret@")
    async with open_network(configuration.build(store=secret)):
        idler = await asyncpg.connect(url)
        try:
            async with idler.transaction():
                await idler.fetchval("SELECT 1")
                await asyncio.sleep(0.05)
                (found,) = await asked(store=secret)
        finally:
            await idler.close()
    told = figures(found)
    assert found.version[0].isdigit()
    assert told["connections"] >= 2
    assert told["connections_most"] == postgres.CONNECTIONS
    assert told["longest_transaction_seconds"] >= 0.05
    assert told["stored_bytes"] > 1_000_000
    assert 0 <= told["cache_hits"] <= 1
    assert found.place.startswith("127.0.0.1:")
    assert "a-secret" not in repr(found)


@in_loop
async def test_engine_measurements_of_redis_cluster_report_each_server_and_mark_lost_one() -> None:
    running = await asyncio.to_thread(redis.own_cluster, 3, 0)
    try:
        found = await asked(timelines=running.url)
        assert len(found) == 3
        assert all(one.reached and figures(one)["memory_bytes"] > 0 for one in found)
        lost = running.masters[1].program
        lost.kill()
        found = await asked(timelines=running.url)
        assert sorted(one.reached for one in found) == [False, True, True]
        (away,) = [one for one in found if not one.reached]
        assert away.place.endswith(f":{running.masters[1].port}")
        assert away.measurements == ()
    finally:
        for member in running.members:
            member.program.kill()


@in_loop
async def test_engine_measurements_of_redis_with_exhausted_memory_mark_memory_and_evictions_as_wrong() -> None:
    program = await asyncio.to_thread(redis.own, "--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru")
    try:
        client = Redis.from_url(program.url)
        for n in range(40_000):
            client.set(f"key:{n}", "x" * 100)
        (found,) = await asked(timelines=program.url)
        client.close()
    finally:
        program.kill()
    told = figures(found)
    assert told["items"] > 0
    assert told["evicted"] > 0
    assert {vital.name for vital in found.measurements if vital.wrong} == {"memory_bytes", "evicted"}


@in_loop
async def test_engine_measurements_of_rabbitmq_report_queue_depth_and_missing_workers() -> None:
    url, namespace = rabbitmq.node().url, rabbitmq.namespace()
    outbox = await RabbitOutbox.open(url, namespace=namespace, taking=False)
    try:
        await outbox.send([Job(n, PostCreated(post_id=n, author_id=1)) for n in range(3)])
        (found,) = await look_at_broker(url, "here", namespace)
        assert figures(found) == {"jobs_waiting": 3, "jobs_delayed": 0, "jobs_set_aside": 0, "workers": 0}
        assert Measurement("workers", 0, wrong=True) in found.measurements
        worker = await RabbitOutbox.open(url, namespace=namespace)
        (found,) = await look_at_broker(url, "here", namespace)
        await worker.close()
        assert Measurement("workers", 1) in found.measurements
    finally:
        await outbox.close()


@in_loop
async def test_engine_measurements_of_dynamodb_table_report_size() -> None:
    url = dynamodb.new_table()
    graph = await DynamoGraph.open(url)
    await graph.close()
    (found,) = await asked(store=url)
    assert found.reached
    assert figures(found).keys() == {"stored_bytes", "items"}


@in_loop
async def test_engine_measurements_of_unreachable_or_hung_engine_are_marked_without_blocking() -> None:
    silent = asyncio.Event()
    calls = 0

    async def sound() -> list[EngineHealth]:
        nonlocal calls
        calls += 1
        return [EngineHealth("Sound", "here", "1", (Measurement("items", 1),))]

    async def hung() -> list[EngineHealth]:
        await silent.wait()
        return []

    probes = [EngineProbe("Hung", "there", hung), EngineProbe("Sound", "here", sound)]
    watch = EngineWatch(probes, patience=0.05)
    found = await asyncio.gather(*[watch.look() for _ in range(20)])
    assert found[0] == [
        EngineHealth("Hung", "there", reached=False),
        EngineHealth("Sound", "here", "1", (Measurement("items", 1),)),
    ]
    assert all(one == found[0] for one in found)
    assert calls == 1
    (away,) = await asked(store="postgresql://nobody:a-secret@127.0.0.1:1/nothing")
    assert away == EngineHealth("PostgreSQL", "127.0.0.1:1/nothing", reached=False)


@in_loop
async def test_engine_measurements_omit_in_memory_backends() -> None:
    assert await asked(timelines="memory://", search="memory://") == []
