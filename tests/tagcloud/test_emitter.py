"""Sending intervals of a tag emitter: short at low load, longer under load."""

from __future__ import annotations

import asyncio

from shoal.tagcloud.collection import Emitter
from shoal.tagcloud.contract import TagChange, Use, decode
from tests.async_runner import in_loop


class Sent:
    """A transport that records the number of uses of each increment."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    async def send(self, _id: bytes, body: bytes) -> None:
        self.sizes.append(len(decode(body).uses))


def count(emitter: Emitter, uses: int) -> asyncio.Future[None]:
    """Count a number of posts with a tag."""
    done = [emitter.count(Use(number + 1, 1, 7, 0, 0, (TagChange("dawn", "dawn", 1),))) for number in range(uses)]
    return done[-1]


@in_loop
async def test_tag_emitter_after_large_increment_waits_and_combines_later_uses() -> None:
    sent = Sent()
    emitter = Emitter(sent.send, seconds=0.0, busy_seconds=3_600.0)
    await count(emitter, 21)
    waiting = count(emitter, 5)
    # An emitter without a wait sends in between.
    await count(Emitter(sent.send, seconds=0.0), 1)
    assert not waiting.done()
    count(emitter, 4)
    await emitter.flush()
    assert waiting.done()
    # That increment was small: the load is over.
    await count(emitter, 1)
    assert sent.sizes == [21, 1, 9, 1]


@in_loop
async def test_tag_emitter_full_increment_is_sent_immediately_under_load() -> None:
    sent = Sent()
    emitter = Emitter(sent.send, seconds=0.0, busy_seconds=3_600.0, changes=30)
    await count(emitter, 30)
    await count(emitter, 30)
    assert sent.sizes == [30, 30]
