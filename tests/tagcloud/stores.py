"""The tag cloud stores on which contract suites run, and merges to write to them."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from shoal.graph.schema import tag_id
from shoal.tagcloud.contract import DAY_MS, AuthorKey, CloudStore, Day, Head, Merge, TagRow, TagRule
from shoal.tagcloud.dynamodb import DynamoCloud
from shoal.tagcloud.heat import Heat
from shoal.tagcloud.memory import MemoryCloud
from shoal.tagcloud.postgres import PostgresCloud
from shoal.tagcloud.sqlite import SqliteCloud
from tests.engines import dynamodb, postgres
from tests.tagcloud.recount import heated

CLOUDS = ["memory", "sqlite", "postgres", "dynamodb"]
DURABLE_CLOUDS = CLOUDS[1:]
DAY = 20_500
AT = DAY * DAY_MS
FIRST = -(2**63)


class CloudBackend:
    """A store of a contract suite. It can be opened repeatedly and concurrently, and a durable store keeps its data."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._url = str(folder / "shoal.db.tags")
        self._is_new = True

    async def url(self) -> str:
        """Return the URL or path of the store, to open it elsewhere."""
        if self._is_new and self.name != "sqlite":
            self._url = await postgres.database(self) if self.name == "postgres" else dynamodb.new_table()
        self._is_new = False
        return self._url

    @asynccontextmanager
    async def open(self) -> AsyncIterator[CloudStore]:
        store = MemoryCloud() if self.name == "memory" else await opened(self.name, await self.url())
        try:
            yield store
        finally:
            await store.close()


async def opened(name: str, url: str) -> CloudStore:
    """Open a durable store."""
    if name == "sqlite":
        return await SqliteCloud.open(Path(url))
    if name == "postgres":
        return await PostgresCloud.open(url, patience=postgres.PATIENT_SECONDS)
    return await DynamoCloud.open(url, patience=dynamodb.PATIENT_SECONDS)


def increment_id(number: int) -> bytes:
    """Return the id of the n-th increment."""
    return hashlib.md5(b"%d" % number, usedforsecurity=False).digest()


def row(name: str, n: int = 0, uses: Sequence[int] = (), **more: Any) -> TagRow:
    """Return a tag with uses at these times (Unix ms) and a total of `n`."""
    heats = [Heat(), Heat(), Heat()]
    for written in uses:
        heats = [heated(heat, window, written, 1) for window, heat in enumerate(heats)]
    return TagRow(tag_id(name), name, n, (heats[0], heats[1], heats[2]), **more)


def merge(
    version: int,
    *,
    rows: Sequence[TagRow] = (),
    authors: Mapping[AuthorKey, int] | None = None,
    increments: Sequence[bytes] = (),
    marks: Mapping[int, bytes] | None = None,
    rules: Sequence[TagRule] = (),
    before_day: int = 0,
    at: int = 0,
    cloud: bytes = b"",
    state: bytes = b"",
) -> Merge:
    """Return a merge with these changes. By default, its cloud and state contain the number of the version."""
    at = at or AT + version
    head = Head(version, at, at - 1, cloud or b"cloud %d" % version, state or b"state %d" % version)
    return Merge(head, increments, marks or {}, rows, authors or {}, before_day, rules)


_names = functools.cache(lambda tags: {f"tag{number}": tag_id(f"tag{number}") for number in range(tags)})


@functools.lru_cache(maxsize=4)
def large(version: int, tags: int) -> Merge:
    """Return a merge in which each of `tags` tags has `version` uses. For every fifth tag, one member made them on one day."""
    names = _names(tags)
    blob = min(300_000, 1_500 * tags)
    return merge(
        version,
        rows=[row(name, version, (AT,), forms={name: version}, days={DAY: Day(version, 1, version)}) for name in names],
        authors={(id_, DAY, 7): version for id_ in list(names.values())[::5]},
        increments=[increment_id(version)],
        marks={version: b"mark of 12 b" * 50},
        rules=[TagRule("salt", target=f"tag{version}")],
        cloud=b"c" * blob + b"%d" % version,
        state=b"s" * blob + b"%d" % version,
    )


async def whole(store: CloudStore, tags: int) -> int:
    """Return the version of a store written by `large` merges. Asserts that the version is complete, without parts of the next."""
    assert await store.lock(b"looks")
    version = await store.version()
    head = await store.head()
    wanted = large(version, tags) if version else None
    assert head == (wanted.head if wanted else Head())
    rows = {found.id: found for found in (wanted.rows if wanted else ())}
    assert await store.tags(_names(tags).values()) == rows
    assert {found.id: found for found in await store.scan(FIRST, 10 * tags)} == rows
    authors = wanted.authors if wanted else {}
    assert await store.authors([(id_, DAY, 7) for id_ in _names(tags).values()]) == authors
    assert await store.marks(range(version + 2), 0) == {
        number: [b"mark of 12 b" * 50] for number in range(1, version + 1)
    }
    merged = await store.merged([increment_id(number) for number in range(version + 2)])
    assert merged == {increment_id(number) for number in range(1, version + 1)}
    assert await store.rules() == ({"salt": TagRule("salt", target=f"tag{version}")} if version else {})
    assert [found[0] for found in await store.clouds(10)] == list(range(version, max(0, version - 10), -1))
    await store.unlock(b"looks")
    return version
