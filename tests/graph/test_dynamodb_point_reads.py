"""Point reads that start together are one request to DynamoDB, and do not affect each other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from shoal.core.errors import ShoalError, Unavailable
from shoal.core.model import Member
from shoal.graph.dynamodb import DynamoGraph
from shoal.graph.dynamodb.point_reads import PointReads
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, LIKES, Key
from shoal.observability.tracing import Record, TraceContext, begin_recording, end_recording
from tests.async_runner import in_loop
from tests.engines.dynamodb import new_table
from tests.engines.dynamodb_faults import leaves_all_undone, says
from tests.graph.test_dynamodb import NAME, a_small_world, opened, scene
from tests.stores import ANN, BEN, CYD, POST_OF_BEN, add, id_on


async def requests_of(graph: DynamoGraph, *reads: Awaitable[Any]) -> tuple[int, list[Any]]:
    """Return the number of requests of concurrent reads, and their results."""
    before = graph.capacity.requests.total()
    answers = await asyncio.gather(*reads)
    return graph.capacity.requests.total() - before, answers


@in_loop
async def test_dynamodb_point_reads_of_every_kind_that_start_together_take_one_request() -> None:
    async with opened(new_table()) as (graph,):
        await a_small_world(graph)

        async def later() -> Any:
            return (await asyncio.gather(graph.obj_get([CYD])))[0]

        requests, (objects, counts, links, keys, ended, nested) = await requests_of(
            graph,
            graph.obj_get([ANN, BEN]),
            graph.assoc_count([BEN], [FOLLOWS, FOLLOWED_BY]),
            graph.assoc_get(ANN, [FOLLOWS, LIKES], [BEN]),
            graph.key_get([NAME]),
            graph.assoc_ended(ANN, [FOLLOWS], [BEN]),
            later(),
        )
    assert requests == 1
    assert (set(objects), set(nested)) == ({ANN, BEN}, {CYD})
    assert counts == {FOLLOWS: {BEN: 1}, FOLLOWED_BY: {BEN: 2}}
    assert (set(links[FOLLOWS]), links[LIKES]) == ({BEN}, {})
    assert (keys, ended) == ({NAME: BEN}, {FOLLOWS: {}})


@in_loop
async def test_dynamodb_point_reads_one_after_another_take_one_request_each() -> None:
    async with opened(new_table()) as (graph,):
        await a_small_world(graph)
        before = graph.capacity.requests.total()
        assert set(await graph.obj_get([ANN])) == {ANN}
        assert set(await graph.obj_get([ANN])) == {ANN}
        assert graph.capacity.requests.total() == before + 2


@in_loop
async def test_dynamodb_point_reads_are_split_at_100_keys_and_send_shared_keys_once() -> None:
    async with opened(new_table()) as (graph,):
        ids = [id_on(7, n) for n in range(150)]
        for start in range(0, 150, 50):
            await add(graph, *[Member(id=id_, name="m") for id_ in ids[start : start + 50]])
        requests, answers = await requests_of(
            graph, graph.obj_get(ids[:100]), graph.obj_get(ids[:120]), graph.obj_get(ids[90:])
        )
        assert requests == 2
        assert [set(answer) for answer in answers] == [set(ids[:100]), set(ids[:120]), set(ids[90:])]


@in_loop
async def test_dynamodb_point_read_with_cancelled_caller_answers_the_others() -> None:
    async with opened(new_table()) as (graph,):
        await a_small_world(graph)
        impatient = asyncio.ensure_future(graph.obj_get([ANN, BEN]))
        patient = asyncio.ensure_future(graph.obj_get([BEN, CYD]))
        await asyncio.sleep(0)
        impatient.cancel()
        assert set(await patient) == {BEN, CYD}
        assert impatient.cancelled()


@in_loop
async def test_dynamodb_point_read_with_invalid_key_fails_only_its_caller() -> None:
    async with opened(new_table()) as (graph,):
        await a_small_world(graph)
        too_long = Key(NAME.shard, "user_name", "n" * 3_000)
        failed, found = await asyncio.gather(
            graph.key_get([too_long]), graph.obj_get([ANN, POST_OF_BEN]), return_exceptions=True
        )
    assert isinstance(failed, Exception)
    assert not isinstance(found, BaseException)
    assert set(found) == {ANN, POST_OF_BEN}


@in_loop
async def test_dynamodb_point_reads_on_persistently_busy_service_raise_unavailable_for_each_caller() -> None:
    async with scene(patience=0.05) as (_, behind, moods):
        moods.always = says("ThrottlingException")
        failures = await asyncio.gather(behind.obj_get([ANN]), behind.obj_get([BEN]), return_exceptions=True)
        assert all(isinstance(failure, Unavailable) for failure in failures)
        assert failures[0] is not failures[1]


@in_loop
async def test_dynamodb_point_reads_with_unprocessed_keys_are_retried_for_each_caller() -> None:
    async with scene() as (graph, behind, moods):
        await a_small_world(graph)
        moods.next("BatchGetItem", leaves_all_undone, leaves_all_undone)
        objects, counts = await asyncio.gather(behind.obj_get([ANN]), behind.assoc_count([BEN], [FOLLOWED_BY]))
        assert (set(objects), counts) == ({ANN}, {FOLLOWED_BY: {BEN: 2}})


@in_loop
async def test_dynamodb_point_read_joined_by_two_requests_is_recorded_once_for_each() -> None:
    async with opened(new_table()) as (graph,):
        await a_small_world(graph)

        async def recorded(*reads: Awaitable[Any]) -> Record:
            record = Record("r", "GET", None, TraceContext(b"t" * 16, b"s" * 8, 1))
            token = begin_recording(record)
            try:
                await asyncio.gather(*reads)
            finally:
                end_recording(token)
            return record

        two = recorded(graph.obj_get([ANN]), graph.assoc_count([BEN], [FOLLOWS]))
        records = await asyncio.gather(two, recorded(graph.obj_get([CYD])))
        for record in records:
            assert [(one.store, one.what) for one in record.statements] == [("dynamodb", "batch_get_item")]


@in_loop
async def test_dynamodb_point_reads_closed_during_a_request_wait_for_it() -> None:
    reading, answering = asyncio.Event(), asyncio.Event()

    async def read(_keys: Any) -> list[Any]:
        reading.set()
        await answering.wait()
        raise ShoalError("no")

    reads = PointReads(read)
    waiting = asyncio.ensure_future(reads.get([("7", "object")]))  # type: ignore[list-item]  # any key
    await reading.wait()
    closing = asyncio.ensure_future(reads.close())
    await asyncio.sleep(0)
    assert not closing.done()
    answering.set()
    await closing
    with pytest.raises(ShoalError):
        await waiting


@pytest.mark.parametrize("end", [GeneratorExit, asyncio.CancelledError])
@in_loop
async def test_dynamodb_point_reads_whose_request_is_aborted_fail_instead_of_waiting(end: type[BaseException]) -> None:
    async def read(_keys: Any) -> list[Any]:
        raise end

    reads = PointReads(read)
    keys: Any = [("7", "object")]
    async with asyncio.timeout(60):
        found = await asyncio.gather(reads.get(keys), reads.get(keys), return_exceptions=True)
    assert [type(one) for one in found] == [end, end]
