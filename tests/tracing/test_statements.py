"""Statements in request records on every store: equal to the round trips of the metrics, attributed to the waiting caller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from shoal.core.events import PostCreated
from shoal.core.ids import shard_of
from shoal.graph.contract import Batch, Cursor, Store
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, Key
from shoal.observability.tracing import Record, TraceContext, begin_recording, end_recording
from tests.async_runner import in_loop
from tests.stores import ANN, BEN, Backend, id_on, moment

KINDS = {"sqlite": "sqlite", "postgres": "postgres", "dynamodb": "dynamodb"}
TRACE = TraceContext(b"t" * 16, b"s" * 8, 1)

READS: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "objects": lambda graph: graph.obj_get([ANN, BEN]),
    "keys": lambda graph: graph.key_get([Key(shard_of(ANN), "user_name", "ann")]),
    "links": lambda graph: graph.assoc_get(ANN, (FOLLOWS,), [BEN]),
    "ended": lambda graph: graph.assoc_ended(ANN, (FOLLOWS,), [BEN]),
    "a list": lambda graph: graph.assoc_range(ANN, FOLLOWS, Cursor(limit=5)),
    "lists": lambda graph: graph.assoc_ranges([ANN, BEN], FOLLOWS, Cursor(limit=5)),
    "many lists": lambda graph: graph.assoc_ranges([id_on(7, n) for n in range(100)], FOLLOWS, Cursor(limit=5)),
    "counts": lambda graph: graph.assoc_count([ANN, BEN], (FOLLOWS, FOLLOWED_BY)),
    "ranks": lambda graph: graph.assoc_ranks([ANN], FOLLOWED_BY, [moment(5)]),
}


def follow(n: int) -> Batch:
    batch = Batch(shard_of(ANN))
    batch.assoc_add(ANN, FOLLOWS, id_on(7, n), moment(n))
    batch.emit(PostCreated(post_id=n, author_id=ANN))
    return batch


async def recorded(work: Awaitable[Any]) -> Record:
    """Return the record of awaiting this work."""
    record = Record("r", "GET", None, TRACE)
    token = begin_recording(record)
    try:
        await work
    finally:
        end_recording(token)
    return record


@pytest.mark.parametrize("name", KINDS)
@in_loop
async def test_request_record_statement_count_equals_store_round_trips(name: str, tmp_path: Path) -> None:
    async with Backend(name, tmp_path).open() as graph:
        await graph.commit(follow(1))
        for what, read in READS.items():
            before = getattr(graph, "round_trips", None)
            record = await recorded(read(graph))
            ((store, (number, seconds)),) = record.totals().items()
            assert (store, seconds > 0) == (KINDS[name], True), what
            # SQLite has no round trips and does not count them.
            assert number == (1 if before is None else graph.round_trips - before), what  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", KINDS)
@in_loop
async def test_request_records_of_commits_written_as_one_group_each_contain_one_commit(
    name: str, tmp_path: Path
) -> None:
    async with Backend(name, tmp_path).open() as graph:
        batches = [follow(n) for n in range(8)]
        records = await asyncio.gather(*[asyncio.create_task(recorded(graph.commit(batch))) for batch in batches])
        late = await recorded(graph.commit(follow(9)))
        for record in [*records, late]:
            (store,) = record.totals()
            assert store == KINDS[name]
            if name != "dynamodb":
                assert [one.what for one in record.statements] == ["commit"]


@pytest.mark.parametrize("name", ["memory", "sharded-sqlite", *KINDS])
@in_loop
async def test_outbox_event_keeps_trace_of_its_commit(name: str, tmp_path: Path) -> None:
    backend = Backend(name, tmp_path)
    async with backend.open() as graph:

        async def post() -> None:
            await graph.commit(follow(3))

        await recorded(post())
        await graph.commit(follow(4))
        jobs = await graph.claim(10, 0.1)
        traces = {job.event.post_id: job.event.trace for job in jobs if isinstance(job.event, PostCreated)}
        assert traces == {3: TRACE.pack(), 4: b""}
