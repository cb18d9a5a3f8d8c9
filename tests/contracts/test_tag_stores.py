"""The contract of `tagcloud/contract.py` for stores, tested on every store."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shoal.graph.schema import tag_id
from shoal.tagcloud import lease
from shoal.tagcloud.contract import (
    DAY_MS,
    KEEP_CLOUDS,
    KEEP_INCREMENTS_MS,
    Day,
    Head,
    Overtaken,
    TagRule,
)
from shoal.tagcloud.heat import DAY as IN_A_DAY
from shoal.tagcloud.heat import HOUR as IN_AN_HOUR
from shoal.tagcloud.heat import HOUR_MS, Heat
from shoal.tagcloud.heat import WEEK as IN_A_WEEK
from tests.async_runner import eventually, in_loop
from tests.example_counts import DEEP
from tests.tagcloud.stores import (
    AT,
    CLOUDS,
    DAY,
    DURABLE_CLOUDS,
    FIRST,
    CloudBackend,
    increment_id,
    large,
    merge,
    row,
    whole,
)

DAWN, REEF, SURF = tag_id("dawn"), tag_id("reef"), tag_id("surf")
TAGS = 200
HOUR = 3_600.0


@pytest.fixture(params=CLOUDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> CloudBackend:
    """Each store in turn, empty."""
    return CloudBackend(request.param, tmp_path)


@pytest.fixture(params=DURABLE_CLOUDS)
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> CloudBackend:
    """Each durable store in turn, empty."""
    return CloudBackend(request.param, tmp_path)


# The lock


@in_loop
async def test_tag_store_lock_has_one_holder_and_can_be_extended(backend: CloudBackend) -> None:
    async with backend.open() as store:
        for _ in range(2):
            assert await store.lock(b"ann", HOUR)
            assert not await store.lock(b"ben")


@in_loop
async def test_tag_store_lock_released_by_holder_can_be_acquired_by_other_holder(backend: CloudBackend) -> None:
    async with backend.open() as store:
        assert await store.lock(b"ann")
        await store.unlock(b"ann")
        assert await store.lock(b"ben")


@in_loop
async def test_tag_store_lock_is_not_released_by_other_holder(backend: CloudBackend) -> None:
    async with backend.open() as store:
        await store.unlock(b"ben")
        assert await store.lock(b"ann", HOUR)
        await store.unlock(b"ben")
        assert not await store.lock(b"ben")


@in_loop
async def test_tag_store_lock_expires(backend: CloudBackend) -> None:
    async with backend.open() as store:
        assert await store.lock(b"ann", 0.01)
        await asyncio.sleep(0.03)
        assert await store.lock(b"ben", HOUR)
        assert not await store.lock(b"ann")


@in_loop
async def test_tag_store_lock_is_shared_by_all_connections(durable: CloudBackend) -> None:
    async with durable.open() as one, durable.open() as other:
        assert await one.lock(b"ann", HOUR)
        assert not await other.lock(b"ben")
        await one.unlock(b"ann")
        assert await other.lock(b"ben")


@in_loop
async def test_tag_store_lock_renewed_by_holder_does_not_expire(backend: CloudBackend) -> None:
    async with backend.open() as store:
        assert await store.lock(b"ann", 0.01)
        assert await store.renew(b"ann", HOUR)
        await asyncio.sleep(0.03)
        assert not await store.lock(b"ben")


@in_loop
async def test_tag_store_lock_context_manager_renews_lock_until_exit(
    backend: CloudBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "_RENEWALS", HOUR / 0.05)
    async with backend.open() as store:
        renew, renewals = store.renew, 0

        async def counted(token: bytes, seconds: float) -> bool:
            nonlocal renewals
            renewals += 1
            return await renew(token, seconds)

        async def renewed() -> bool:
            return renewals > 2

        monkeypatch.setattr(store, "renew", counted)
        async with lease.locked(store, HOUR) as token:
            await eventually(renewed, True)
            assert not await store.lock(b"ben")
            await store.write(merge(1), token)
        assert await store.lock(b"ben")


@in_loop
async def test_tag_store_lock_taken_by_other_holder_cannot_be_renewed_by_previous_holder(backend: CloudBackend) -> None:
    async with backend.open() as store:
        assert await store.lock(b"ann", 0.01)
        await asyncio.sleep(0.03)
        # Expired, but no other holder has taken it.
        assert await store.renew(b"ann", 0.01)
        await asyncio.sleep(0.03)
        assert await store.lock(b"ben")
        assert not await store.renew(b"ann")
        await store.unlock(b"ben")
        assert not await store.renew(b"ann")
        assert not await store.renew(b"ben")
        assert await store.lock(b"ann")


@in_loop
async def test_tag_store_write_with_token_that_does_not_hold_lock_is_refused(backend: CloudBackend) -> None:
    async with backend.open() as store:
        with pytest.raises(Overtaken):
            await store.write(merge(1), b"ann")
        assert await store.lock(b"ann", 0.01)
        await store.write(merge(1), b"ann")
        await asyncio.sleep(0.03)
        assert await store.lock(b"ben")
        with pytest.raises(Overtaken):
            await store.write(merge(2, rows=[row("dawn", 5)]), b"ann")
        await store.unlock(b"ben")
        for token in (b"ann", b"ben"):
            with pytest.raises(Overtaken):
                await store.write(merge(2, rows=[row("dawn", 5)]), token)
        assert await store.tags([DAWN]) == {}
        assert await store.lock(b"ben")
        await store.write(merge(2, rows=[row("dawn", 5)]), b"ben")
        assert await store.tags([DAWN]) == {DAWN: row("dawn", 5)}


@pytest.mark.parametrize("step", [HOUR, -HOUR, -0.2])
@in_loop
async def test_tag_store_lock_of_dead_holder_expires_although_system_clock_is_changed(
    backend: CloudBackend, step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with backend.open() as store:
        assert await store.lock(b"ann", 0.4)
        await _step_clock(backend.name, store, step, monkeypatch)
        await eventually(lambda: store.lock(b"ben", 0.4), True)
        with pytest.raises(Overtaken):
            await store.write(merge(1), b"ann")


async def _step_clock(name: str, store: Any, step: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Step the clock by which a store's locks expire, or make it look so."""
    if name == "postgres":
        moved = "UPDATE shoal.tag_lock SET until = until - make_interval(secs => $1::double precision)"
        await store._durable().ask(moved, step)
    elif name == "dynamodb":
        monkeypatch.setattr("shoal.tagcloud.dynamodb.now_ms", lambda: int((time.time() + step) * 1000))
    elif name == "sqlite":
        monkeypatch.setattr("shoal.tagcloud.sqlite.time", SimpleNamespace(time=lambda: time.time() + step))
    else:
        store._clock = lambda: time.monotonic() + step


