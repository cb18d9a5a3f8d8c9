"""`shoal.cli`, but bulk actions become slow after SLOW_AFTER changed posts, so that a test can kill the server before they end."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from shoal.cli.group import main
from shoal.consumers import bulk_moderation
from shoal.graph.payloads.moderation import mark, unmark

_SECONDS = 1.0
"""Pause before each further post."""
_left = int(os.environ["SLOW_AFTER"])
_one_at_a_time = asyncio.Lock()
_step = bulk_moderation._step


async def _slow_step(*args: Any) -> None:
    if _left <= 0:
        async with _one_at_a_time:
            await asyncio.sleep(_SECONDS)
    await _step(*args)


def _counted(change: Any) -> Any:
    def counted(*args: Any) -> None:
        global _left  # noqa: PLW0603
        _left -= 1
        change(*args)

    return counted


if __name__ == "__main__":
    vars(bulk_moderation).update(_step=_slow_step, mark=_counted(mark), unmark=_counted(unmark))
    main()
