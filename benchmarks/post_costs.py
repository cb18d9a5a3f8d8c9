"""The cost of a post by its parts: bytes written to disk, pages by table, syncs, and processor time.

Each part is added in a separate network with equal posts: the graph only, its search index, two tags per post, their cloud, a
mentioned member with an open stream, the event log, and a webhook to a TLS server in another process, which gets one request for
each post before the measurement ends. Bytes are those written to the disk from the first post to the end of the
checkpoint that closes the store. They are counted for the whole machine, because Linux attributes large pieces of the page cache to
a process for every changed page. Pages are counted in the write-ahead logs of a second run, which are not checkpointed: the logged
pages, and the distinct ones, which a single checkpoint would write; these depend little on other load. Syncs are the commits of
that run, since each commit ends with one. The raw engine is bare SQLite with the rows of the graph, without tags, in groups of
equal size.

The last part is a post on DynamoDB Local, with the event log off and on in alternating rounds: the items in transactions, each of
which takes two write units if it has at most 1 KB, other write units, read units, and processor time of this process with its
consumers. The units of transactions are not those that DynamoDB Local reports, because it does not count updates in them.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import sqlite3
import ssl
import statistics
import struct
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, cast
from unittest.mock import patch

import numpy as np
import uvloop

from benchmarks.end_to_end import copied, draw_authors
from benchmarks.measure import REAL_DATA, Report, device_bytes, keep_option, parser, workplace
from benchmarks.raw_sqlite import insert_posts
from benchmarks.stores import Ints, build, ids_of, numbered, power_law, real_authors, real_graph, url_of
from shoal.app import process
from shoal.app.network import Network, open_network
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.dynamodb import DynamoGraph
from shoal.graph.dynamodb.client import Service
from shoal.graph.event_log import EventLog
from shoal.library import Handle, Shoal
from shoal.settings import Settings
from shoal_devcluster import dynamodb
from shoal_devcluster.program import free_port

_TEXT = "Low tide at harbour wall {}: the boats lie on the sand and wait, and the light goes gray at six."
_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
"""DynamoDB Local accepts any credentials."""
_TAGS = 2_000
"""Number of distinct tags. Some are far more common than others."""
_WAL_HEAD, _FRAME_HEAD = 32, 24
_ROUNDS = 10
"""Rounds of posts on DynamoDB with the event log off, and with it on."""


class Part(NamedTuple):
    """A part of the work, which one run adds to the previous ones. Stores that are not files are in memory."""

    name: str
    search: bool = False
    tags: bool = False
    cloud: bool = False
    heard: bool = False
    logged: bool = False
    hooked: bool = False


PARTS = (
    Part("graph only"),
    Part("and search", search=True),
    Part("the graph, two tags a post", tags=True),
    Part("and the tag cloud", tags=True, cloud=True),
    Part("and search, all of it", search=True, tags=True, cloud=True),
    Part("and a mention, and a listener", search=True, tags=True, cloud=True, heard=True),
    Part("the graph and the event log", logged=True),
    Part("and a webhook", logged=True, hooked=True),
)


class Cost(NamedTuple):
    """Totals for all posts of a run."""

    bytes: int
    cpu: float
    seconds: float
    groups: list[int]


class Logged(NamedTuple):
    """The contents of a write-ahead log: frames by table, distinct pages by table, and commits."""

    frames: Counter[str]
    pages: Counter[str]
    commits: int


def written_bytes(path: Path) -> int:
    """Return the bytes written so far to the disk of a path, after a sync of pending writes below its folder."""
    for file in path.parent.iterdir():
        if file.is_file():
            handle = os.open(file, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)
    return device_bytes(path)


def logged(path: Path) -> Logged:
    """Read the log of an open store that is not checkpointed."""
    log = Path(f"{path}-wal").read_bytes()
    size = struct.unpack_from(">I", log, 8)[0] if log else 0
    salt = log[16:24]
    numbers: list[int] = []
    commits = 0
    for at in range(_WAL_HEAD, len(log), _FRAME_HEAD + size):
        number, ends = struct.unpack_from(">II", log, at)
        if log[at + 8 : at + 16] != salt:
            break
        numbers.append(number)
        commits += ends != 0
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as store:
        names = dict(store.execute("SELECT pageno, name FROM dbstat"))
    name_of = [names.get(number, "free") for number in numbers]
    return Logged(Counter(name_of), Counter(names.get(number, "free") for number in set(numbers)), commits)


def writers_of(network: Network) -> list[Any]:
    stores: tuple[Any, ...] = (network.store, network.search.index, network.counting.store)
    found = [getattr(getattr(store, "_store", store), "_writing", None) for store in stores]
    return [connection for connection in found if connection is not None]


@asynccontextmanager
async def opened(path: Path, part: Part) -> AsyncIterator[Network]:
    """Open the network of a part, in a process configured like that of `shoal serve`."""
    memory = "memory://"
    process.prepare()
    async with open_network(
        Settings(
            store=url_of(path),
            media=memory,
            search="" if part.search else memory,
            tags="" if part.cloud else memory,
            event_log="on" if part.logged else "off",
            webhook_networks=("127.0.0.0/8",),
        )
    ) as network:
        # A new index is filled with existing posts, which must not count for ours.
        while not (await network.search.index.state()).complete:  # noqa: ASYNC110  # it is a question to a store
            await asyncio.sleep(0.05)
        process.settle()
        yield network


def texts(part: Part, names: Sequence[str]) -> itertools.cycle[str]:
    rng = np.random.default_rng(8)
    weights = 1 / (np.arange(_TAGS) + 1.0)
    drawn = rng.choice(_TAGS, (5_000, 2), p=weights / weights.sum())
    made = []
    for number, (one, other) in enumerate(drawn.tolist()):
        text = _TEXT.format(number)
        text += f" #quay{one} #reef{other}" if part.tags else ""
        text += f" @{names[number % len(names)]}" if part.heard else ""
        made.append(text)
    return itertools.cycle(made)


async def posted(network: Network, authors: Sequence[int], part: Part, names: Sequence[str], writers: int) -> list[int]:
    """Create the posts with several writers, and wait for their consequences; return the sizes of group commits."""
    shoal = Shoal(network)
    handles: dict[int, Handle] = {id_: await shoal.member(id_) for id_ in set(authors)}
    order, text = iter(authors), texts(part, names)
    groups: list[int] = []
    answering = False

    def answered() -> None:
        nonlocal answering
        answering = False

    async def write() -> None:
        nonlocal answering
        for author in order:
            await handles[author].create(next(text))
            if not answering:
                # All posts of a group commit complete in one iteration of the event loop.
                answering = True
                groups.append(0)
                asyncio.get_running_loop().call_soon(answered)
            groups[-1] += 1

    await asyncio.gather(*(write() for _ in range(writers)))
    await network.settle(300)
    while part.hooked and network.webhooks and network.webhooks.results["accepted"] < len(authors):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    return groups


@contextmanager
def receiver(place: Path) -> Iterator[str]:
    """Run a server that accepts the requests of a webhook, and yield its URL."""
    certificate, key, port = place / "receiver.pem", place / "receiver.key", free_port()
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *names, *files], check=True, capture_output=True
    )
    server = get_context("spawn").Process(target=_receive, args=(certificate, key, port), daemon=True)
    server.start()
    try:
        with patch.dict(os.environ, SSL_CERT_FILE=str(certificate)):
            yield f"https://127.0.0.1:{port}/"
    finally:
        server.terminate()
        server.join()


def _receive(certificate: Path, key: Path, port: int) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(line for line in head.lower().splitlines() if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.split(b":")[1]))
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    async def serve() -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        async with await asyncio.start_server(accept, "127.0.0.1", port, ssl=context) as server:
            await server.serve_forever()

    uvloop.run(serve())


async def run_cost(
    path: Path, part: Part, authors: Sequence[int], names: Sequence[str], writers: int, url: str
) -> Cost:
    """Measure bytes and time with default settings."""
    async with opened(path, part) as network:
        if part.hooked:
            await Shoal(network).webhooks.create(url, "post.created")
        listening = asyncio.create_task(_listen(network, authors[0])) if part.heard else None
        await asyncio.sleep(0.05)
        before = written_bytes(path)
        cpu, began = time.process_time(), time.perf_counter()
        groups = await posted(network, authors, part, names, writers)
        cpu, seconds = time.process_time() - cpu, time.perf_counter() - began
        if listening is not None:
            listening.cancel()
    return Cost(written_bytes(path) - before, cpu, seconds, groups)


async def _listen(network: Network, member: int) -> None:
    async for _ in (await Shoal(network).member(member)).live():
        pass


async def run_pages(
    path: Path, part: Part, authors: Sequence[int], names: Sequence[str], writers: int, url: str
) -> dict[str, Logged]:
    """Measure logged pages without checkpoints, by file."""
    async with opened(path, part) as network:
        if part.hooked:
            await Shoal(network).webhooks.create(url, "post.created")
        for connection in writers_of(network):
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        await posted(network, authors, part, names, writers)
        files = {
            "graph": path,
            "search": path.with_name(f"{path.name}.search"),
            "tags": path.with_name(f"{path.name}.tags"),
        }
        return {name: logged(file) for name, file in files.items() if _has_log(file)}


def _has_log(path: Path) -> bool:
    return Path(f"{path}-wal").exists()


def posts_in(path: Path) -> int:
    with closing(sqlite3.connect(path)) as store:
        return int(store.execute("SELECT count(*) FROM association WHERE alive > 0 AND atype = 13").fetchone()[0])


def tell(
    report: Report, part: Part, posts: int, cost: Cost, files: dict[str, Logged], raw: tuple[float, float]
) -> None:
    name = part.name
    report.add(f"{name}: bytes written per post", cost.bytes / posts, "B", raw=raw[0])
    report.add(f"{name}: processor time per post", cost.cpu / posts * 1e6, "us", raw=raw[1])
    report.add(f"{name}: posts per group", posts / max(1, len(cost.groups)))
    report.add(f"{name}: posts", posts / cost.seconds, "1/s")
    for file, held in files.items():
        report.add(f"{name}: {file}: commits (one sync each) for 1,000 posts", held.commits / posts * 1_000)
        report.add(f"{name}: {file}: pages logged per post", held.frames.total() / posts)
        report.add(f"{name}: {file}: different pages per post", held.pages.total() / posts)
        print(f"  {name}: {file}: pages of 1,000 posts, logged (different), by table")
        for table, frames in held.frames.most_common():
            print(f"    {table:32} {frames / posts * 1_000:9,.0f} ({held.pages[table] / posts * 1_000:,.0f})")


async def dynamodb_costs(endpoint: str, posts: int, writers: int, report: Report) -> None:
    """Measure a post on DynamoDB, by an author without followers, with the event log off and on."""
    memory, part = "memory://", Part("the graph on DynamoDB")
    async with AsyncExitStack() as stack:
        networks: dict[str, tuple[Network, int]] = {}
        for log in ("off", "on"):
            url = f"dynamodb://log-{log}?region=local&endpoint={endpoint}"
            settings = Settings(store=url, media=memory, tags=memory, search=memory, event_log=log)
            network = await stack.enter_async_context(open_network(settings))
            networks[log] = network, (await Shoal(network).register("author")).id
        transact, items = Service.transact, 0

        async def counted(service: Service, writes: Sequence[Mapping[str, Any]], **options: Any) -> None:
            nonlocal items
            before = service.capacity.writes
            await transact(service, writes, **options)
            items += len(writes)
            service.capacity.writes = before

        stack.enter_context(patch.object(Service, "transact", counted))
        spent: dict[str, list[tuple[float, ...]]] = {log: [] for log in networks}
        for _ in range(_ROUNDS):
            for log, (network, author) in networks.items():
                capacity = cast("DynamoGraph", cast("CachedGraph", network.store)._store).capacity
                before = items, capacity.writes, capacity.reads, time.process_time()
                await posted(network, [author] * (posts // _ROUNDS), part, (), writers)
                now = items, capacity.writes, capacity.reads, time.process_time()
                spent[log].append(tuple((b - a) / (posts // _ROUNDS) for a, b in zip(before, now, strict=True)))
        for log, rounds in spent.items():
            wrote, writes, reads, cpu = (statistics.median(values) for values in zip(*rounds, strict=True))
            report.add(f"a post on DynamoDB, the event log {log}: items in transactions", wrote)
            report.add(f"a post on DynamoDB, the event log {log}: other write units", writes)
            report.add(f"a post on DynamoDB, the event log {log}: read units", reads)
            report.add(f"a post on DynamoDB, the event log {log}: processor time", cpu * 1e6, "us")
        ends = [sum(place.position[1] > 0 for place in (await EventLog(networks["on"][0].store).end()).places.values())]
        report.check("lanes of the event log with the posts of one author", max(ends), 1)


def raw_costs(path: Path, authors: Sequence[int], groups: list[int]) -> tuple[float, float]:
    """Return bytes and microseconds per post of bare SQLite."""
    before, cpu = written_bytes(path), time.process_time()
    insert_posts(path, list(authors), "x" * 102, groups)
    cpu = time.process_time() - cpu
    return (written_bytes(path) - before) / len(authors), cpu / len(authors) * 1e6


def main() -> None:
    options = parser(
        __doc__,
        quick={"members": 500, "posts": 6_000, "on_dynamodb": 200},
        smallest={"members": 60, "posts": 128, "before": 500, "on_dynamodb": 20},
    )
    keep_option(options)
    options.add_argument(
        "--data", type=Path, default=REAL_DATA, help="directory that contains graph/nodes.csv and graph/edges.csv"
    )
    options.add_argument(
        "--members", type=int, default=0, help="number of members of a generated network; 0: use the network in --data"
    )
    options.add_argument(
        "--before", type=int, help="number of posts in the store before the measurement; default: 26,293"
    )
    options.add_argument("--posts", type=int, default=10_000, help="number of posts created for each measurement")
    options.add_argument("--writers", type=int, default=64, help="number of posts created concurrently")
    options.add_argument("--on-dynamodb", type=int, default=600, help="number of posts on DynamoDB Local")
    options.add_argument(
        "--only", type=int, nargs="+", help="indexes of the measurements to run, from 0; DynamoDB is the last one"
    )
    chosen = options.parse_args()
    report = Report("post_costs", chosen.size)
    with workplace(chosen.keep) as place, receiver(place) as url:
        measure(place, chosen, report, url)
        if not chosen.only or len(PARTS) in chosen.only:
            os.environ.update(_CREDENTIALS)
            server = dynamodb.start(place / "dynamodb", durable=False)
            try:
                uvloop.run(dynamodb_costs(server.url, chosen.on_dynamodb, min(chosen.writers, 8), report))
            finally:
                server.stop()
    report.show()


def measure(place: Path, chosen: argparse.Namespace, report: Report, url: str) -> None:
    made_up = chosen.members
    names, follows = (numbered(made_up), power_law(made_up, 10 * made_up)) if made_up else real_graph(chosen.data)
    store, path = place / f"costs-{len(names)}.db", place / "post_costs.db"
    build(store, names, follows, real_authors(len(names), follows)[: chosen.before])
    degrees: Ints = np.bincount(follows[:, 1], minlength=len(names))
    drawn = draw_authors(degrees, chosen.posts, min(403, len(names) / 20))
    authors = ids_of(names)[drawn].tolist()
    raw: tuple[float, float] | None = None
    for number, part in enumerate(PARTS):
        if chosen.only and number not in chosen.only:
            continue
        copied(store, path)
        before = posts_in(path)
        cost = uvloop.run(run_cost(path, part, authors, names, chosen.writers, url))
        report.check(f"{part.name}: posts that are in the file", posts_in(path) - before, len(authors))
        if raw is None:
            copied(store, path)
            raw = raw_costs(path, authors, cost.groups)
        copied(store, path)
        files = uvloop.run(run_pages(path, part, authors, names, chosen.writers, url))
        tell(report, part, len(authors), cost, files, raw)
        report.check(f"{part.name}: files with a log", len(files), 1 + part.search + part.cloud)


if __name__ == "__main__":
    main()
