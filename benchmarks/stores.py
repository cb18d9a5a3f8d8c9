"""SQLite stores of any size, built in seconds: rows are written directly into the tables of `shoal.graph.sql`, in key order.

Ids are computed from positions, so a store built in an earlier run needs no separate index.
"""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shoal.core.ids import EPOCH_MS, compose, shard_of
from shoal.core.model import Member, Post
from shoal.core.placement import place
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, LIKED_BY, POSTED, encode_node, user_name_key
from shoal.graph.sqlite import sql
from shoal.graph.sqlite.migrations import migrate
from shoal.graph.sqlite.store import PAGE_BYTES

Ints = NDArray[np.int64]

REAL_POSTS = 26_293
REAL_AUTHORS = 5_082
_POSTS_FROM_MS = EPOCH_MS + 30 * 86_400_000
_FOLLOWS_FROM = 1 << 50
_TEXT = "Low tide, number {}: the boats lie on the sand and wait, and the light goes gray over the harbour wall at six."


def member_id(index: int, name: str) -> int:
    return compose(EPOCH_MS + 10 * (index + 1), place(name).shard)


def numbered(count: int) -> list[str]:
    return [f"member_{index}" for index in range(count)]


def ids_of(names: Sequence[str]) -> Ints:
    return np.array([member_id(index, name) for index, name in enumerate(names)], np.int64)


def url_of(path: Path) -> str:
    return f"sqlite:///{path.absolute()}"


def post_id(index: int, author: int) -> int:
    """Return the id of the post at a position, on its author's shard; one post is written every 10 milliseconds."""
    return compose(_POSTS_FROM_MS + 10 * index, shard_of(author))


def plain_post(index: int, id_: int, author: int) -> Post:
    return Post(id=id_, author_id=author, text=_TEXT.format(index))


def build(
    path: Path,
    names: Sequence[str],
    follows: Ints,
    authors: Ints,
    *,
    make_post: Callable[[int, int, int], Post] = plain_post,
) -> None:
    """Write a whole store: members, `follows` (rows of follower and followee positions), and a post by each of `authors`.

    `make_post` returns the post with a position, id and author. Do nothing if the file exists.
    """
    if path.exists():
        return
    half = path.with_suffix(".half")
    half.unlink(missing_ok=True)
    with closing(sqlite3.connect(half, isolation_level=None)) as store:
        store.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        store.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -400000")
        migrate(store, half, sql.MIGRATIONS)
        _fill(store, names, follows, authors, make_post)
    half.rename(path)


def _fill(
    store: sqlite3.Connection,
    names: Sequence[str],
    follows: Ints,
    authors: Ints,
    make_post: Callable[[int, int, int], Post],
) -> None:
    ids = ids_of(names)
    people = [Member(id=id_, name=name) for id_, name in zip(ids.tolist(), names, strict=True)]
    written_by = ids[authors] if len(authors) else np.empty(0, np.int64)
    posts = np.array([post_id(index, author) for index, author in enumerate(written_by.tolist())], np.int64)
    followers, followees = ids[follows[:, 0]], ids[follows[:, 1]]
    times = _FOLLOWS_FROM + np.arange(len(follows), dtype=np.int64)
    links = np.concatenate(
        (
            _links(followers, FOLLOWS.number, followees, times),
            _links(followees, FOLLOWED_BY.number, followers, times),
            _links(written_by, POSTED.number, posts, posts),
        )
    )
    by_time = store.execute("SELECT sql FROM sqlite_master WHERE name = 'association_listed'").fetchone()[0]
    store.execute("BEGIN")
    store.execute("DROP INDEX association_listed")
    store.executemany("INSERT INTO object VALUES (?, 1, ?)", _objects(people, posts, written_by, make_post))
    store.executemany("INSERT INTO association VALUES (?, ?, ?, ?, 1, x'')", _rows(_with_twins(links), (2, 1, 0)))
    store.execute("UPDATE association SET alive = ? WHERE atype = ?", (sql.IN_PLACE, POSTED.number))
    # Every third post is liked, so that pages have counts to show.
    liked = np.column_stack((posts, np.full(len(posts), LIKED_BY.number), np.full(len(posts), 7)))[::3]
    counts = np.concatenate((_counts(links), liked))
    store.executemany(sql.COUNT_SET, _rows(counts, (1, 0)))
    keys = sorted((user_name_key(name).space, name, int(id_)) for name, id_ in zip(names, ids, strict=True))
    store.executemany("INSERT INTO key VALUES (?, ?, ?, 0)", keys)
    store.execute(by_time)
    store.execute("DELETE FROM association WHERE id2 < 0")
    store.execute("COMMIT")


