"""Changes that an operator makes to the cloud (rules, and tags that were recounted), each as a version of its own.

It is decided under the lock, with the rules that hold then: so two operators at the same moment cannot contradict each other.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping

from shoal.core.errors import Unavailable
from shoal.tagcloud.contract import CloudStore, Overtaken, TagRule
from shoal.tagcloud.emitter import now_ms
from shoal.tagcloud.merger import NOTHING, SIZES, Amendment, Merger, Sizes

_TRIES = 200
_RETRY_SECONDS = 0.05

Rules = Mapping[str, TagRule]


async def amend(
    store: CloudStore,
    decide: Callable[[Rules], Amendment],
    *,
    clock: Callable[[], int] = now_ms,
    sizes: Sizes = SIZES,
) -> Amendment:
    """Write what `decide` makes of the rules that hold; `NOTHING` of it writes nothing.

    Raises what `decide` raises, and `Unavailable` when nobody gets the lock.
    """
    holder = secrets.token_bytes(16)
    for _ in range(_TRIES):
        try:
            if await store.lock(holder):
                amendment = decide(await store.rules())
                if amendment != NOTHING:
                    await Merger(store, clock, sizes).merge(await store.head(), (), amendment=amendment)
                return amendment
        except Overtaken:
            pass
        finally:
            # Also when it was given up while it asked for the lock.
            await store.unlock(holder)
        await asyncio.sleep(_RETRY_SECONDS)
    raise Unavailable("the tag cloud is busy", retry_after=1.0)
