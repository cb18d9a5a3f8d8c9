"""A counterpart of `commit_process` for a PostgreSQL store. Arguments: the URL of the store and the number of the round."""

from __future__ import annotations

import asyncio
import os
import sys
from itertools import count

from shoal.core.errors import Unavailable
from shoal.graph.postgres import PostgresGraph
from tests.graph.commit_process import ROUND, batch_of
from tests.stores import id_on


async def main(url: str, round_: int) -> None:
    graph = await PostgresGraph.open(url)
    numbers = count(round_ * ROUND + 5)

    async def write() -> None:
        for n in numbers:
            post = id_on(0, n)
            await graph.commit(batch_of(post, n))
            os.write(1, b"%d\n" % post)

    try:
        await asyncio.gather(*[write() for _ in range(8)])
    except Unavailable:
        # The test killed the server before this process.
        await graph.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
