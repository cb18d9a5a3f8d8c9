"""Processes that a test can kill or stop: a mover, a writer and a reader.

python -m tests.ops.shard_move_processes mover STORE VERB SOURCES TARGET PHASE    kills itself (-9) when it reaches the phase
python -m tests.ops.shard_move_processes writer STORE FIRST SOURCES       prints each acknowledged post and its commit duration
python -m tests.ops.shard_move_processes reader STORE ID                  prints the time of each read of an object, and its version
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

from shoal.core.ids import shard_of
from shoal.core.model import Post
from shoal.graph.contract import Batch
from shoal.graph.schema import LIKES, POSTED
from shoal.graph.shard_map import parse_shards
from tests.engines.patience import be_patient
from tests.ops.shard_move_network import member_on, mover, process
from tests.stores import id_on, moment


def store_of(text: str) -> Any:
    """Return a store URL unchanged, or parse a shard map from JSON."""
    return json.loads(text) if text.startswith("{") else text


async def move(store: str, verb: str, sources: str, target: str, phase: str) -> None:
    def tell(now: str, _done: int, _total: int) -> None:
        if now == phase:
            os.kill(os.getpid(), signal.SIGKILL)

    async with mover(store_of(store), tell) as opened:
        if verb == "move":
            await opened.move(parse_shards(sources), target)
        elif verb == "rollback":
            await opened.rollback(parse_shards(sources))
        else:
            await opened.finish(parse_shards(sources))


async def write(store: str, first: str, sources: str) -> None:
    numbers = count(int(first))
    places = sorted({shard // 128 for shard in parse_shards(sources)})
    async with process(store_of(store)) as graph:

        async def posts() -> None:
            for n in numbers:
                source = places[n % len(places)]
                author, post = member_on(source), id_on(source, n)
                batch = Batch(shard_of(author))
                batch.obj_add(Post(id=post, author_id=author, text=str(n)))
                batch.assoc_add(author, POSTED, post, post)
                batch.assoc_add(author, LIKES, id_on(places[-1], 1), moment(n), aggregate_id=member_on(places[-1]))
                began = asyncio.get_running_loop().time()
                await graph.commit(batch)
                print(post, asyncio.get_running_loop().time() - began, flush=True)  # noqa: T201

        await asyncio.gather(*[posts() for _ in range(4)])


async def read(store: str, id_: str) -> None:
    async with process(store_of(store)) as graph:
        while True:
            began = time.monotonic()
            version = (await graph.obj_get([int(id_)]))[int(id_)].version
            print(began, version, flush=True)  # noqa: T201
            await asyncio.sleep(0.001)


if __name__ == "__main__":
    verb, *arguments = sys.argv[1:]
    be_patient()
    VERBS: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {"mover": move, "writer": write, "reader": read}
    asyncio.run(VERBS[verb](*arguments))
