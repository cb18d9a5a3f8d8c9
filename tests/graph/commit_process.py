"""A process that commits until it is killed, and prints the id of each post once its commit is acknowledged.

Arguments: the path of the store, and the number of the round, which keeps ids unique.
"""

from __future__ import annotations

import asyncio
import os
import sys
from itertools import count
from pathlib import Path

from shoal.core.events import PostCreated
from shoal.core.ids import shard_of
from shoal.core.model import Post
from shoal.graph.contract import Batch
from shoal.graph.schema import FOLLOWS, POSTED, Key
from shoal.graph.sqlite import SqliteGraph
from tests.stores import ANN, id_on, moment

ROUND = 1_000_000


def batch_of(post: int, n: int) -> Batch:
    """Return a batch with an object, a key, an event and associations; it deletes the follow that batch `n - 5` adds."""
    batch = Batch(shard_of(ANN))
    batch.obj_add(Post(id=post, author_id=ANN, text=str(n)))
    batch.key_add(Key(batch.shard, "import", str(post)), post)
    batch.assoc_add(ANN, POSTED, post, post)
    batch.assoc_add(ANN, FOLLOWS, id_on(n % 64, n), moment(n))
    batch.assoc_del(ANN, FOLLOWS, id_on((n - 5) % 64, n - 5), moment(n))
    batch.emit(PostCreated(post_id=post, author_id=ANN))
    return batch


async def main(path: Path, round_: int) -> None:
    graph = await SqliteGraph.open(path)
    numbers = count(round_ * ROUND + 5)

    async def write() -> None:
        for n in numbers:
            post = id_on(0, n)
            await graph.commit(batch_of(post, n))
            os.write(1, b"%d\n" % post)

    await asyncio.gather(*[write() for _ in range(8)])


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
