"""Rate limits that the processes on a machine count in shared memory."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.http.rate_limits import MemoryLimiter, RateKey, RateRule, SharedLimiter
from shoal.multiprocess.shared_memory import SharedMemory
from tests.async_runner import in_loop, run
from tests.stores import Clock

RULES = {"api": RateRule(5, 300), "files": RateRule(0, 60), "short": RateRule(2, 1)}
KEYS = [RateKey("api", 5 << 10), RateKey("api", "192.0.2.1"), RateKey("short", "192.0.2.1"), RateKey("files", 7)]


def limiters(clock: Clock, processes: int = 3) -> list[SharedLimiter]:
    tables = SharedMemory.create(processes, 1, 1).counts
    return [SharedLimiter(RULES, tables, place, clock=clock) for place in range(processes)]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from(KEYS),
            st.integers(1, 3),
            st.booleans(),
            st.integers(0, 40),
            # Delay in seconds before a request is given back.
            st.sampled_from([0, 0, 1, 300]),
        ),
        max_size=40,
    )
)
def test_shared_memory_rate_limiter_matches_single_process_limiter(
    requests: list[tuple[int, RateKey, int, bool, int, int]],
) -> None:
    async def compare() -> None:
        clock = Clock()
        clock.now = 1_000_000.0
        several, one = limiters(clock), MemoryLimiter(RULES, clock=clock)
        for place, key, cost, back, seconds, late in requests:
            clock.now += seconds
            window = await several[place].take(key, cost)
            assert window == await one.take(key, cost)
            if back and window is not None and not window.wait and cost == 1:
                clock.now += late
                await several[place].give_back(key, window)
                await one.give_back(key, window)
        assert sum((limiter.refused for limiter in several), Counter()) == one.refused

    run(compare())


@in_loop
async def test_shared_memory_rate_limiter_with_full_table_evicts_and_continues() -> None:
    clock = Clock()
    clock.now = 1_000.0
    tables = [memoryview(bytearray(16 * 8)).cast("q") for _ in range(2)]
    one, other = (SharedLimiter(RULES, tables, place, clock=clock) for place in range(2))
    for number in range(100):
        window = await one.take(RateKey("api", number + 1))
        assert window is not None
        assert not window.wait
    remaining = [window.remaining for _ in range(3) if (window := await other.take(RateKey("api", 100)))]
    assert remaining == [3, 2, 1]


@pytest.mark.parametrize("seconds", [300, 1])
@in_loop
async def test_shared_memory_rate_limiter_resets_at_window_end(seconds: int) -> None:
    clock = Clock()
    clock.now = 299.0
    one, other, _ = limiters(clock)
    name = "api" if seconds == 300 else "short"
    key = RateKey(name, "192.0.2.1")
    for _ in range(RULES[name].limit):
        assert not (await one.take(key)).wait  # type: ignore[union-attr]
    assert (await other.take(key)).wait == 1.0  # type: ignore[union-attr]
    clock.now += 1
    window = await other.take(key)
    assert window is not None
    assert window.remaining == RULES[name].limit - 1


@in_loop
async def test_shared_memory_rate_limiter_give_back_for_past_window_changes_nothing() -> None:
    clock = Clock()
    clock.now = 0.0
    one, _, _ = limiters(clock)
    key = RateKey("short", "192.0.2.1")
    first = await one.take(key)
    assert first is not None
    clock.now = 1.0
    await one.take(key)
    await one.give_back(key, first)
    assert [bool(window and window.wait) for window in [await one.take(key) for _ in range(2)]] == [False, True]
