"""Tag clouds with uses that a test chooses, without a network."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from itertools import count

from shoal.core.text import canonical_tag
from shoal.tagcloud.contract import DAY_MS, Increment, TagChange, Use
from shoal.tagcloud.memory import MemoryCloud
from shoal.tagcloud.merger import Merger
from shoal.tagcloud.reader import TagCloud
from shoal.tagcloud.updates import VersionUpdates

HOUR_MS = 3_600_000
NOW = 20_500 * DAY_MS + 11 * HOUR_MS
_posts = count(1)


def use(text: str, *, author: int = 1, ago: int = 0, by: int = 1) -> Use:
    """Return the use of the tags of a text in a new post, `ago` milliseconds before `NOW`."""
    written = NOW - ago
    changes = tuple(TagChange(canonical_tag(form), form, by) for form in text.split())
    return Use(next(_posts), 1, author, written, written, changes)


def uses(text: str, times: int, *, ago: int = 0, authors: int = 1_000) -> list[Use]:
    """Return the uses of the tags of a text in `times` posts, by `authors` authors in turn."""
    return [use(text, author=1 + n % authors, ago=ago) for n in range(times)]


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now


def increment_of(some: Iterable[Use], now: int = NOW) -> Increment:
    return Increment(secrets.token_bytes(16), b"emitter", now, tuple(some))


async def count_into(
    store: MemoryCloud, more: Iterable[Use], now: int = NOW, updates: VersionUpdates | None = None
) -> None:
    """Write the next version of a cloud, with additional uses."""
    merger = Merger(store, lambda: now, updates=updates)
    await merger.merge(await store.head(), [increment_of(more, now)], complete_to=now)


async def a_cloud(more: Iterable[Use]) -> TagCloud:
    """Return a cloud of these uses, whose clock always shows `NOW`."""
    store = MemoryCloud()
    await count_into(store, more)
    return TagCloud(store, clock=lambda: NOW)
