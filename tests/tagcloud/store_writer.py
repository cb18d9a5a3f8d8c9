"""A process that writes versions until it is killed or kills itself: `python -m tests.tagcloud.store_writer KIND URL TAGS STEPS`.

It prints the number of each acknowledged version. If STEPS is not 0, it dies in version 2: before that statement on SQLite,
after that statement on PostgreSQL, after that request on DynamoDB.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from shoal.tagcloud.dynamodb import DynamoCloud
from shoal.tagcloud.sqlite import SqliteCloud
from tests.engines.dynamodb import CREDENTIALS
from tests.tagcloud.stores import large, opened


def _deadly(call: Callable[..., Awaitable[Any]], step: Callable[[], None]) -> Callable[..., Awaitable[Any]]:
    async def deadly(*args: Any, **kwargs: Any) -> Any:
        answer = await call(*args, **kwargs)
        step()
        return answer

    return deadly


def _dies_after(store: object, steps: int) -> None:
    left = steps

    def step() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    if isinstance(store, SqliteCloud):
        assert store._writing is not None
        store._writing.set_trace_callback(lambda _: step())
    elif isinstance(store, DynamoCloud):
        store._service.call = _deadly(store._service.call, step)  # type: ignore[method-assign,assignment]
    else:
        asyncpg.Connection.execute = _deadly(asyncpg.Connection.execute, step)


async def main() -> None:
    """Write versions until the process is killed."""
    kind, url, tags, steps = sys.argv[1:]
    os.environ.update(CREDENTIALS)
    store = await opened(kind, url)
    assert await store.lock(b"writes", 1_000)
    version = await store.version()
    while True:
        version += 1
        if version == 2 and int(steps):
            _dies_after(store, int(steps))
        await store.write(large(version, int(tags)))
        sys.stdout.write(f"{version}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
