"""The raw engine below the store: bare SQLite with the store's tables, durability and rows, without Shoal."""

from __future__ import annotations

import itertools
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.stores import Ints
from shoal.core.events import PostCreated, encode
from shoal.core.ids import compose, shard_of
from shoal.core.model import Post
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, POSTED, encode_node
from shoal.graph.sqlite import sql

_PRAGMAS = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536"
_NOW_MS = 1_800_000_000_000


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file, with the schema of the store if it is new."""
    fresh = not path.exists()
    with closing(sqlite3.connect(path, isolation_level=None)) as store:
        store.executescript(_PRAGMAS)
        for migration in sql.MIGRATIONS if fresh else ():
            store.executescript(migration.script)
        yield store


def insert_posts(path: Path, authors: list[int], text: str, groups: list[int]) -> float:
    """Return posts per second, committed in groups of these sizes in turn.

    Each post is an object, an association, a count and an event; the next group deletes the event.
    """
    made = [compose(_NOW_MS + index, shard_of(author)) for index, author in enumerate(authors)]
    nodes = [
        (id_, 1, encode_node(Post(id=id_, author_id=author, text=text)))
        for id_, author in zip(made, authors, strict=True)
    ]
    links = [(author, POSTED.number, id_, id_, sql.IN_PLACE, b"") for id_, author in zip(made, authors, strict=True)]
    events = [
        (index, encode(PostCreated(post_id=id_, author_id=author)), _NOW_MS)
        for index, (id_, author) in enumerate(zip(made, authors, strict=True), 1 << 40)
    ]
    with opened(path) as store:

        def write(first: int, last: int) -> None:
            store.executemany("INSERT INTO object VALUES (?, ?, ?)", nodes[first:last])
            store.executemany("INSERT INTO association VALUES (?, ?, ?, ?, ?, ?)", sorted(links[first:last]))
            store.executemany(sql.COUNT_ADD.format(rows="(?, ?, 1)"), [link[:2] for link in links[first:last]])
            store.executemany(sql.OUTBOX_PUT.format(rows="(?, ?, ?)"), events[first:last])
            store.execute("DELETE FROM outbox WHERE seq < ?", (events[first][0],))

        return len(authors) / _in_groups(store, len(authors), itertools.cycle(groups), write)


def insert_follows(path: Path, follows: Ints, group: int = 10_000) -> float:
    """Return the seconds to insert follows (rows of follower and followee ids) and their inverses, in the given order."""
    links: list[tuple[int, int, int, int, int, bytes]] = []
    for moment, (follower, followee) in enumerate(follows.tolist(), 1):
        links.append((follower, FOLLOWS.number, followee, moment, 1, b""))
        links.append((followee, FOLLOWED_BY.number, follower, moment, 1, b""))
    with opened(path) as store:

        def write(first: int, last: int) -> None:
            store.executemany("INSERT INTO association VALUES (?, ?, ?, ?, ?, ?)", links[first:last])

        return _in_groups(store, len(links), itertools.repeat(group), write)


def _in_groups(store: sqlite3.Connection, rows: int, groups: Iterable[int], write: Callable[[int, int], None]) -> float:
    started = time.perf_counter()
    first = 0
    for size in groups:
        if first >= rows:
            break
        store.execute("BEGIN IMMEDIATE")
        write(first, first + size)
        store.execute("COMMIT")
        first += size
    return time.perf_counter() - started
