"""Posts of a kind that match filters: the cost of a page in networks of two sizes, and the requests to DynamoDB.

The posts are recipes with a time in minutes, a cuisine and whether they are vegetarian; cuisine and minutes are a pair. The store
on SQLite, with its index, is written directly; a sample of the index is compared with what `shoal.graph.kinds` computes. Each page
of 20 posts begins after a random post, and is compared with the generated data. Times are elapsed times of calls of the library, in
a process that has read the page before (warm) or has empty caches (cold). `raw engine` is the statement that reads the newest 21
entries of the list of all recipes, and the statement that reads their objects, on a bare connection; on DynamoDB, one request for
each list that the filter reads.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.dynamodb_queries import Filled, UseCase, count
from benchmarks.measure import Report, keep_option, parser, spread, workplace
from benchmarks.stores import Ints, build, ids_of, numbered, post_id, url_of
from shoal import Shoal
from shoal.app.network import open_network
from shoal.core.kind_index import author_name, kind_name
from shoal.core.kinds import KindDraft, PostKind
from shoal.core.model import Post
from shoal.graph.contract import Cursor, Store, find_object
from shoal.graph.kinds import find_kind, index_names
from shoal.graph.schema import INDEX_OF, INDEXED, index_id
from shoal.graph.sqlite import sql
from shoal.queries.pipeline import Page
from shoal.settings import build as build_settings
from shoal_devcluster import dynamodb

_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
"""DynamoDB Local accepts any credentials."""
_MEMBERS = 1_000
_PAGE = 20
_OTHERS = 10
"""Requests for other data than lists: the kind by its name, posts, authors and counts. Posts that a list has beyond the filter make
more batches of posts."""
_VERSION = (1).to_bytes(4) + (1).to_bytes(4)
"""The data of an entry of the index: the versions of the post and of the kind."""
_NAMES = """
    italian french thai indian mexican japanese greek turkish spanish german moroccan korean vietnamese polish persian lebanese
    swedish peruvian
