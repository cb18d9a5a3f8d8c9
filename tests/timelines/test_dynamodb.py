"""Behavior specific to home timelines on DynamoDB: costs, concurrent workers, expiry, and faults of the service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from benchmarks.dynamodb_timelines import meter_writes
from shoal.core.errors import InvalidInput, Unavailable
from shoal.graph.contract import Cursor
from shoal.graph.dynamodb import DynamoGraph
from shoal.graph.dynamodb.items import Item, ItemKey, typed
from shoal.timelines.contract import Window
from shoal.timelines.dynamodb import DynamoReadings, DynamoTimelines
from tests.async_runner import in_loop
from tests.engines import dynamodb
from tests.engines.dynamodb_faults import Fault, Moods, after, loses_its_answer, moody, says
from tests.stores import Clock
from tests.timelines.on_dynamodb import new_url, timelines_on

ANN, BEN = 11 << 10, 12 << 10
FIRST = 1_700_000_000_000 << 23 >> 3
"""An entry with as many digits as a real one."""
MANY = 5_000
DAY = 86_400


async def warm_up(timelines: DynamoTimelines, *members: int) -> None:
    for member in members:
        await timelines.create(member)
        await timelines.fill(member, [], 0)


async def push(timelines: DynamoTimelines, entry: int, *members: int) -> int:
    return await timelines.push(entry, timelines.slots(members or (ANN,)))


async def window(timelines: DynamoTimelines, member: int = ANN) -> Window | None:
    return await timelines.read(member, Cursor(limit=MANY))


async def ids(timelines: DynamoTimelines, member: int = ANN) -> list[int]:
    found = await window(timelines, member)
    assert found is not None
    return found.ids


async def stored(timelines: DynamoTimelines, member: int = ANN) -> dict[str, Item]:
    items = await timelines.service.get([ItemKey(str(member), sort) for sort in ("head", "tail")])
    return {item["sort"]["S"]: item for item in items}


@asynccontextmanager
async def metered() -> AsyncIterator[DynamoTimelines]:
    """Open timelines whose write units are counted."""
    async with timelines_on(new_url()) as timelines:
        meter_writes(timelines)
        yield timelines


# Costs


@in_loop
async def test_dynamodb_timelines_push_costs_one_write_unit_per_timeline_in_batches_of_25() -> None:
    members = [ANN + n for n in range(60)]
    async with metered() as timelines:
        await warm_up(timelines, *members)
        spent = timelines.service.capacity
        requests, writes, reads = spent.requests.copy(), spent.writes, spent.reads
        assert await push(timelines, FIRST, *members) == 60
        assert spent.requests - requests == {"batch_execute_statement": 3}
        assert (spent.writes - writes, spent.reads - reads) == (60, 0)


@in_loop
async def test_dynamodb_timelines_push_to_long_timeline_costs_at_most_a_fifth_write_unit_more() -> None:
    async with metered() as timelines:
        await warm_up(timelines, ANN)
        await timelines.union(ANN, range(FIRST - 800, FIRST), 0)
        before = timelines.service.capacity.writes
        for n in range(300):
            assert await push(timelines, FIRST + n) == 1
        assert timelines.service.capacity.writes - before <= 360
        found = await window(timelines)
        assert found == (list(range(FIRST + 299, FIRST - 501, -1)), FIRST - 501)
        items = await stored(timelines)
        assert len(items["head"]["ids"]["NS"]) <= 81
        assert len(items["tail"]["data"]["B"]) == 6_400


@in_loop
async def test_dynamodb_timelines_read_takes_one_request() -> None:
    async with timelines_on(new_url()) as timelines:
        await warm_up(timelines, ANN)
        await timelines.union(ANN, range(FIRST, FIRST + 800), 0)
        await push(timelines, FIRST + 900)
        requests, reads = timelines.service.capacity.requests.total(), timelines.service.capacity.reads
        assert len(await ids(timelines)) == 800
        assert timelines.service.capacity.requests.total() == requests + 1
        assert timelines.service.capacity.reads - reads <= 2


@in_loop
async def test_dynamodb_timelines_concurrent_pushes_are_combined_into_one_write_per_timeline() -> None:
    async with metered() as timelines:
        await warm_up(timelines, ANN, BEN)
        before = timelines.service.capacity.writes
        written = await asyncio.gather(*(push(timelines, FIRST + n, ANN, BEN) for n in range(20)))
        assert written == [2] * 20
        assert timelines.service.capacity.writes - before == 2
        assert await ids(timelines) == await ids(timelines, BEN) == list(range(FIRST + 19, FIRST - 1, -1))


@in_loop
async def test_dynamodb_timelines_second_push_to_cold_timeline_costs_no_write_unit() -> None:
    async with metered() as timelines:
        assert await push(timelines, FIRST) == 0
        spent = timelines.service.capacity
        writes, reads = spent.writes, spent.reads
        assert await push(timelines, FIRST + 1) == 0
        assert (spent.writes - writes, spent.reads - reads <= 1) == (0, True)
        await warm_up(timelines, ANN)
        assert await push(timelines, FIRST + 2) == 1
        assert await ids(timelines) == [FIRST + 2]


@in_loop
async def test_dynamodb_timelines_push_below_floor_is_skipped_and_other_pushes_of_its_group_are_written() -> None:
    async with timelines_on(new_url()) as timelines:
        await warm_up(timelines, ANN)
        await timelines.union(ANN, [], FIRST)
        written = await asyncio.gather(*(push(timelines, FIRST + n) for n in (5, -3, 7, 0, 9)))
        assert written == [1, 0, 1, 0, 1]
        assert await window(timelines) == ([FIRST + 9, FIRST + 7, FIRST + 5], FIRST)


# Concurrent workers


@in_loop
async def test_dynamodb_timelines_concurrent_writers_of_one_timeline_lose_and_restore_no_entry() -> None:
    url = new_url()
    async with timelines_on(url, 800, head_length=3) as one, timelines_on(url, 800, head_length=3) as two:
        await warm_up(one, ANN)
        await one.union(ANN, range(FIRST - 50, FIRST), 0)
        actions: list[Awaitable[Any]] = []
        actions += [push((one, two)[n % 2], FIRST + n) for n in range(40)]
        actions += [one.subtract(ANN, [FIRST - 1, FIRST - 2]), two.subtract(ANN, [FIRST - 3])]
        actions += [two.union(ANN, [FIRST + 100, FIRST + 101], 0), one.remove(FIRST - 4, one.slots((ANN,)))]
        await asyncio.gather(*actions)
        expected = {*range(FIRST - 50, FIRST - 4), *range(FIRST, FIRST + 40), FIRST + 100, FIRST + 101}
        assert await ids(one) == await ids(two) == sorted(expected, reverse=True)


async def _raced(url: str, race: Callable[[DynamoTimelines], Awaitable[object]]) -> list[int]:
    """Let `race` act between the read and the write of a move to the tail, and return the entries afterwards."""
    async with moody() as moods:
        behind_url = url.partition("&endpoint=")[0] + f"&endpoint={moods.url}"
        async with timelines_on(url, head_length=2) as timelines, timelines_on(behind_url, head_length=2) as behind:
            await warm_up(timelines, ANN)
            for n in range(2):
                await push(timelines, FIRST + n)
            moods.next("TransactWriteItems", after(lambda: race(timelines)))
            assert await push(behind, FIRST + 9) == 1
            assert not moods.faults["TransactWriteItems"]
            return await ids(timelines)


@in_loop
async def test_dynamodb_timelines_entry_removed_during_move_to_tail_stays_removed() -> None:
    assert await _raced(new_url(), lambda timelines: timelines.subtract(ANN, [FIRST])) == [FIRST + 9, FIRST + 1]


@in_loop
async def test_dynamodb_timelines_entry_pushed_during_move_to_tail_is_kept() -> None:
    async def race(timelines: DynamoTimelines) -> None:
        values = {":ids": {"NS": [str(FIRST + 5)]}}
        key = ItemKey(str(ANN), "head").item()
        await timelines.service.write(
            "update_item", Key=key, UpdateExpression="ADD ids :ids", ExpressionAttributeValues=values
        )

    assert await _raced(new_url(), race) == [FIRST + 9, FIRST + 5, FIRST + 1, FIRST]


@in_loop
async def test_dynamodb_timelines_move_to_tail_by_another_process_is_not_repeated() -> None:
    moved = []

    async def race(timelines: DynamoTimelines) -> None:
        assert await push(timelines, FIRST + 5) == 1
        moved.append(timelines.service.capacity.requests["transact_write_items"])

    assert await _raced(new_url(), race) == [FIRST + 9, FIRST + 5, FIRST + 1, FIRST]
    assert moved == [2], "the fill, and one move"


@in_loop
async def test_dynamodb_timelines_reader_that_sees_half_of_a_transaction_reads_again() -> None:
    async with timelines_on(new_url(), head_length=2) as timelines:
        await warm_up(timelines, ANN)
        for n in range(2):
            await push(timelines, FIRST + n)
        old = await stored(timelines)
        await push(timelines, FIRST + 2)
        new = await stored(timelines)
        stretch = timelines.service.stretch
        for half in ([new["head"], old["tail"]], [old["head"], new["tail"]]):
            halves = [half]

            async def torn(*arguments: Any, halves: list[list[Item]] = halves) -> list[Item]:
                return halves.pop() if halves else await stretch(*arguments)

            timelines.service.stretch = torn  # type: ignore[method-assign, assignment]
            assert await ids(timelines) == [FIRST + 2, FIRST + 1, FIRST]
            assert not halves


@in_loop
async def test_dynamodb_timelines_fill_of_timeline_replaced_by_another_process_is_ignored() -> None:
    url = new_url()
    async with timelines_on(url) as one, timelines_on(url) as two:
        await one.create(ANN)
        await push(one, FIRST)
        await two.drop((ANN,))
        await two.create(ANN)
        await one.fill(ANN, [FIRST - 1], 0)
        assert await window(one) is None
        await two.fill(ANN, [FIRST, FIRST - 1], 0)
        assert await ids(one) == [FIRST, FIRST - 1]


@in_loop
async def test_dynamodb_timelines_timeline_created_by_dead_process_can_be_filled_by_another() -> None:
    url = new_url()
    async with timelines_on(url) as one, timelines_on(url) as two:
        await one.create(ANN)
        await push(one, FIRST + 1)
        await two.create(ANN)
        await two.fill(ANN, [FIRST], 0)
        assert await ids(two) == [FIRST + 1, FIRST]


# Expiry


@in_loop
async def test_dynamodb_timelines_timeline_that_is_not_read_expires_and_restarts_empty() -> None:
    clock = Clock()
    async with timelines_on(new_url(), idle_seconds=14 * DAY, clock=clock) as timelines:
        await warm_up(timelines, ANN, BEN)
        await timelines.union(ANN, [FIRST], 0)
        clock.now = 14 * DAY
        assert await window(timelines) is None
        assert await timelines.floor(ANN) is None
        assert await timelines.members(9) == []
        assert await push(timelines, FIRST + 1, ANN, BEN) == 0
        await warm_up(timelines, ANN)
        assert await window(timelines) == ([], 0)
        assert await push(timelines, FIRST + 2, ANN, BEN) == 1


@in_loop
async def test_dynamodb_timelines_timeline_that_is_read_is_extended_once_a_day() -> None:
    clock = Clock()
    async with timelines_on(new_url(), idle_seconds=14 * DAY, clock=clock) as timelines:
        await warm_up(timelines, ANN)
        await timelines.union(ANN, [FIRST], 0)
        extended = timelines.service.capacity.requests
        for day in range(1, 60):
            clock.now = day * DAY + 1.0
            before = extended["update_item"]
            for _ in range(3):
                assert await ids(timelines) == [FIRST]
            assert extended["update_item"] - before <= 2
        assert extended["update_item"] < 65
        items = await stored(timelines)
        assert typed(items["tail"], "until") > typed(items["head"], "until") > clock.now + 13 * DAY - 1


@in_loop
async def test_dynamodb_timelines_reader_with_late_clock_does_not_extend_timeline_that_missed_a_push() -> None:
    url, early, late = new_url(), Clock(), Clock()
    async with timelines_on(url, clock=early) as pusher, timelines_on(url, clock=late) as reader:
        await warm_up(reader, ANN, BEN)
        early.now = 14 * DAY
        assert await push(pusher, FIRST) == 0
        late.now = 14 * DAY - 59
        assert await window(reader) is None
        assert await reader.floor(ANN) is None
        await warm_up(reader, ANN)
        assert await push(pusher, FIRST + 1, ANN, BEN) == 1
        assert await ids(reader) == [FIRST + 1]


@in_loop
async def test_dynamodb_timelines_timeline_that_expires_between_read_and_extension_stays_expired() -> None:
    clock = Clock()
    async with timelines_on(new_url(), clock=clock) as timelines:
        await warm_up(timelines, ANN)
        clock.now = 14 * DAY - 61
        stretch = timelines.service.stretch

        async def slow(*arguments: Any) -> list[Item]:
            found = await stretch(*arguments)
            clock.now = 14 * DAY - 60
            return found

        timelines.service.stretch = slow  # type: ignore[method-assign, assignment]
        found = await timelines._look(ANN)
        assert found is not None
        clock.now = 14 * DAY
        await timelines._renew(ANN, found)
        assert typed((await stored(timelines))["head"], "until") == 14 * DAY


@in_loop
async def test_dynamodb_timelines_timeline_with_missing_tail_item_is_cold_and_can_be_rebuilt() -> None:
    async with timelines_on(new_url()) as timelines:
        await warm_up(timelines, ANN)
        await timelines.union(ANN, [FIRST], 0)
        await timelines.service.forget([ItemKey(str(ANN), "tail")])
        assert await window(timelines) is None
        await timelines.create(ANN)
        await timelines.fill(ANN, [FIRST, FIRST - 1], 0)
        assert await ids(timelines) == [FIRST, FIRST - 1]


@in_loop
async def test_dynamodb_timelines_drop_idle_drops_exactly_the_timelines_unread_for_the_given_time() -> None:
    clock = Clock()
    async with timelines_on(new_url(), idle_seconds=14 * DAY, clock=clock) as timelines:
        await warm_up(timelines, ANN, BEN)
        clock.now = 5 * DAY
        await ids(timelines, BEN)
        await timelines.drop_idle(14 * DAY)
        assert sorted(await timelines.members(9)) == [ANN, BEN]
        await timelines.drop_idle(4 * DAY)
        assert await timelines.members(9) == [BEN]


@in_loop
async def test_dynamodb_ranking_cache_entry_expires_after_an_hour() -> None:
    clock = Clock()
    async with timelines_on(new_url()) as timelines:
        readings = DynamoReadings(timelines.service, clock)
        await readings.keep(7, b"order")
        clock.now = 3_599
        assert await readings.get(7) == b"order"
        clock.now = 3_600
        assert await readings.get(7) is None


# The table


@in_loop
async def test_dynamodb_timelines_new_table_has_item_expiry_and_can_be_opened_again() -> None:
    url = new_url()
    async with timelines_on(url) as timelines:
        await warm_up(timelines, ANN)
        table = timelines.service.table
        expiry = (await timelines.service.call("describe_time_to_live", TableName=table))["TimeToLiveDescription"]
        assert (expiry["TimeToLiveStatus"], expiry["AttributeName"]) == ("ENABLED", "until")
    async with timelines_on(url) as timelines:
        assert await window(timelines) == ([], 0)


@in_loop
async def test_dynamodb_timelines_table_is_created_once_by_concurrent_processes() -> None:
    url = new_url()
    opened = await asyncio.gather(*(DynamoTimelines.open(url, 800, idle_seconds=DAY) for _ in range(3)))
    await warm_up(opened[0], ANN)
    assert await push(opened[1], FIRST) == 1
    assert await ids(opened[2]) == [FIRST]
    for timelines in opened:
        await timelines.close()


@in_loop
async def test_dynamodb_timelines_in_table_of_the_graph_are_refused() -> None:
    url = dynamodb.new_table()
    await (await DynamoGraph.open(url)).close()
    with pytest.raises(Unavailable, match="has another purpose: set timelines to the URL of another table"):
        await DynamoTimelines.open(url.replace("&spread=2", ""), 800, idle_seconds=DAY)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("dynamodb://", "expected dynamodb://table"),
        ("dynamodb://table?regions=x", "expected dynamodb://table"),
        (
            "dynamodb://table?region=local&spread=8",
            "the URL option spread is only for the table of the store: remove it",
        ),
    ],
)
@in_loop
async def test_dynamodb_timelines_url_that_is_invalid_is_refused(url: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        await DynamoTimelines.open(url, 800, idle_seconds=DAY)


@in_loop
async def test_dynamodb_timelines_with_deleted_table_are_unavailable_until_next_start_creates_it() -> None:
    url = new_url()
    async with timelines_on(url) as timelines:
        await warm_up(timelines, ANN)
        await timelines.service.call("delete_table", TableName=timelines.service.table)
        for act in (push(timelines, FIRST), timelines.read(ANN, Cursor(limit=5)), timelines.create(ANN)):
            with pytest.raises(Unavailable):
                await act
    async with timelines_on(url) as timelines:
        assert await window(timelines) is None
        await warm_up(timelines, ANN)
        assert await push(timelines, FIRST) == 1


# Faults of the service


def throttles(*throttled: int) -> Fault:
    """Return a fault that executes a batch without the statements at these positions, which are throttled."""

    async def fault(moods: Moods, request: web.Request, body: bytes) -> web.Response:
        asked = json.loads(body)
        statements = asked["Statements"]
        asked["Statements"] = [one for at, one in enumerate(statements) if at not in throttled]
        answer = await moods.pass_on(request, json.dumps(asked).encode())
        found = json.loads(answer.body)  # type: ignore[arg-type]
        responses = iter(found["Responses"])
        found["Responses"] = [
            {"Error": {"Code": "ThrottlingError", "Message": "slow down"}} if at in throttled else next(responses)
            for at in range(len(statements))
        ]
        return web.Response(body=json.dumps(found).encode(), content_type="application/x-amz-json-1.0")

    return fault


@in_loop
async def test_dynamodb_timelines_push_resends_only_throttled_statements_of_batch() -> None:
    members = [ANN + n for n in range(5)]
    async with moody() as moods, timelines_on(new_url(at=moods.url)) as timelines:
        await warm_up(timelines, *members)
        moods.next("BatchExecuteStatement", throttles(1, 3), throttles(0))
        assert await push(timelines, FIRST, *members) == 5
        assert timelines.service.capacity.retries["ThrottlingError"] == 3
        assert [await ids(timelines, member) for member in members] == [[FIRST]] * 5


@in_loop
async def test_dynamodb_timelines_push_repeated_after_lost_response_adds_entry_once() -> None:
    async with moody() as moods, timelines_on(new_url(at=moods.url)) as timelines:
        await warm_up(timelines, ANN)
        moods.next("BatchExecuteStatement", loses_its_answer)
        assert await push(timelines, FIRST) == 1
        assert await ids(timelines) == [FIRST]


@in_loop
async def test_dynamodb_timelines_calls_to_unavailable_service_fail_in_time_and_recover() -> None:
    async with moody() as moods, timelines_on(new_url(at=moods.url), patience=0.2) as timelines:
        await warm_up(timelines, ANN)
        moods.always = says("ServiceUnavailable")
        calls: list[Awaitable[object]] = [
            push(timelines, FIRST),
            timelines.read(ANN, Cursor(limit=5)),
            timelines.create(BEN),
            timelines.union(ANN, [FIRST], 0),
            timelines.remove(FIRST, timelines.slots((ANN,))),
            timelines.drop((ANN,)),
            timelines.floor(ANN),
            timelines.clear(),
        ]
        for call in calls:
            async with asyncio.timeout(60):
                with pytest.raises(Unavailable):
                    await call
        moods.always = None
        assert await push(timelines, FIRST) == 1
        assert await ids(timelines) == [FIRST]


def refuses_transactions(member: int) -> Fault:
    """Return a fault that lets every move to the tail of one timeline be overtaken."""

    async def fault(moods: Moods, request: web.Request, body: bytes) -> web.StreamResponse:
        if request.headers["X-Amz-Target"].endswith("TransactWriteItems") and str(member).encode() in body:
            return await says("TransactionInProgressException")(moods, request, body)
        return await moods.pass_on(request, body)

    return fault


@in_loop
async def test_dynamodb_timelines_push_to_other_members_succeeds_while_one_timeline_is_stuck() -> None:
    async with moody() as moods, timelines_on(new_url(at=moods.url), patience=3.0, head_length=2) as timelines:
        await warm_up(timelines, ANN, BEN)
        for n in range(2):
            await push(timelines, FIRST + n, ANN)
        moods.always = refuses_transactions(ANN)
        sent = (push(timelines, FIRST + 10 + n, member) for n in range(2) for member in (ANN, BEN))
        stuck, written, again, more = await asyncio.gather(*sent, return_exceptions=True)
        assert isinstance(stuck, Unavailable)
        assert isinstance(again, Unavailable)
        assert stuck is not again
        assert (written, more) == (1, 1)
        assert await ids(timelines, BEN) == [FIRST + 11, FIRST + 10]


@in_loop
async def test_dynamodb_timelines_push_refused_by_service_error_contains_its_code() -> None:
    async def refuses(_moods: Moods, _request: web.Request, body: bytes) -> web.Response:
        found = {"Responses": [{"Error": {"Code": "AccessDenied"}} for _ in json.loads(body)["Statements"]]}
        return web.Response(body=json.dumps(found).encode(), content_type="application/x-amz-json-1.0")

    async with moody() as moods, timelines_on(new_url(at=moods.url)) as timelines:
        await warm_up(timelines, ANN)
        moods.next("BatchExecuteStatement", refuses)
        with pytest.raises(Unavailable, match="refused a push: AccessDenied"):
            await push(timelines, FIRST)
