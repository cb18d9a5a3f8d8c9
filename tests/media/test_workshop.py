"""Long work goes on beside others, one piece at a time, and is not begun twice."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from shoal.core.errors import NotYet, Unavailable
from shoal.media.library import MediaLibrary
from shoal.media.workshop import Workshop


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
        first, second = room.begin(7, work), room.begin(7, work)
        await asyncio.sleep(0)
        with pytest.raises(NotYet):
            room.begin(8, work)
        go_on.set()
        await asyncio.gather(first, second)
        assert begun == [1]
        await room.begin(8, work)
        assert begun == [1, 1]

    asyncio.run(story())


def test_who_waits_hears_that_it_failed() -> None:
    async def story() -> None:
        async def work() -> None:
            raise ValueError("broken")

        room = workshop()
        with pytest.raises(ValueError, match="broken"):
            await room.begin(7, work)

    asyncio.run(story())


def test_a_workshop_that_closes_gives_its_work_back() -> None:
    async def story() -> None:
        async def work() -> None:
            await asyncio.sleep(60)

        room = workshop()
        waiting = room.begin(7, work)
        await asyncio.sleep(0)
        await room.close()
        with pytest.raises(Unavailable):
            await waiting
        with pytest.raises(Unavailable):
            room.begin(8, work)

    asyncio.run(story())
