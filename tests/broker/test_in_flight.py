"""Acknowledgements of jobs in flight: what is sent, how it is batched, and what is delivered again."""

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


def test_those_from_the_first_on_are_acknowledged_in_one_word() -> None:
    hands = holding(*map(delivery, range(1, 6)))
    assert hands.release(map(job, (3, 1, 2))) == [(ONE, 3, True)]
    assert hands.release([job(5)]) == [(ONE, 5, False)]
    assert hands.release([job(4)]) == [(ONE, 4, True)]
    assert len(hands) == hands.oldest == 0


def test_each_channel_has_tags_of_its_own() -> None:
    hands = holding(delivery(1), delivery(2, TWO, 1), delivery(3, TWO, 2))
    assert sorted(hands.release(map(job, (1, 3))), key=lambda receipt: receipt.tag) == [(ONE, 1, True), (TWO, 2, False)]
    assert (len(hands), hands.oldest) == (1, 1_002)


def test_copies_of_a_job_are_acknowledged_together() -> None:
    hands = holding(delivery(1), delivery(2), delivery(1, tag=3))
    assert hands.release([job(1)]) == [(ONE, 1, True), (ONE, 3, False)]


def test_after_the_connection_has_ended_nothing_of_it_is_acknowledged() -> None:
    old = delivery(1)
    hands = holding(old)
    hands.clear()
    assert hands.release([job(1)]) == hands.settle([old]) == []
    hands.arrive_again([old])
    assert not hands.arrived


def test_a_lease_that_ended_gives_the_job_again_as_it_was_kept() -> None:
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
def test_whatever_the_order_exactly_what_is_settled_is_acknowledged(order: list[int], size: int) -> None:
    """As the broker reads it: a word with `up_to` settles all that are below its tag."""
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
