"""A counterpart of `commit_process` for a DynamoDB store. Arguments: the URL of the table and the number of the round.

The clock of this process is an hour off in every second round.
"""

from __future__ import annotations

import asyncio
import os
import sys
from itertools import count
from unittest.mock import patch

from shoal.core.ids import now_ms
from shoal.graph.dynamodb import DynamoGraph, store
from tests.graph.commit_process import ROUND, batch_of
from tests.stores import id_on


async def main(url: str, round_: int) -> None:
    graph = await DynamoGraph.open(url)
    numbers = count(round_ * ROUND + 5)

    async def write() -> None:
        for n in numbers:
            post = id_on(0, n)
            await graph.commit(batch_of(post, n))
            os.write(1, b"%d\n" % post)

    with patch.object(store, "now_ms", lambda: now_ms() - round_ % 2 * 3_600_000):
        await asyncio.gather(*[write() for _ in range(8)])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