@pytest.mark.parametrize("difference", [HOUR, -HOUR])
@in_loop
async def test_dynamodb_tag_store_lock_is_kept_although_clocks_of_machines_differ(
    difference: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = CloudBackend("dynamodb", tmp_path)
    async with backend.open() as one, backend.open() as other:
        assert await one.lock(b"ann", 0.6)
        monkeypatch.setattr("shoal.tagcloud.dynamodb.now_ms", lambda: int((time.time() + difference) * 1000))
        for _ in range(5):
            assert not await other.lock(b"ben", 0.6)
            await asyncio.sleep(0.05)
            assert await one.renew(b"ann", 0.6)
        began = time.monotonic()
        await eventually(lambda: other.lock(b"ben", 0.6), True)
        assert time.monotonic() - began > 0.3


# Versions


@in_loop
async def test_tag_store_after_creation_returns_empty_results(backend: CloudBackend) -> None:
    async with backend.open() as store:
        assert await store.version() == 0
        assert await store.head() == Head()
        assert await store.clouds(5) == []
        assert await store.merged([increment_id(1)]) == set()
        assert await store.marks([1], 0) == {}
        assert await store.tags([DAWN]) == {}
        assert await store.authors([(DAWN, DAY, 1)]) == {}
        assert await store.author_counts([(DAWN, DAY)]) == {}
        assert await store.top(-1, 5) == []
        assert await store.scan(FIRST, 5) == []
        assert await store.rules() == {}
        assert await store.inbox(5) == []
        assert await store.waiting() == 0


@in_loop
async def test_tag_store_queries_without_keys_return_empty_results(backend: CloudBackend) -> None:
    async with backend.open() as store:
        await store.write(merge(1, rows=[row("dawn", 1)], authors={(DAWN, DAY, 1): 1}, marks={1: b"m"}))
        assert await store.tags([]) == {}
        assert await store.authors([]) == {}
        assert await store.author_counts([]) == {}
        assert await store.merged([]) == set()
        assert await store.marks([], 0) == {}
        await store.discard([])


@in_loop
async def test_tag_store_written_version_and_head_are_read_back_unchanged(backend: CloudBackend) -> None:
    async with backend.open() as store:
        merged = merge(1, cloud=b"\x00\xff", state=bytes(300))
        await store.write(merged)
        assert await store.version() == 1
        assert await store.head() == merged.head


@in_loop
async def test_tag_store_empty_cloud_is_stored(backend: CloudBackend) -> None:
    async with backend.open() as store:
        head = merge(1).head
        empty = type(head)(1, head.at, head.complete_to)
        await store.write(type(merge(1))(empty, [], {}, [], {}, 0))
        assert await store.head() == empty
        assert await store.clouds(1) == [(1, head.at, b"")]


@in_loop
async def test_tag_store_write_of_version_other_than_next_is_refused(backend: CloudBackend) -> None:
    async with backend.open() as store:
        await store.write(merge(1, rows=[row("dawn", 1)]))
        for version in (0, 1, 3):
            with pytest.raises(Overtaken):
                await store.write(
                    merge(
                        version,
                        rows=[row("dawn", 5), row("reef", 5)],
                        increments=[increment_id(5)],
                        marks={5: b"five"},
                        authors={(DAWN, DAY, 5): 5},
                        rules=[TagRule("surf", denied=True)],
                    )
                )
        assert await store.head() == merge(1).head
        assert await store.tags([DAWN, REEF]) == {DAWN: row("dawn", 1)}
        assert await store.merged([increment_id(5)]) == set()
        assert await store.marks([5], 0) == {}
        assert await store.authors([(DAWN, DAY, 5)]) == {}
        assert await store.rules() == {}


@in_loop
async def test_tag_store_concurrent_writes_of_same_version_succeed_once(durable: CloudBackend) -> None:
    async with durable.open() as one, durable.open() as other:
        for version in range(1, 6):
            mine, yours = (
                merge(version, rows=[row(name, version)], increments=[name.encode() * 4], cloud=name.encode())
                for name in ("dawn", "reef")
            )
            said = await asyncio.gather(one.write(mine), other.write(yours), return_exceptions=True)
            assert sorted(type(answer).__name__ for answer in said) == ["NoneType", "Overtaken"]
            won, lost = (mine, yours) if said[0] is None else (yours, mine)
            assert await one.head() == await other.head() == won.head
            assert (await one.tags([won.rows[0].id]))[won.rows[0].id].n == version
            found = await one.tags([lost.rows[0].id])
            assert not found or found[lost.rows[0].id].n < version


@in_loop
async def test_tag_store_clouds_are_returned_newest_first(backend: CloudBackend) -> None:
    async with backend.open() as store:
        for version in range(1, 4):
            await store.write(merge(version))
        assert await store.clouds(2) == [(3, AT + 3, b"cloud 3"), (2, AT + 2, b"cloud 2")]
        assert [version for version, *_ in await store.clouds(10)] == [3, 2, 1]
        assert await store.clouds(0) == []


@in_loop
async def test_tag_store_keeps_limited_number_of_clouds(backend: CloudBackend) -> None:
    async with backend.open() as store:
        for version in range(1, KEEP_CLOUDS + 4):
            await store.write(merge(version))
        assert [version for version, *_ in await store.clouds(1_000)] == list(range(KEEP_CLOUDS + 3, 3, -1))


@in_loop
async def test_tag_store_data_survives_reopening(durable: CloudBackend) -> None:
    async with durable.open() as store:
        await store.write(large(1, TAGS))
        await store.put(increment_id(9), b"nine")
    async with durable.open() as store:
        assert await whole(store, TAGS) == 1
        assert await store.inbox(5) == [(increment_id(9), b"nine")]
        await store.write(large(2, TAGS))
        assert await whole(store, TAGS) == 2


@in_loop
async def test_tag_store_stores_version_with_thousands_of_tags(backend: CloudBackend) -> None:
    # The local DynamoDB is slow; this number still exceeds a page, a request and a slice of an intent.
    tags = 6_000 if backend.name == "dynamodb" and not DEEP else 20_000
    async with backend.open() as store:
        await store.write(large(1, tags))
        assert await whole(store, tags) == 1


# Tags


@in_loop
async def test_tag_store_tag_row_round_trips(backend: CloudBackend) -> None:
    full = row(
        "dawn",
        3,
        (AT, AT - 5 * HOUR_MS),
        forms={"Dawn": 2, "DÄWN ☂": -1},
        days={DAY: Day(3, 2, 2), DAY - 1: Day(-1, 0, 0)},
    )
    async with backend.open() as store:
        await store.write(merge(1, rows=[full]))
        assert await store.tags([DAWN, REEF]) == {DAWN: full}
        await store.write(merge(2, rows=[row("dawn", 4, (AT,))]))
        assert await store.tags([DAWN]) == {DAWN: row("dawn", 4, (AT,))}


@in_loop
async def test_tag_store_negative_counts_and_weights_are_stored(backend: CloudBackend) -> None:
    async with backend.open() as store:
        below = row("dawn", -(2**40), forms={"dawn": -3}, days={DAY: Day(-1, -1, 0)})
        cold = type(below)(REEF, "reef", 0, (Heat(-0.5, 3), Heat(-1.5e-5, -70_000), Heat(2.0**52, 2**40)))
        await store.write(merge(1, rows=[below, cold], authors={(DAWN, DAY, 1): -2}))
        assert await store.tags([DAWN, REEF]) == {DAWN: below, REEF: cold}
        assert await store.authors([(DAWN, DAY, 1)]) == {(DAWN, DAY, 1): -2}


@in_loop
async def test_tag_store_deletes_tag_without_uses_or_pending_spellings(backend: CloudBackend) -> None:
    async with backend.open() as store:
        await store.write(merge(1, rows=[row("dawn", 1), row("reef", 2), row("surf", 0)]))
        assert (await store.tags([DAWN, REEF, SURF])).keys() == {DAWN, REEF}
        # Not blank: the row has pending forms.
        kept = row("reef", 0, forms={"Reef": 1, "reef": -1})
        await store.write(merge(2, rows=[row("dawn", 0), kept]))
        assert await store.tags([DAWN, REEF]) == {REEF: kept}
        assert await store.scan(FIRST, 10) == [kept]
        await store.write(merge(3, rows=[row("dawn", 7)]))
        assert await store.tags([DAWN]) == {DAWN: row("dawn", 7)}


@in_loop
async def test_tag_store_scan_is_sorted_by_id_and_paginated(backend: CloudBackend) -> None:
    rows = sorted((row(f"tag{number}", number) for number in range(1, 60)), key=lambda found: found.id)
    async with backend.open() as store:
        await store.write(merge(1, rows=random.Random(1).sample(rows, len(rows))))
        found = []
        after = FIRST
        while page := await store.scan(after, 7):
            assert len(page) <= 7
            found += page
            after = page[-1].id
        assert found == rows
        assert await store.scan(rows[10].id, 3) == rows[11:14]
        assert await store.scan(rows[10].id - 1, 1) == [rows[10]]


@in_loop
async def test_tag_store_top_tags_are_sorted_by_use_count_or_warmth_and_then_by_id(backend: CloudBackend) -> None:
    names = [f"tag{number}" for number in range(30)]
    rows = [
        row(name, number // 3 - 2, [AT - number // 4 * HOUR_MS] * (number % 3)) for number, name in enumerate(names)
    ]
    async with backend.open() as store:
        await store.write(merge(1, rows=rows))
        there = [found for found in rows if not found.blank]
        for window in (-1, IN_AN_HOUR, IN_A_DAY, IN_A_WEEK):
            ordered = sorted(there, key=lambda found: (-found.n if window < 0 else -found.heats[window].rank, found.id))
            for limit in (1, 7, len(there), 1_000):
                assert await store.top(window, limit) == ordered[:limit], (window, limit)


# Authors


@in_loop
async def test_tag_store_authors_are_stored_by_tag_day_and_member(backend: CloudBackend) -> None:
    authors = {(DAWN, DAY, 1): 3, (DAWN, DAY, 2**62): 1, (DAWN, DAY - 1, 1): 4, (REEF, DAY, 1): 5}
    async with backend.open() as store:
        await store.write(merge(1, authors={**authors, (REEF, DAY, 9): 0}))
        assert await store.authors([*authors, (REEF, DAY, 9), (SURF, DAY, 1)]) == authors
        await store.write(merge(2, authors={(DAWN, DAY, 1): 0, (REEF, DAY, 1): 6}))
        assert await store.authors([*authors]) == {(DAWN, DAY, 2**62): 1, (DAWN, DAY - 1, 1): 4, (REEF, DAY, 1): 6}


@in_loop
async def test_tag_store_author_counts_include_all_authors_of_tag_and_day(backend: CloudBackend) -> None:
    authors = {(tag, day, member): member for tag in (DAWN, REEF) for day in (DAY - 1, DAY) for member in range(1, 40)}
    async with backend.open() as store:
        await store.write(merge(1, authors=authors))
        wanted = [(DAWN, DAY), (REEF, DAY - 1), (SURF, DAY)]
        author_counts = {key: n for key, n in authors.items() if key[:2] in wanted}
        assert await store.author_counts(wanted) == author_counts


@in_loop
async def test_tag_store_merge_deletes_tag_authors_of_days_before_given_day(backend: CloudBackend) -> None:
    authors = {(DAWN, DAY + by, 1): 5 + by for by in range(-3, 1)}
    async with backend.open() as store:
        await store.write(merge(1, authors=authors, before_day=DAY - 2))
        kept = {key: n for key, n in authors.items() if key[1] >= DAY - 2}
        assert await store.authors([*authors]) == kept
        await store.write(merge(2, before_day=DAY))
        for _ in range(3):
            assert await store.authors([*authors]) == {(DAWN, DAY, 1): 5}
            assert await store.author_counts([key[:2] for key in authors]) == {(DAWN, DAY, 1): 5}
            await store.write(merge(await store.version() + 1, before_day=DAY))


# What versions contain


@in_loop
async def test_tag_store_identifiers_of_uses_merged_after_given_version_are_returned_by_bucket(
    backend: CloudBackend,
) -> None:
    async with backend.open() as store:
        await store.write(merge(1, marks={5: b"five of 1", 6: b"six of 1"}))
        await store.write(merge(2, marks={5: b"five of 2"}))
        await store.write(merge(3, marks={7: b"seven" * 100_000}))
        assert await store.marks([5, 6, 8], 0) == {5: [b"five of 1", b"five of 2"], 6: [b"six of 1"]}
        assert await store.marks([5, 6], 1) == {5: [b"five of 2"]}
        assert await store.marks([5, 6, 7], 2) == {7: [b"seven" * 100_000]}
        assert await store.marks([5, 6, 7], 3) == {}


@in_loop
async def test_tag_store_merged_query_returns_only_ids_of_merged_increments(backend: CloudBackend) -> None:
    ids = [increment_id(number) for number in range(300)]
    async with backend.open() as store:
        await store.write(merge(1, increments=ids[:200]))
        await store.write(merge(2, increments=ids[150:250]))
        assert await store.merged(ids) == set(ids[:250])
        assert await store.merged(ids[240:260]) == set(ids[240:250])


@in_loop
async def test_tag_store_deletes_merged_increments_after_retention(backend: CloudBackend) -> None:
    ids = [increment_id(number) for number in range(3)]
    async with backend.open() as store:
        await store.write(merge(1, increments=[ids[0]], at=AT))
        await store.write(merge(2, increments=[ids[1]], at=AT + 10 * DAY_MS))
        await store.write(merge(3, increments=[ids[2]], at=AT + KEEP_INCREMENTS_MS))
        assert await store.merged(ids) == set(ids)
        await store.write(merge(4, at=AT + KEEP_INCREMENTS_MS + 1))
        assert await store.merged(ids) == set(ids[1:])


@in_loop
async def test_tag_store_rules_are_kept_until_reset(backend: CloudBackend) -> None:
    async with backend.open() as store:
        await store.write(
            merge(1, rules=[TagRule("dawn", denied=True), TagRule("ریف", target="reef"), TagRule("surf")])
        )
        assert await store.rules() == {"dawn": TagRule("dawn", denied=True), "ریف": TagRule("ریف", target="reef")}
        await store.write(merge(2, rules=[TagRule("dawn"), TagRule("ریف", denied=True, target="surf")]))
        assert await store.rules() == {"ریف": TagRule("ریف", denied=True, target="surf")}


# The inbox


@in_loop
async def test_tag_store_inbox_returns_oldest_increments_first(backend: CloudBackend) -> None:
    async with backend.open() as store:
        for number in range(10):
            await store.put(increment_id(number), b"%d" % number)
        await store.put(increment_id(3), b"another body")
        assert await store.waiting() == 10
        assert await store.inbox(4) == [(increment_id(number), b"%d" % number) for number in range(4)]
        assert len(await store.inbox(100)) == 10


@in_loop
async def test_tag_store_discarded_increments_are_deleted_from_inbox(backend: CloudBackend) -> None:
    async with backend.open() as store:
        for number in range(4):
            await store.put(increment_id(number), b"body")
        await store.discard([increment_id(0), increment_id(2), increment_id(77)])
        assert [id_ for id_, _ in await store.inbox(10)] == [increment_id(1), increment_id(3)]
        assert await store.waiting() == 2


@in_loop
async def test_tag_store_merge_removes_merged_increments_from_inbox(backend: CloudBackend) -> None:
    async with backend.open() as store:
        for number in range(4):
            await store.put(increment_id(number), b"body")
        await store.write(merge(1, increments=[increment_id(0), increment_id(2), increment_id(77)]))
        assert [id_ for id_, _ in await store.inbox(10)] == [increment_id(1), increment_id(3)]
        # The increment may arrive again; the store knows that it is merged.
        await store.put(increment_id(0), b"body")
        assert await store.waiting() == 3


@in_loop
async def test_tag_store_inbox_accepts_large_increments(backend: CloudBackend) -> None:
    async with backend.open() as store:
        bodies = {increment_id(number): bytes([number]) * 700_000 for number in range(3)}
        for id_, body in bodies.items():
            await store.put(id_, body)
        assert await store.inbox(10) == list(bodies.items())
        await store.write(merge(1, increments=[increment_id(0)]))
        await store.discard([increment_id(1)])
        assert await store.inbox(10) == [(increment_id(2), bodies[increment_id(2)])]
        await store.put(increment_id(0), b"small")
        assert dict(await store.inbox(10))[increment_id(0)] == b"small"


# Crashes


@pytest.mark.parametrize("steps", [3, 6, 9, 12])
@in_loop
async def test_tag_store_version_is_atomic_when_writer_crashes_at_given_step(durable: CloudBackend, steps: int) -> None:
    child = await _writing(durable, steps)
    said, _ = await child.communicate()
    assert child.returncode == -signal.SIGKILL
    assert await _found(durable, said) in {1, 2}


@pytest.mark.parametrize("seed", range(2))
@in_loop
async def test_tag_store_version_is_atomic_when_writer_is_killed_at_random_time(
    durable: CloudBackend, seed: int
) -> None:
    """The child writes one version after the other."""
    chance = random.Random(seed)
    child = await _writing(durable, 0)
    assert child.stdout is not None
    said = [await child.stdout.readline() for _ in range(chance.randint(1, 4))]
    await asyncio.sleep(chance.uniform(0.0, 0.03))
    child.send_signal(signal.SIGKILL)
    said.append(await child.stdout.read())
    await child.wait()
    await _found(durable, b"".join(said))


async def _writing(durable: CloudBackend, steps: int) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "tests.tagcloud.store_writer", durable.name, await durable.url(), str(TAGS)]
    return await asyncio.create_subprocess_exec(*command, str(steps), stdout=asyncio.subprocess.PIPE)


async def _found(durable: CloudBackend, said: bytes) -> int:
    """The stored version after the crash of a writer that reported `said`; this version and the next one are complete."""
    last = max(map(int, said.split()))
    async with durable.open() as store:
        # The crashed writer holds the lock until it expires, except on SQLite, where there are no other processes.
        assert await store.lock(b"looks") is (durable.name == "sqlite")
        await store.unlock(b"writes")
        version = await whole(store, TAGS)
        assert version in {last, last + 1}
        await store.write(large(version + 1, TAGS))
        assert await whole(store, TAGS) == version + 1
    return version
