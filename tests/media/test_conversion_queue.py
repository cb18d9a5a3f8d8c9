"""The media conversion queue runs one background job after another and starts no job twice."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import cast

import pytest

from shoal.core.errors import NotYet, Unavailable
from shoal.media.library import MediaLibrary, Workshop


def workshop() -> Workshop:
    """Return a conversion queue without a media library."""
    return Workshop(cast("MediaLibrary", None))


def test_conversion_queue_joins_equal_jobs_and_defers_further_jobs_of_the_member() -> None:
    async def story() -> None:
        begun: list[int] = []
        go_on = asyncio.Event()

        async def work() -> None:
            begun.append(1)
            await go_on.wait()

        room = workshop()
        first, second = room.begin(7, 1, work), room.begin(7, 1, work)
        await asyncio.sleep(0)
        with pytest.raises(NotYet):
            room.begin(8, 1, work)
        go_on.set()
        await asyncio.gather(first, second)
        assert begun == [1]
        await room.begin(8, 1, work)
        assert begun == [1, 1]

    asyncio.run(story())


def test_conversion_queue_propagates_job_errors_to_waiters() -> None:
    async def story() -> None:
        async def work() -> None:
            raise ValueError("broken")

        room = workshop()
        with pytest.raises(ValueError, match="broken"):
            await room.begin(7, 1, work)

    asyncio.run(story())


def test_conversion_queue_close_fails_pending_jobs_as_unavailable() -> None:
    async def story() -> None:
        async def work() -> None:
            await asyncio.sleep(60)

        room = workshop()
        waiting = room.begin(7, 1, work)
        await asyncio.sleep(0)
        await room.close()
        with pytest.raises(Unavailable):
            await waiting
        with pytest.raises(Unavailable):
            room.begin(8, 1, work)

    asyncio.run(story())


def test_conversion_queue_is_fair_between_members() -> None:
    async def story() -> None:
        begun: list[int] = []
        go_on = asyncio.Event()

        async def work(number: int) -> None:
            begun.append(number)
            await go_on.wait()

        room = workshop()
        jobs = [(number, 1) for number in range(10)] + [(20, 2), (21, 2), (30, 3)]
        while jobs:
            # Like the outbox, retry all deferred jobs, oldest first.
            go_on.clear()
            going = []
            for number, member in jobs:
                with contextlib.suppress(NotYet):
                    going.append(room.begin(number, member, partial(work, number)))
            go_on.set()
            await asyncio.gather(*going)
            jobs = [(number, member) for number, member in jobs if number not in begun]
        assert begun == [0, 20, 30, 1, 21, *range(2, 10)]

    asyncio.run(story())


def test_conversion_queue_reservation_of_job_that_does_not_retry_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async def work() -> None:
            await asyncio.sleep(0)

        clock = 100.0
        monkeypatch.setattr("shoal.media.library.time.monotonic", lambda: clock)
        room = workshop()
        first = room.begin(1, 1, work)
        with pytest.raises(NotYet):
            room.begin(2, 2, work)
        await first
        with pytest.raises(NotYet):
            room.begin(3, 1, work)
        clock += 6
        await room.begin(3, 1, work)

    asyncio.run(story())
