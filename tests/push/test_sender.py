"""The push sender limits concurrency per push service, queues further messages, and isolates failing services."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from functools import partial

import pytest

from shoal.backoff import Backoff
from shoal.core.errors import NotYet
from shoal.push import sender as couriers
from shoal.push.encryption import ServerKey
from shoal.push.sender import PushSender
from tests.async_runner import in_loop

ONE, OTHER, THIRD = "https://one.example/app", "https://other.example/app", "https://third.example/app"


def a_courier() -> PushSender:
    return PushSender(ServerKey(bytes(31) + b"\x01", "mailto:ann@example.org"), "https://shoal.test")


@pytest.fixture
def push_sender() -> PushSender:
    return a_courier()


class Service:
    """Counts concurrent jobs."""

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.done = 0
        self.begun: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.open = asyncio.Event()

    async def work(self, name: str) -> None:
        self.now[name] += 1
        self.now["all"] += 1
        self.most |= self.now
        self.begun[name].set()
        await self.open.wait()
        await asyncio.sleep(0)
        self.now[name] -= 1
        self.now["all"] -= 1
        self.done += 1


@in_loop
async def test_push_sender_limits_concurrent_messages_and_sends_all(push_sender: PushSender) -> None:
    service = Service()
    sent = [push_sender.begin(url, partial(service.work, url)) for url in (ONE, OTHER, THIRD) for _ in range(300)]
    service.open.set()
    await asyncio.gather(*sent)
    assert service.done == 900
    assert service.most["all"] == 32
    assert {service.most[url] for url in (ONE, OTHER, THIRD)} == {16}
    assert push_sender.in_flight == 0
    await push_sender.close()


@in_loop
async def test_push_sender_queue_limit_of_one_service_does_not_delay_other_services(push_sender: PushSender) -> None:
    service = Service()
    sent = [push_sender.begin(ONE, lambda: service.work(ONE)) for _ in range(512)]
    with pytest.raises(NotYet, match="other messages come first"):
        push_sender.begin(ONE, lambda: service.work(ONE))
    other = push_sender.begin(OTHER, lambda: service.work(OTHER))
    await service.begun[OTHER].wait()
    service.open.set()
    await asyncio.gather(*sent, other)
    await push_sender.begin(ONE, lambda: service.work(ONE))
    assert service.done == 514
    await push_sender.close()


@in_loop
async def test_push_sender_message_queued_too_long_is_postponed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(couriers, "_LIMITS", couriers._LIMITS._replace(patience=0.01))
    push_sender = a_courier()
    service = Service()
    sent = [push_sender.begin(ONE, lambda: service.work(ONE)) for _ in range(17)]
    with pytest.raises(NotYet, match="other messages come first"):
        await sent[-1]
    service.open.set()
    await asyncio.gather(*sent[:-1])
    assert push_sender.in_flight == 0
    await push_sender.close()


@in_loop
async def test_push_sender_messages_queued_for_failing_service_are_postponed_immediately(
    push_sender: PushSender,
) -> None:
    tried = 0
    # The pause must not end while the messages fail.
    push_sender._backoff = Backoff(2.0, 600.0, 1, clock=lambda: 100.0)

    async def fail() -> None:
        nonlocal tried
        tried += 1
        await asyncio.sleep(0)
        push_sender._postpone("https://one.example")
        raise NotYet("a push service answered 503")

    sent = [push_sender.begin(ONE, fail) for _ in range(100)]
    found = await asyncio.gather(*sent, return_exceptions=True)
    assert all(isinstance(one, NotYet) for one in found)
    assert tried == 16
    assert push_sender._backoff.extend("https://one.example") <= 2.0, "sixteen concurrent failures must count as one"
    await push_sender.close()


@in_loop
async def test_push_sender_close_cancels_queued_messages(push_sender: PushSender) -> None:
    service = Service()
    sent = [push_sender.begin(ONE, lambda: service.work(ONE)) for _ in range(40)]
    await asyncio.sleep(0)
    await push_sender.close()
    assert all(one.cancelled() for one in sent)
    assert push_sender.in_flight == 0


def test_backoff_pause_doubles_until_reset() -> None:
    now = 100.0
    backoff = Backoff(2.0, 10.0, 2, clock=lambda: now)
    assert not backoff.is_active("a")
    assert backoff.extend("a") == 2.0
    now += 0.5
    assert backoff.extend("a") == 1.5
    for expected in (4.0, 8.0, 10.0, 10.0):
        now += 100.0
        assert not backoff.is_active("a")
        assert backoff.extend("a") == expected
        assert backoff.is_active("a")
    backoff.reset("a")
    assert not backoff.is_active("a")
    assert backoff.extend("a") == 2.0
    backoff.extend("b")
    backoff.extend("c")
    assert [backoff.is_active(name) for name in "abc"] == [False, False, True]
