"""Request records: the sum of stages, the limit on statements, and the attribution of statements to requests."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.graph.redis.client import Batching
from shoal.observability import tracing
from shoal.observability.request_log import LoggedRequest, request_entry, summary_of
from shoal.observability.tracing import SEND, Record, begin_recording, for_many, recording, timed
from tests.async_runner import in_loop


def record() -> Record:
    return Record("r", "GET", None, None)


@given(st.lists(st.sampled_from(["wait", "authenticate", "read", "handle", "render", "encode", "send"]), max_size=80))
def test_request_record_stages_sum_to_total_duration(entered: list[str]) -> None:
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


def test_request_record_duration_before_sending_excludes_send_stage() -> None:
    kept = record()
    kept.enter("handle")
    time.sleep(0.01)
    kept.enter(SEND)
    time.sleep(0.05)
    kept.close()
    assert kept.before_sending() >= 0.01
    assert kept.before_sending() + 0.05 <= kept.ended - kept.began


def test_request_record_counts_all_statements_and_keeps_two_hundred(monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine, a statement of no length could be a slow one.
    monkeypatch.setattr(tracing, "perf_counter", lambda: 100.0)
    kept = record()
    for _ in range(1_000):
        kept.add("sqlite", "SELECT 1", 100.0)
    for _ in range(300):
        kept.add("redis", "timelines.read", 99.0)
    kept.close()
    totals = kept.totals()
    assert {store: number for store, (number, _) in totals.items()} == {"sqlite": 1_000, "redis": 300}
    assert totals["redis"][1] == pytest.approx(300.0, rel=0.01)
    # The first hundred of any kind, then only slow ones.
    assert len(kept.statements) == 200
    assert [one.store for one in kept.statements[100:]] == ["redis"] * 100


def test_request_record_after_close_ignores_statements_and_stages() -> None:
    kept = record()
    kept.close()
    kept.add("sqlite", "SELECT 1", time.perf_counter())
    kept.enter("handle")
    assert (kept.statements, kept.more, len(kept.stages)) == ([], {}, 1)


@in_loop
async def test_request_records_of_requests_that_share_a_batch_each_have_one_statement() -> None:
    async def act(items: list[int]) -> list[int]:
        assert recording() is None
        # A Redis script would be recorded like this.
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
async def test_request_record_includes_failed_statement() -> None:
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
def test_request_log_statement_summary_omits_values(statement: str, summary: str) -> None:
    assert summary_of(statement) == summary


def test_request_log_entry_has_only_documented_fields() -> None:
    assert set(LoggedRequest.__struct_fields__) == {
        *("time", "ms", "statements", "trace", "span", "parent", "spans"),
        *("id", "method", "route", "status", "bytes", "stages", "member", "aborted"),
    }
