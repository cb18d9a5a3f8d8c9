"""Records: stages add up, statements are bounded, and what one request waits for is never charged to another."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.graph.redis.client import Batching
from shoal.observability.request_log import LoggedRequest, request_entry, summary_of
from shoal.observability.tracing import SEND, Record, begin_recording, for_many, recording, timed
from tests.running import in_loop


def record() -> Record:
    return Record("r", "GET", None, None)


@given(st.lists(st.sampled_from(["wait", "authenticate", "read", "handle", "render", "encode", "send"]), max_size=80))
def test_stages_are_never_more_than_the_whole(entered: list[str]) -> None:
    kept = record()
    for stage in entered:
        kept.enter(stage)
    kept.close()
    spans = list(kept.spans())
    assert all(began <= ended for _, began, ended in spans)
    assert sum(ended - began for _, began, ended in spans) == pytest.approx(kept.ended - kept.began, abs=1e-9)
    entry = request_entry(kept, slow=True)
    # Each is rounded to a microsecond.
    assert sum(entry.stages.values()) == pytest.approx(entry.ms, abs=0.0005 * (len(entry.stages) + 1))
    assert 0.0 <= kept.before_sending() <= kept.ended - kept.began
    assert len(spans) <= 64


def test_how_long_a_client_takes_to_read_is_not_what_makes_a_request_slow() -> None:
    kept = record()
    kept.enter("handle")
    time.sleep(0.01)
    kept.enter(SEND)
    time.sleep(0.05)
    kept.close()
    assert kept.before_sending() >= 0.01
    assert kept.before_sending() + 0.05 <= kept.ended - kept.began


def test_statements_are_all_counted_and_some_kept() -> None:
    kept = record()
    for _ in range(1_000):
        kept.add("sqlite", "SELECT 1", time.perf_counter())
    for _ in range(300):
        kept.add("redis", "timelines.read", time.perf_counter() - 1.0)
    kept.close()
    totals = kept.totals()
    assert {store: number for store, (number, _) in totals.items()} == {"sqlite": 1_000, "redis": 300}
    assert totals["redis"][1] == pytest.approx(300.0, rel=0.01)
    # A hundred whatever they are, and then those that took long.
    assert len(kept.statements) == 200
    assert [one.store for one in kept.statements[100:]] == ["redis"] * 100


def test_nothing_is_added_to_one_that_is_closed() -> None:
    kept = record()
    kept.close()
    kept.add("sqlite", "SELECT 1", time.perf_counter())
    kept.enter("handle")
    assert (kept.statements, kept.more, len(kept.stages)) == ([], {}, 1)


@in_loop
async def test_each_of_those_who_share_a_round_trip_notes_its_own_wait_and_once() -> None:
    async def act(items: list[int]) -> list[int]:
        assert recording() is None
        # As a script of Redis would be noted.
        await timed("redis", "inner", asyncio.sleep(0.01))
        return items

    batching = Batching("outer", act)

    async def request(number: int) -> Record:
        kept = record()
        begin_recording(kept)
        await batching.ask(number)
        return kept

    for kept in await asyncio.gather(*map(asyncio.create_task, map(request, range(3)))):
        assert [(one.store, one.what) for one in kept.statements] == [("redis", "outer")]
        assert kept.statements[0].ended - kept.statements[0].began > 0.005


@in_loop
async def test_a_statement_that_fails_is_noted_too() -> None:
    async def broken() -> None:
        raise ConnectionError

    kept = record()
    begin_recording(kept)
    with pytest.raises(ConnectionError):
        await timed("postgres", "SELECT 1", broken())
    assert len(kept.statements) == 1
    with for_many():
        assert recording() is None
    assert recording() is kept


@pytest.mark.parametrize(
    ("statement", "summary"),
    [
        ("SELECT data FROM object WHERE id IN (SELECT value FROM json_each(?))", "SELECT object"),
        ("SELECT data FROM shoal.object WHERE id = ANY ($1::bigint[])", "SELECT object"),
        (
            "\n    WITH wanted (space, name) AS (VALUES (?, ?))\n    SELECT k.id FROM wanted CROSS JOIN key AS k USING (space)",
            "SELECT key",
        ),
        (
            "SELECT w.id1, a.id2 FROM unnest($1::bigint[]) AS w (id1) CROSS JOIN LATERAL (SELECT * FROM shoal.key)",
            "SELECT key",
        ),
        ("SELECT shoal.commit($1, $2)", "SELECT commit"),
        ("DELETE FROM outbox WHERE seq IN (1)", "DELETE outbox"),
        ("commit", "commit"),
        ("timelines.read", "timelines.read"),
        ("x" * 500, "x" * 60),
    ],
)
def test_a_statement_is_summed_up_without_its_values(statement: str, summary: str) -> None:
    assert summary_of(statement) == summary


def test_an_entry_of_a_request_has_only_what_the_documentation_names() -> None:
    assert set(LoggedRequest.__struct_fields__) == {
        *("time", "ms", "statements", "trace", "span", "parent", "spans"),
        *("id", "method", "route", "status", "bytes", "stages", "member", "aborted"),
    }