"""
_CUISINES = _NAMES.split()
RARE = "icelandic"
_RARE_POSTS = 25

DRAFT = KindDraft(
    name="recipe",
    schema={
        "type": "object",
        "properties": {
            "minutes": {"type": "integer"},
            "cuisine": {"type": "string"},
            "vegetarian": {"type": "boolean"},
        },
    },
    index={"minutes": "number", "cuisine": "string", "vegetarian": "boolean"},
    pairs=(("cuisine", "minutes"),),
)


class Recipes(NamedTuple):
    """The data of the generated posts, by position."""

    minutes: Ints
    cuisines: Ints
    vegetarian: NDArray[np.bool_]

    def data(self, index: int) -> dict[str, Any]:
        cuisine = int(self.cuisines[index])
        return {
            "minutes": int(self.minutes[index]),
            "cuisine": RARE if cuisine == len(_CUISINES) else _CUISINES[cuisine],
            "vegetarian": bool(self.vegetarian[index]),
        }


class Query(NamedTuple):
    name: str
    where: Mapping[str, object]
    matches: Callable[[Recipes], NDArray[np.bool_]]


QUERIES = (
    Query("all of the kind", {}, lambda all_: all_.minutes > 0),
    Query("a value", {"cuisine": "thai"}, lambda all_: all_.cuisines == 2),
    Query("a rare value", {"cuisine": RARE}, lambda all_: all_.cuisines == len(_CUISINES)),
    Query(
        "ten values",
        {"cuisine": _CUISINES[5:15]},
        lambda all_: (all_.cuisines >= 5) & (all_.cuisines < 15),
    ),
    Query("a range", {"minutes": (17, 43)}, lambda all_: (all_.minutes >= 17) & (all_.minutes <= 43)),
    Query("an open range", {"minutes": (None, 200)}, lambda all_: all_.minutes <= 200),
    Query(
        "a value and a range",
        {"cuisine": "thai", "minutes": (17, 43)},
        lambda all_: (all_.cuisines == 2) & (all_.minutes >= 17) & (all_.minutes <= 43),
    ),
)


def recipes(posts: int) -> Recipes:
    rng = np.random.default_rng(11)
    weights = 1 / (np.arange(len(_CUISINES)) + 1.0)
    cuisines = rng.choice(len(_CUISINES), posts, p=weights / weights.sum()).astype(np.int64)
    cuisines[rng.choice(posts, min(_RARE_POSTS, posts // 4), replace=False)] = len(_CUISINES)
    minutes = np.exp(rng.uniform(np.log(5), np.log(1_000), posts)).astype(np.int64)
    return Recipes(minutes, cuisines, rng.random(posts) < 0.3)


def _authors(posts: int) -> Ints:
    return np.random.default_rng(12).integers(0, _MEMBERS, posts)


def _author_ids(posts: int) -> list[int]:
    ids: list[int] = ids_of(numbered(_MEMBERS))[_authors(posts)].tolist()
    return ids


def _post_ids(authors: Sequence[int]) -> Ints:
    return np.array([post_id(index, author) for index, author in enumerate(authors)], np.int64)


async def write(path: Path, made: Recipes) -> None:
    """Write a store with these recipes."""
    posts = len(made.minutes)

    def make_post(index: int, id_: int, author: int) -> Post:
        data = msgspec.json.encode(made.data(index)).decode()
        return Post(id=id_, author_id=author, text=f"Recipe {index}", json=data, kind="recipe", kind_version=1)

    half = path.with_suffix(".unindexed")
    for former in half.parent.glob(f"{half.name}*"):
        former.unlink()
    build(half, numbered(_MEMBERS), np.empty((0, 2), np.int64), _authors(posts), make_post=make_post)
    async with Shoal.open(url_of(half), media="memory://") as shoal:
        kind = await shoal.kinds.declare(DRAFT)
    with closing(sqlite3.connect(half, isolation_level=None)) as store:
        store.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -400000")
        _write_index(store, kind, made)
    half.rename(path)


def _write_index(store: sqlite3.Connection, kind: PostKind, made: Recipes) -> None:
    ids, listed = _index(kind, made)
    by_time = store.execute("SELECT sql FROM sqlite_master WHERE name = 'association_listed'").fetchone()[0]
    store.execute("BEGIN")
    store.execute("DROP INDEX association_listed")
    insert = "INSERT INTO association VALUES (?, ?, ?, ?, 1, ?)"
    for atype, columns in ((INDEX_OF, _by_list(ids, listed)), (INDEXED, _by_post(ids, listed))):
        id1, id2 = columns
        # The time of an entry is the id of its post.
        times = id2 if atype is INDEX_OF else id1
        for first in range(0, len(id1), 100_000):
            part = slice(first, first + 100_000)
            entries = zip(id1[part].tolist(), id2[part].tolist(), times[part].tolist(), strict=True)
            store.executemany(insert, ((a, atype.number, b, at, _VERSION) for a, b, at in entries))
    store.execute(by_time)
    store.execute("COMMIT")


def _index(kind: PostKind, made: Recipes) -> tuple[Ints, Ints]:
    """Return the ids of the posts, and a row for each with the ids of the lists that contain it."""
    people = _author_ids(len(made.minutes))
    own = {author: index_id(author_name(kind.name, author)) for author in set(people)}
    lists: dict[tuple[object, ...], list[int]] = {}
    rows = []
    for index, author in enumerate(people):
        data = made.data(index)
        key = tuple(data.values())
        if key not in lists:
            example = Post(id=1, author_id=0, text="", json=msgspec.json.encode(data).decode(), kind=kind.name)
            lists[key] = list(map(index_id, kind.names(example) - {author_name(kind.name, 0)}))
        rows.append([*lists[key], own[author]])
    return _post_ids(people), np.sort(np.array(rows, np.int64), axis=1)


def _by_post(ids: Ints, listed: Ints) -> tuple[Ints, Ints]:
    return np.repeat(ids, listed.shape[1]), listed.ravel()


def _by_list(ids: Ints, listed: Ints) -> tuple[Ints, Ints]:
    posts, lists = _by_post(ids, listed)
    order = np.argsort(lists, kind="stable")
    return lists[order], posts[order]


class Pages(NamedTuple):
    """Milliseconds of the pages that match a filter."""

    cold: list[float]
    warm: list[float]


async def measure(report: Report, path: Path, made: Recipes, pages: int) -> dict[str, float]:
    """Report the costs of pages in a store, and return the medians with empty caches, by query."""
    posts = len(made.minutes)
    ids = _post_ids(_author_ids(posts))
    raw = bare_page(path, ids, pages)
    medians: dict[str, float] = {}
    settings = build_settings(store=url_of(path), media="memory://", rate_limits=False, run_consequences=False)
    async with open_network(settings, background=False) as network:
        view = Shoal(network).visitor
        rng = np.random.default_rng(13)
        for query in QUERIES:
            matching = np.flatnonzero(query.matches(made))
            times, right = Pages([], []), 0
            for at in rng.integers(posts // 2, posts, pages).tolist():
                network.memory.forget_all()
                expected = ids[matching[: np.searchsorted(matching, at)][: -_PAGE - 1 : -1]].tolist()
                for into in times:
                    began = time.perf_counter()
                    page = await view.posts_of_kind("recipe", query.where, before=int(ids[at]))
                    into.append((time.perf_counter() - began) * 1_000)
                    right += [entry.post.id for entry in page.entries] == expected
            name = f"{posts:,} posts: {query.name}"
            report.check(f"{name}: pages with the right posts", right, 2 * pages)
            medians[query.name] = spread(times.cold).median
            report.add(f"{name}: cold, median", medians[query.name], "ms", raw=raw)
            report.add(f"{name}: cold, p99", spread(times.cold).p99, "ms")
            report.add(f"{name}: warm, median", spread(times.warm).median, "ms", raw=raw)
        await _check_index(report, network.store, ids)
    return medians


async def _check_index(report: Report, graph: Store, ids: Ints) -> None:
    kind = await find_kind(graph, "recipe")
    sample = np.random.default_rng(14).choice(ids, min(100, len(ids)), replace=False).tolist()
    stored = equal = 0
    for id_ in sample:
        entries = await graph.assoc_range(id_, INDEXED, Cursor(limit=100))
        names = index_names(await find_object(graph, Post, id_), kind)
        stored += bool(names)
        equal += {entry.id2 for entry in entries} == set(map(index_id, names))
    report.check(f"{len(ids):,} posts: posts in the right lists", equal, len(sample))
    report.check(f"{len(ids):,} posts: posts in lists", stored, len(sample))


def bare_page(path: Path, ids: Ints, pages: int) -> float:
    """Return the median milliseconds in which a bare connection reads pages of the list of all posts of the kind."""
    listed = index_id(kind_name("recipe"))
    times = []
    with closing(sqlite3.connect(path)) as store:
        store.execute("PRAGMA cache_size = -65536")
        for at in np.random.default_rng(15).integers(len(ids) // 2, len(ids), pages).tolist():
            began = time.perf_counter()
            limits = (listed, INDEX_OF.number, int(ids[at]), 0, _PAGE + 1)
            rows = store.execute(sql.ASSOC_RANGE[False, False], limits).fetchall()
            store.execute(sql.OBJ_GET, (json.dumps([row[0] for row in rows]),)).fetchall()
            times.append((time.perf_counter() - began) * 1_000)
    return spread(times).median


async def count_requests(report: Report, url: str, posts: int) -> None:
    """Report the requests and read units of each query on DynamoDB."""
    made = recipes(posts)
    async with Shoal.open(url, media="memory://", search="memory://", rate_limits=False) as shoal:
        kind = await shoal.kinds.declare(DRAFT)
        cook = await shoal.register("cook")
        for index in range(posts):
            await cook.create(f"Recipe {index}", kind="recipe", data=made.data(index))
        await shoal.settle()
        filled = Filled(cook.id, 0, cook.id)
    for query in QUERIES:
        ask = partial(_ask, query)
        costs = await count(url, UseCase(query.name, "", "", ask), filled, as_member=False)
        name = f"DynamoDB, {posts} posts: {query.name}"
        lists, requests = len(kind.lists(kind.filters(query.where))), len(costs.cold.requests)
        report.add(f"{name}: requests, cold", requests, raw=lists)
        report.add(f"{name}: read units, cold", costs.cold.units)
        report.add(f"{name}: requests, warm", len(costs.warm.requests))
        expected = min(_PAGE, int(query.matches(made).sum()))
        report.check(f"{name}: on the page", len(costs.cold.answer.entries), expected)
        report.check(
            f"{name}: at most {_OTHERS} requests beyond one for each list", requests <= lists + _OTHERS, wanted=True
        )


async def _ask(query: Query, view: Any, _: Filled) -> Page:
    return cast("Page", await view.posts_of_kind("recipe", query.where))


def main() -> None:
    options = parser(
        __doc__,
        quick={"posts": 20_000, "pages": 40, "table": 120},
        smallest={"posts": 1_000, "pages": 2, "table": 8},
    )
    keep_option(options)
    options.add_argument("--posts", type=int, default=1_000_000, help="number of posts of the larger network")
    options.add_argument("--pages", type=int, default=200, help="number of pages for each filter")
    options.add_argument("--table", type=int, default=240, help="number of posts of the larger table on DynamoDB")
    chosen = options.parse_args()
    report = Report("kind_filters", chosen.size)
    os.environ.update(_CREDENTIALS)
    with workplace(chosen.keep) as place:
        asyncio.run(run(report, place, chosen.posts, chosen.pages, chosen.table))
    report.show()


async def run(report: Report, place: Path, posts: int, pages: int, table: int) -> None:
    medians = []
    for size in (posts // 100, posts):
        path = place / f"recipes-{size}.db"
        made = recipes(size)
        if not await asyncio.to_thread(path.exists):
            await write(path, made)
        medians.append(await measure(report, path, made, pages))
        file = await asyncio.to_thread(path.stat)
        report.add(f"{size:,} posts: size of the file per post", file.st_size / size, "B")
    for query in QUERIES:
        report.add(f"{query.name}: cold, large / small", medians[1][query.name] / medians[0][query.name], "times")
    server = await asyncio.to_thread(dynamodb.start, place / "dynamodb", durable=False)
    try:
        for size in (table // 4, table):
            await count_requests(report, f"dynamodb://shoal{size}?region=local&endpoint={server.url}", size)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