def _links(id1: Ints, atype: int, id2: Ints, times: Ints) -> Ints:
    return np.column_stack((id1, np.full(len(id1), atype), id2, times)).astype(np.int64)


def _with_twins(links: Ints) -> Ints:
    """Duplicate every third association under an id that is deleted after the index was built.

    A table that is written in order has full pages, so the first new row of a page splits it; a table that has grown has free space
    on most pages.
    """
    twins = links[::3].copy()
    twins[:, 2] = -1 - np.arange(len(twins))
    return np.concatenate((links, twins))


def _counts(links: Ints) -> Ints:
    pairs, numbers = np.unique(links[:, :2], axis=0, return_counts=True)
    return np.column_stack((pairs, numbers))


def _rows(table: Ints, keys: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Return rows ordered by the columns `keys`, the last one first."""
    ordered = table[np.lexsort([table[:, key] for key in keys])]
    for first in range(0, len(ordered), 50_000):
        yield from map(tuple, ordered[first : first + 50_000].tolist())


def _objects(
    people: Iterable[Member], posts: Ints, authors: Ints, make_post: Callable[[int, int, int], Post]
) -> Iterator[tuple[int, bytes]]:
    """Return members and posts in id order: members joined before the first post, apart from adjacent ones."""
    for person in people:
        yield person.id, encode_node(person)
    for index, (id_, author) in enumerate(zip(posts.tolist(), authors.tolist(), strict=True)):
        yield id_, encode_node(make_post(index, id_, author))


def real_graph(data: Path) -> tuple[list[str], Ints]:
    """Return the names and directed follows of the 37,700 GitHub developers, or a power law of that size if they are absent."""
    nodes, edges = data / "graph" / "nodes.csv", data / "graph" / "edges.csv"
    if not nodes.exists() or not edges.exists():
        print(f"{data} is absent: a made-up power law of the same size stands in for it")
        return numbered(37_700), power_law(37_700, 289_003)
    with nodes.open(encoding="utf-8", newline="") as rows:
        names = [row["name"].lower().replace("-", "_") for row in csv.DictReader(rows)]
    pairs = np.loadtxt(edges, np.int64, delimiter=",", skiprows=1)
    return names, np.concatenate((pairs, pairs[:, ::-1]))


def power_law(members: int, edges: int, seed: int = 3) -> Ints:
    """Return mutual follows with a power law of degrees, as rows of follower and followee in both directions."""
    rng = np.random.default_rng(seed)
    weights = (np.arange(members) + 1.0) ** -0.75
    ends = rng.choice(members, (edges + edges // 2, 2), p=weights / weights.sum())
    ends = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)
    pairs = ends[rng.permutation(len(ends))[:edges]].astype(np.int64)
    return np.concatenate((pairs, pairs[:, ::-1]))


def real_authors(members: int, follows: Ints, posts: int = REAL_POSTS, authors: int = REAL_AUTHORS) -> Ints:
    """Return an author for each post, chosen at random from the best-connected members."""
    degrees = np.bincount(follows[:, 1], minlength=members)
    best = np.argsort(-degrees, kind="stable")[: min(authors, members)]
    return np.random.default_rng(4).choice(best, posts).astype(np.int64)
