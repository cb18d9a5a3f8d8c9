"""Long work goes on beside others, one piece at a time, and is not begun twice."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import cast

import pytest

from shoal.core.errors import NotYet, Unavailable
from shoal.media.library import MediaLibrary, Workshop


def workshop() -> Workshop:
    """One whose work needs no library."""
    return Workshop(cast("MediaLibrary", None))


def test_who_comes_while_it_goes_on_waits_for_the_same_and_others_for_their_turn() -> None:
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


def test_who_waits_hears_that_it_failed() -> None:
    async def story() -> None:
        async def work() -> None:
            raise ValueError("broken")

        room = workshop()
        with pytest.raises(ValueError, match="broken"):
            await room.begin(7, 1, work)

    asyncio.run(story())


def test_a_workshop_that_closes_gives_its_work_back() -> None:
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


def test_the_work_of_one_member_does_not_wait_for_all_of_another_s() -> None:
    async def story() -> None:
        begun: list[int] = []
        go_on = asyncio.Event()

        async def work(number: int) -> None:
            begun.append(number)
            await go_on.wait()

        room = workshop()
        jobs = [(number, 1) for number in range(10)] + [(20, 2), (21, 2), (30, 3)]
        while jobs:
            # As the outbox does: all that wait come again, the oldest first.
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


def test_what_does_not_come_again_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
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
