"""`shoal` for imports that a test kills: python -m tests.ops.held_import MOST [ARGUMENT]...

The import commits at most `MOST` posts in bulk and then waits, so that it cannot finish before it is killed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from shoal.admin.imports import posts
from shoal.cli import main


def hold(most: int) -> None:
    commit = posts._commit_posts  # no public step is between two posts

    async def held(network: Any, writes: Any, jobs: Sequence[Any], *others: Any, resumed: bool) -> None:
        await commit(network, writes, jobs[:most], *others, resumed=resumed)
        await asyncio.Event().wait()

    vars(posts)["_commit_posts"] = held


if __name__ == "__main__":
    hold(int(sys.argv.pop(1)))
    main()
