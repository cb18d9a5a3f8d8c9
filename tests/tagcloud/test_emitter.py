"""When an emitter sends: soon while little is counted, and less often under load."""

from __future__ import annotations

import asyncio

from shoal.tagcloud.collection import Emitter
from shoal.tagcloud.contract import TagChange, Use, decode
from tests.running import in_loop


class Sent:
    """A transport that keeps how many uses each increment has."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    async def send(self, _id: bytes, body: bytes) -> None:
        self.sizes.append(len(decode(body).uses))


def count(emitter: Emitter, uses: int) -> asyncio.Future[None]:
    """Count so many posts with a tag."""
    done = [emitter.count(Use(number + 1, 1, 7, 0, 0, (TagChange("dawn", "dawn", 1),))) for number in range(uses)]
    return done[-1]


@in_loop
async def test_after_a_large_increment_the_next_one_gathers_more() -> None:
    sent = Sent()
    emitter = Emitter(sent.send, seconds=0.0, busy_seconds=3_600.0)
    await count(emitter, 21)
    waiting = count(emitter, 5)
    # Another one that waits for nothing has been sent meanwhile.
    await count(Emitter(sent.send, seconds=0.0), 1)
    assert not waiting.done()
    count(emitter, 4)
    await emitter.flush()
    assert waiting.done()
    # That was a small one: the load is over.
    await count(emitter, 1)
    assert sent.sizes == [21, 1, 9, 1]


@in_loop
async def test_an_increment_that_is_full_is_sent_at_once_under_load_too() -> None:
    sent = Sent()
    emitter = Emitter(sent.send, seconds=0.0, busy_seconds=3_600.0, changes=30)
    await count(emitter, 30)
    await count(emitter, 30)
    assert sent.sizes == [30, 30]
