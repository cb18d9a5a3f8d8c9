"""Acknowledgments of jobs in flight: batching, closed connections and redelivery."""

from __future__ import annotations

from typing import cast

from aiormq.abc import AbstractChannel
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.events import PostCreated
from shoal.graph.contract import Job
from shoal.outbox.rabbitmq import Delivery, InFlight
from tests.stores import Clock

ONE, TWO = cast("AbstractChannel", object()), cast("AbstractChannel", object())


def job(n: int) -> Job:
    return Job(n, PostCreated(post_id=n, author_id=1))


def delivery(n: int, channel: AbstractChannel = ONE, tag: int = 0) -> Delivery:
    return Delivery(channel, tag or n, b"", job(n), 1_000 + n, 0, 0, alone=False)


def holding(*deliveries: Delivery, clock: Clock | None = None, lease: float = 60.0) -> InFlight:
    hands = InFlight(clock or Clock())
    for one in deliveries:
        hands.arrive(one)
        assert one.job is not None
        hands.hold(one.job, one, lease)
    return hands


def test_outbox_deliveries_completed_in_order_are_acknowledged_with_multiple_flag() -> None:
    hands = holding(*map(delivery, range(1, 6)))
    assert hands.release(map(job, (3, 1, 2))) == [(ONE, 3, True)]
    assert hands.release([job(5)]) == [(ONE, 5, False)]
    assert hands.release([job(4)]) == [(ONE, 4, True)]
    assert len(hands) == hands.oldest == 0


def test_outbox_deliveries_are_acknowledged_per_channel() -> None:
    hands = holding(delivery(1), delivery(2, TWO, 1), delivery(3, TWO, 2))
    assert sorted(hands.release(map(job, (1, 3))), key=lambda receipt: receipt.tag) == [(ONE, 1, True), (TWO, 2, False)]
    assert (len(hands), hands.oldest) == (1, 1_002)


def test_outbox_copies_of_job_are_acknowledged_together() -> None:
    hands = holding(delivery(1), delivery(2), delivery(1, tag=3))
    assert hands.release([job(1)]) == [(ONE, 1, True), (ONE, 3, False)]


def test_outbox_deliveries_of_closed_connection_are_not_acknowledged() -> None:
    old = delivery(1)
    hands = holding(old)
    hands.clear()
    assert hands.release([job(1)]) == hands.settle([old]) == []
    hands.arrive_again([old])
    assert not hands.arrived


def test_outbox_job_with_expired_lease_is_delivered_again_unchanged() -> None:
    clock = Clock()
    hands = holding(delivery(1), delivery(2), clock=clock, lease=10.0)
    hands.restore(job(2)._replace(mark=5), hands.take_out(job(2)), 30.0)
    clock.now = 9.0
    assert hands.due(9, 10.0) == []
    clock.now = 10.0
    assert hands.due(9, 60.0) == [job(1)]
    assert hands.due(9, 60.0) == []
    clock.now = 31.0
    assert hands.due(9, 60.0) == [job(2)._replace(mark=5)]


@given(st.permutations(range(1, 13)), st.integers(1, 12))
def test_outbox_acknowledgments_in_any_order_of_completion_include_only_completed_deliveries(
    order: list[int], size: int
) -> None:
    """A receipt with `up_to` acknowledges all deliveries of the channel up to and including its tag."""
    hands = holding(*map(delivery, range(1, 13)))
    open_, settled = set(range(1, 13)), set[int]()
    for start in range(0, 12, size):
        part = order[start : start + size]
        settled.update(part)
        for _, tag, up_to in hands.release(map(job, part)):
            told = {other for other in open_ if other <= tag} if up_to else {tag}
            assert told <= open_
            open_ -= told
        assert open_ == set(range(1, 13)) - settled
