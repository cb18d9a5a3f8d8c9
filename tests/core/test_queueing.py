"""A queue that gets more than can be done stays short and never runs empty, because a part of what comes is refused."""

from __future__ import annotations

import random
from collections import deque

import pytest

from shoal.commands.context import refused_part
from shoal.outbox.runner import ExpectedWait

_PIECE = 50


def test_nothing_is_refused_up_to_the_first_second_and_all_from_the_last_on() -> None:
    assert [refused_part(wait, 1.0, 3.0) for wait in (0, 0.5, 1, 1.5, 2, 3, 60)] == [0, 0, 0, 0.25, 0.5, 1, 1]


def test_the_wait_is_the_length_times_what_one_takes() -> None:
    wait = ExpectedWait()
    assert wait.begin(100, 0.0, more=True)
    wait.counted(1_000, 0.0, 0.0)
    assert wait.seconds == 0
    # A hundred took half a second.
    assert wait.begin(100, 0.5, more=True)
    wait.counted(1_000, 0.5, 0.5)
    assert wait.seconds == pytest.approx(5.0)
    # The queue is not counted again at once, nor at all when there are no more.
    assert not wait.begin(100, 0.55, more=True)
    assert not wait.begin(3, 0.6, more=False)
    assert wait.seconds == 0


def test_a_rest_is_not_taken_for_slow_work() -> None:
    wait = ExpectedWait()
    wait.begin(100, 0.0, more=True)
    wait.begin(100, 1.0, more=False)
    wait.begin(100, 1_000.0, more=True)
    wait.counted(100, 1_000.0, 1_000.0)
    assert wait.seconds == pytest.approx(1.0)


def test_a_queue_that_is_dear_to_count_is_counted_seldom() -> None:
    wait = ExpectedWait()
    wait.begin(100, 0.0, more=True)
    wait.counted(10**6, 0.0, 0.05)
    assert not wait.begin(100, 1.0, more=True)
    assert wait.begin(100, 1.1, more=True)


@pytest.mark.parametrize("times", [1.25, 2, 4, 20])
def test_offered_more_than_can_be_done_the_work_never_stops_and_the_wait_stays_where_the_rest_is_refused(
    times: float,
) -> None:
    rate, seconds = 1_000, 30
    waits, idle = overloaded(rate, int(rate * times), seconds)
    settled = sorted(waits[15 * rate :])
    target = 1 + 2 * (1 - 1 / times)
    assert idle == 0
    assert settled[0] > target - 0.3
    assert settled[-1] < target + 0.3


def overloaded(rate: int, offered: int, seconds: int) -> tuple[list[float], int]:
    """How long each of what is done had waited, and how often there was nothing to do after the first second.

    A worker does `rate` a second, in pieces, and counts the queue between two of them.
    """
    draw = random.Random(7).random
    queue: deque[float] = deque()
    wait, waits, idle, now, due = ExpectedWait(), [], 0, 0.0, 0.0
    while now < seconds:
        size = min(_PIECE, len(queue))
        if wait.begin(size, now, more=size == _PIECE):
            wait.counted(len(queue), now, now)
        idle += size == 0 and now > 1
        now += max(size, 1) / rate
        waits += [now - queue.popleft() for _ in range(size)]
        due += max(size, 1) / rate * offered
        queue.extend(now for _ in range(int(due)) if draw() >= refused_part(wait.seconds, 1.0, 3.0))
        due -= int(due)
    return waits, idle
