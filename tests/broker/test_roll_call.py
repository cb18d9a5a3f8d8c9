"""A process that does not answer may have something in hand, until it is clear that there is no such process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiormq
import pytest

from shoal import amqp
from shoal.amqp import RollCall
from tests.engines import rabbitmq
from tests.running import eventually, in_loop


class _Clock:
    """Seconds, as the test says."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def _calls(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[RollCall[int], _Clock]]:
    """A process that asks, and another that answers with 7. What is counted as silence goes by the clock."""
    monkeypatch.setattr(amqp, "_REPLY_SECONDS", 1.0)
    clock = _Clock()
    connection, exchange = await aiormq.connect(rabbitmq.node().url), rabbitmq.namespace()
    try:
        await (await connection.channel()).exchange_declare(exchange, exchange_type="fanout", auto_delete=True)
        asking, answering = RollCall(exchange, int, None, clock=clock), RollCall(exchange, int, lambda: 7)
        for call in (asking, answering):
            await call.prepare(await connection.channel(publisher_confirms=False))
        yield asking, clock
    finally:
        await connection.close()


@in_loop
async def test_everybody_answers_and_nobody_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with _calls(monkeypatch) as (asking, _):
        assert await asking.take(1) == ([7], 0)
        assert await asking.take(0) == ([], 0)


@in_loop
async def test_who_is_silent_for_longer_than_a_connection_lasts_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async with _calls(monkeypatch) as (asking, clock):
        for _ in range(4):
            assert await asking.take(3) == ([7], 2)
            clock.now += 10
        assert await asking.take(3) == ([7], 0)
        # One more: nobody knows which of them it is.
        assert await asking.take(4) == ([7], 3)


@in_loop
async def test_a_silence_that_ends_is_not_counted_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    async with _calls(monkeypatch) as (asking, clock):
        assert (await asking.take(2)).silent == 1
        clock.now += 30
        assert (await asking.take(1)).silent == 0
        clock.now += 30
        assert (await asking.take(2)).silent == 1


@in_loop
async def test_what_was_seen_long_ago_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with _calls(monkeypatch) as (asking, clock):
        assert (await asking.take(2)).silent == 1
        clock.now += 3_600
        assert (await asking.take(2)).silent == 1


@in_loop
async def test_who_answers_too_late_each_time_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async with _calls(monkeypatch) as (asking, clock):
        monkeypatch.setattr(amqp, "_REPLY_SECONDS", 0.0)
        for _ in range(6):
            assert await asking.take(1) == ([], 1)
            clock.now += 10

            async def answered() -> bool:
                return not asking._answers.empty()

            await eventually(answered, True)
