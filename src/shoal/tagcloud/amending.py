"""Changes that an operator makes to the cloud (rules, and tags that were recounted), each as a version of its own.

A change is decided while the lock is held, from the rules at that moment, so two operators cannot overwrite each other.
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
    """Hand the current rules to `decide`, and write the change that it returns; `NOTHING` writes none.

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
            # Let go of the lock even when the caller was cancelled while asking for it.
            await store.unlock(holder)
        await asyncio.sleep(_RETRY_SECONDS)
    raise Unavailable("the tag cloud is busy", retry_after=1.0)
