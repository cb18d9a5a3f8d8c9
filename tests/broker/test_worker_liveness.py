"""A process that does not respond counts as possibly holding a job until the liveness query shows that it does not exist."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiormq
import pytest

from shoal import amqp
from shoal.amqp import LivenessQuery
from tests.async_runner import eventually, in_loop
from tests.engines import rabbitmq


class _Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class _Answers(asyncio.Queue[Any]):
    """The replies to a query, which times out as soon as the only process that replies has replied."""

    def __init__(self, query: LivenessQuery[int]) -> None:
        super().__init__()
        self._query = query
        self._answered: str | None = None

    async def get(self) -> Any:
        if self._answered == str(self._query._questions):
            raise TimeoutError
        answer = await super().get()
        self._answered = answer[0]
        return answer


@asynccontextmanager
async def _calls(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[LivenessQuery[int], _Clock]]:
    """Yield the query of a process to another one, which answers 7. The clock measures how long others have not answered."""
    monkeypatch.setattr(amqp, "_REPLY_SECONDS", 60.0)
    clock = _Clock()
    connection, exchange = await aiormq.connect(rabbitmq.node().url), rabbitmq.namespace()
    try:
        await (await connection.channel()).exchange_declare(exchange, exchange_type="fanout", auto_delete=True)
        asking, answering = LivenessQuery(exchange, int, None, clock=clock), LivenessQuery(exchange, int, lambda: 7)
        asking._answers = _Answers(asking)
        for call in (asking, answering):
            await call.prepare(await connection.channel(publisher_confirms=False))
        yield asking, clock
    finally:
        await connection.close()


@in_loop
async def test_liveness_query_answered_by_all_processes_reports_no_silent_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with _calls(monkeypatch) as (asking, _):
        assert await asking.send(1) == ([7], 0)
        assert await asking.send(0) == ([], 0)


@in_loop
async def test_liveness_query_ignores_process_silent_for_longer_than_connection_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with _calls(monkeypatch) as (asking, clock):
        for _ in range(4):
            assert await asking.send(3) == ([7], 2)
            clock.now += 10
        assert await asking.send(3) == ([7], 0)
        # With one more process expected, the query cannot tell which of them are silent.
        assert await asking.send(4) == ([7], 3)


@in_loop
async def test_liveness_query_silence_period_restarts_after_each_reply_of_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with _calls(monkeypatch) as (asking, clock):
        assert (await asking.send(2)).silent == 1
        clock.now += 30
        assert (await asking.send(1)).silent == 0
        clock.now += 30
        assert (await asking.send(2)).silent == 1


@in_loop
async def test_liveness_query_repeated_after_an_hour_still_counts_silent_process_as_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with _calls(monkeypatch) as (asking, clock):
        assert (await asking.send(2)).silent == 1
        clock.now += 3_600
        assert (await asking.send(2)).silent == 1


@in_loop
async def test_liveness_query_counts_process_that_always_answers_late_as_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with _calls(monkeypatch) as (asking, clock):
        monkeypatch.setattr(amqp, "_REPLY_SECONDS", 0.0)
        for _ in range(6):
            assert await asking.send(1) == ([], 1)
            clock.now += 10

            async def answered() -> bool:
                return not asking._answers.empty()

            await eventually(answered, True)
