"""Load shedding: an overloaded queue stays short and never runs empty, because part of the incoming jobs is refused."""

from __future__ import annotations

import random
from collections import deque

import pytest

from shoal.commands.context import refused_part
from shoal.outbox.runner import ExpectedWait

_PIECE = 50


def test_load_shedding_refused_fraction_grows_linearly_with_wait() -> None:
    assert [refused_part(wait, 1.0, 3.0) for wait in (0, 0.5, 1, 1.5, 2, 3, 60)] == [0, 0, 0, 0.25, 0.5, 1, 1]


def test_job_wait_estimate_is_queue_length_times_service_time() -> None:
    wait = ExpectedWait()
    assert wait.begin(100, 0.0, more=True)
    wait.counted(1_000, 0.0, 0.0)
    assert wait.seconds == 0
    # Processing a hundred jobs took half a second.
    assert wait.begin(100, 0.5, more=True)
    wait.counted(1_000, 0.5, 0.5)
    assert wait.seconds == pytest.approx(5.0)
    # The queue is not counted again immediately, nor when it is empty.
    assert not wait.begin(100, 0.55, more=True)
    assert not wait.begin(3, 0.6, more=False)
    assert wait.seconds == 0


def test_job_wait_estimate_ignores_idle_periods() -> None:
    wait = ExpectedWait()
    wait.begin(100, 0.0, more=True)
    wait.begin(100, 1.0, more=False)
    wait.begin(100, 1_000.0, more=True)
    wait.counted(100, 1_000.0, 1_000.0)
    assert wait.seconds == pytest.approx(1.0)


def test_job_wait_estimate_counts_queue_rarely_if_counting_is_slow() -> None:
    wait = ExpectedWait()
    wait.begin(100, 0.0, more=True)
    wait.counted(10**6, 0.0, 0.05)
    assert not wait.begin(100, 1.0, more=True)
    assert wait.begin(100, 1.1, more=True)


@pytest.mark.parametrize("times", [1.25, 2, 4, 20])
def test_load_shedding_under_overload_keeps_worker_busy_and_wait_stable(
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
    """Return the wait of each finished job, and how often the worker was idle after the first second.

    A worker processes `rate` jobs a second, in batches, and counts the queue between batches.
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
