"""The tag cloud: a million real tag uses merged into SQLite, 5,000 at a time, compared with bare upserts of these rows.

The uses are those of the real posts, repeated with new ids and spread over the last eight days, so that days and authors are
counted. Increments are created before the clock starts; a collector decodes and merges them. Statements are counted by SQLite's
trace callback, in a simulated time of 10,000 uses per second.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import msgspec

from benchmarks.measure import REAL_DATA, Report, parser, rss, spread, workplace
from shoal.core import events
from shoal.core.model import Post
from shoal.core.text import canonical_tag, tags_of
from shoal.graph.payloads.posts import tags_used
from shoal.graph.schema import tag_id
from shoal.tagcloud import cloud as clouds
from shoal.tagcloud import sqlite_sql as sql
from shoal.tagcloud.collection import Collector, Emitter, Inbox
from shoal.tagcloud.contract import DAY_MS, LOCK_SECONDS, Increment, Parcel, TagChange, Use, encode, row_values
from shoal.tagcloud.sqlite import SqliteCloud

NOW = 1_795_000_000_000
_DAYS = 8
_MERGE = 5_000
_INCREMENT = 500
_RATE = 10_000
_WINDOW = 0.05
"""Seconds that an emitter waits for more changes."""
_LOOK_WINDOWS = 4
_FILE = "shoal.db.tags"


class Photo(msgspec.Struct):
    user_id: int
    created_at: str
    tags: list[str]


Tagged = tuple[int, tuple[TagChange, ...]]
"""An author, and the tags of one of their posts."""


def real_posts(data: Path) -> list[Tagged]:
    """Return the posts with tags, in chronological order."""
    with gzip.open(data / "posts" / "photos_cc0_pdm.jsonl.gz") as lines:
        photos = [msgspec.json.decode(line, type=Photo) for line in lines]
    photos.sort(key=lambda photo: photo.created_at)
    return [(photo.user_id, changes) for photo in photos if (changes := _changes(photo.tags))]


def made_up_posts(count: int = 3_000) -> list[Tagged]:
    """Return posts with nine tags each and a power law, for use without the real ones."""
    random = Random(5)
    names = [f"Tag{number}" for number in range(20_000)]
    weights = list(itertools.accumulate(1 / (number + 1) for number in range(len(names))))
    return [(random.randrange(1, 600), _changes(random.choices(names, cum_weights=weights, k=9))) for _ in range(count)]


def _changes(tags: Iterable[str]) -> tuple[TagChange, ...]:
    forms: dict[str, str] = {}
    for tag in tags:
        form = tag.replace(" ", "")
        if name := canonical_tag(form):
            forms.setdefault(name, form)
    return tuple(TagChange(name, form, 1) for name, form in forms.items())


def uses_of(posts: Sequence[Tagged], count: int) -> list[Use]:
    """Return at least `count` tag uses, the last one at the current time."""
    held = 0
    chosen: list[Tagged] = []
    for post in itertools.cycle(posts):
        chosen.append(post)
        held += len(post[1])
        if held >= count:
            break
    step = _DAYS * DAY_MS / len(chosen)
    moments = (NOW - int((len(chosen) - 1 - index) * step) for index in range(len(chosen)))
    return [
        Use(1 << 40 | index, 1, author, moment, moment, changes)
        for index, ((author, changes), moment) in enumerate(zip(chosen, moments, strict=True))
    ]


def _mebibytes(path: Path) -> float:
    return path.stat().st_size / (1 << 20)


def tags_in(uses: Iterable[Use]) -> int:
    """Return the number of tags of these posts."""
    return sum(len(use.changes) for use in uses)


def parcels_of(uses: Sequence[Use], changes: int = _INCREMENT) -> Iterator[tuple[int, Parcel]]:
    """Return increments of an emitter, with the time of the last use in each."""
    held: list[Use] = []
    numbers = itertools.count(1)
    for use in uses:
        held.append(use)
        if tags_in(held) >= changes or use is uses[-1]:
            id_ = next(numbers).to_bytes(16, "big")
            yield use.at, Parcel(id_, encode(Increment(id_, b"emitter", use.at, tuple(held))))
            held = []


class Watched(SqliteCloud):
    """Records how long the lock was held each time, and the number of statements."""

    held: list[float]
    statements = 0
    _since = 0.0

    async def lock(self, holder: bytes, seconds: float = LOCK_SECONDS) -> bool:
        taken = await super().lock(holder, seconds)
        self._since = time.perf_counter()
        return taken

    async def unlock(self, holder: bytes) -> None:
        await super().unlock(holder)
        self.held.append(time.perf_counter() - self._since)

    def count(self) -> None:
        def one(_statement: str) -> None:
            self.statements += 1

        for connection in (self._writing, self._quick, self._reading):
            assert connection is not None
            connection.set_trace_callback(one)


class Nowhere:
    """A transport whose receiver is the benchmark itself."""

    def __init__(self) -> None:
        self.sent: list[Parcel] = []

    async def send(self, id_: bytes, body: bytes) -> None:
        self.sent.append(Parcel(id_, body))

    async def arrivals(self) -> Iterator[Sequence[Parcel]]:
        return iter(())

    async def look(self) -> list[Parcel]:
        sent, self.sent = self.sent, []
        return sent

    async def done(self, parcels: Sequence[Parcel]) -> None: ...

    async def waiting(self) -> int:
        return 0

    async def close(self) -> None: ...


async def opened(path: Path) -> Watched:
    store = await Watched.open(path)
    store.held = []
    return store


async def merge_all(path: Path, uses: Sequence[Use], report: Report) -> float:
    """Merge these uses into a new file; return tag uses per second."""
    parcels = list(parcels_of(uses))
    store = await opened(path)
    moment = 0
    collector = Collector(store, Nowhere(), changes=_MERGE, seconds=3_600.0, clock=lambda: moment)  # type: ignore[arg-type]
    cpu, began = time.process_time(), time.perf_counter()
    for at, parcel in parcels:
        moment = at
        collector.take([parcel])
        if collector.due():
            await collector.merge()
    await collector.merge()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    count, held = tags_in(uses), spread(store.held)
    report.add(f"{count:,} tag uses merged", seconds, "s")
    report.add("merges", collector.merges)
    report.add("CPU of this process", cpu, "s")
    report.add("lock held by a merge, median", held.median * 1000, "ms")
    report.add("lock held by a merge, p99", held.p99 * 1000, "ms")
    report.check(
        "uses that the rows of all tags count", sum([row.n for row in await store.scan(-(2**63), 10**9)]), count
    )
    report.add("lock held by a merge, longest", held.most * 1000, "ms")
    await store.close()
    return count / seconds


async def read(path: Path, report: Report, rounds: int) -> None:
    cold = time.perf_counter()
    store = await opened(path)
    opening = time.perf_counter() - cold
    took = []
    shown = clouds.Cloud()
    for _ in range(rounds):
        began = time.perf_counter()
        shown = clouds.decode((await store.head()).cloud)
        took.append(time.perf_counter() - began)
    await store.close()
    report.add("tags shown", len(shown.entries))
    report.add("time to open the file", opening * 1000, "ms")
    report.add("head and cloud, just opened", took[0] * 1000, "ms")
    report.add("head and cloud, warm, median", spread(took[1:]).median * 1000, "ms")
    report.add("head and cloud, warm, p99", spread(took[1:]).p99 * 1000, "ms")


async def raw(path: Path, filled: Path, uses: Sequence[Use]) -> float:
    """Return tag uses per second of bare upserts of the rows of the tag and its author, committed 5,000 at a time."""
    store = await opened(filled)
    rows = {row.id: row_values(row) for row in await store.scan(-(2**63), 10**9)}
    await store.close()
    ids = {name: id_ for id_, name, *_ in rows.values()}
    changed = [(ids[change.name], use.day, use.author_id) for use in uses for change in use.changes]
    count_put, author_put = (
        statement.format(rows=f"({', '.join('?' * width)})")
        for statement, width in ((sql.COUNT_PUT, 7), (sql.AUTHOR_PUT, 4))
    )
    with closing(sqlite3.connect(path, isolation_level=None)) as bare:
        bare.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536")
        bare.executescript(sql.MIGRATIONS[0].script)
        began = time.perf_counter()
        for start in range(0, len(changed), _MERGE):
            part = changed[start : start + _MERGE]
            bare.execute("BEGIN IMMEDIATE")
            bare.executemany(count_put, [rows[tag] for tag, _, _ in part])
            bare.executemany(author_put, [(day, tag, author, 1) for tag, day, author in part])
            bare.execute("COMMIT")
        return len(changed) / (time.perf_counter() - began)


async def each_at_once(path: Path, uses: Sequence[Use]) -> tuple[float, float]:
    """Count each use separately by an upsert; return uses per second, and statements per 1,000 uses."""
    statements = 0

    def one(_statement: str) -> None:
        nonlocal statements
        statements += 1

    with closing(sqlite3.connect(path, isolation_level=None)) as bare:
        bare.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        bare.execute("CREATE TABLE count (id INTEGER PRIMARY KEY, n INTEGER NOT NULL)")
        bare.set_trace_callback(one)
        began = time.perf_counter()
        for use in uses:
            for change in use.changes:
                bare.execute(
                    "INSERT INTO count VALUES (?, 1) ON CONFLICT DO UPDATE SET n = n + 1", (tag_id(change.name),)
                )
        seconds = time.perf_counter() - began
    return tags_in(uses) / seconds, statements / tags_in(uses) * 1000


async def statements(path: Path, uses: Sequence[Use], emitters: int, *, broker: bool) -> float:
    """Return statements per 1,000 tag uses counted by several emitters; increments go through a broker or the inbox."""
    store = await opened(path)
    transport = Nowhere() if broker else Inbox(store)
    collector = Collector(store, transport, changes=_MERGE, seconds=3_600.0, clock=lambda: NOW)  # type: ignore[arg-type]
    all_emitters = [Emitter(transport.send, seconds=3_600.0, clock=lambda: NOW) for _ in range(emitters)]
    random = Random(6)
    store.count()
    held, windows = 0, 0
    for use in uses:
        random.choice(all_emitters).count(use)
        held += len(use.changes)
        if held >= _RATE * _WINDOW:
            held, windows = 0, windows + 1
            for emitter in all_emitters:
                await emitter.flush()
            if windows % _LOOK_WINDOWS == 0:
                collector.take(await transport.look())
                if collector.due():
                    await collector.merge()
    for emitter in all_emitters:
        await emitter.flush()
    collector.take(await transport.look())
    await collector.merge()
    assert not await store.waiting()
    found = store.statements / tags_in(uses) * 1000
    await store.close()
    return found


def requested(posts: Sequence[Tagged], report: Report) -> None:
    """Measure a request's processor time per tag (the event of its tags), and the event's bytes."""
    spent, tags = 0.0, 0
    for number, (author, changes) in enumerate(posts, 1):
        text = " ".join(f"#{change.form}" for change in changes)
        # The request has already parsed its text.
        post = Post(id=number, author_id=author, text=text, tags=tuple(name for name, _ in tags_of(text)))
        began = time.thread_time()
        used = tags_used(None, post, NOW)
        if used is not None:
            events.encode(used)
        spent += time.thread_time() - began
        tags += len(post.tags)
    report.add("in the request per tag", spent / tags * 1e6, "us of CPU")


async def emitting(posts: Sequence[Tagged], report: Report) -> None:
    """Measure the processor time of processing the event, per tag."""

    async def send(_id: bytes, _body: bytes) -> None:
        """Accept the message without storing it."""

    tags = sum(len(changes) for _, changes in posts)
    emitter = Emitter(send, changes=10**9, seconds=3_600.0)
    built = counted = encoded = 0.0
    # As many at a time as wait for the next increment.
    for start in range(0, len(posts), 200):
        part = [
            (author, [(change.name, change.form, change.by) for change in changes])
            for author, changes in posts[start : start + 200]
        ]
        began = time.thread_time()
        uses = [
            Use(index, 1, author, NOW, NOW, tuple([TagChange(name, form, by) for name, form, by in changes]))
            for index, (author, changes) in enumerate(part)
        ]
        built += time.thread_time() - began
        began = time.thread_time()
        for use in uses:
            emitter.count(use)
        counted += time.thread_time() - began
        increment = Increment(bytes(16), bytes(16), NOW, tuple(uses))
        began = time.thread_time()
        encode(increment)
        encoded += time.thread_time() - began
        await emitter.flush()
    for what, seconds in (("building a use", built), ("Emitter.count", counted), ("encoding", encoded)):
        report.add(f"{what} per tag", seconds / tags * 1e6, "us of CPU")
    report.add("emitting in total per tag", (built + counted + encoded) / tags * 1e6, "us of CPU")


async def measure(place: Path, posts: Sequence[Tagged], count: int, reads: int, report: Report) -> None:
    uses = uses_of(posts, count)
    report.add("different posts", len(posts))
    merged = await merge_all(place / _FILE, uses, report)
    bare = await raw(place / "raw.db", place / _FILE, uses)
    report.add("file", _mebibytes(place / _FILE), "MiB")
    report.add("merged tag uses per second, compared with bare upserts", merged, "/s", raw=bare)
    await read(place / _FILE, report, reads)
    requested(posts, report)
    await emitting(posts, report)
    some = uses_of(posts, count // 10)
    rate, alone = await each_at_once(place / "each.db", some[: len(some) // 4])
    report.add("counting each use at once", rate, "uses/s")
    for broker in (False, True):
        for emitters in (1, 10, 100):
            found = await statements(place / f"{broker}-{emitters}.tags", some, emitters, broker=broker)
            way = "a broker" if broker else "the inbox"
            report.add(f"statements per 1,000 uses, {emitters} emitters, {way}", found, raw=alone)
    report.add("memory of this process", rss() / (1 << 20), "MiB")


def main() -> None:
    options = parser(__doc__, quick={"uses": 20_000}, smallest={"uses": 2_000, "different": 500, "reads": 20})
    options.add_argument(
        "--different", type=int, default=0, help="number of generated posts; 0: use the posts in --data"
    )
    options.add_argument(
        "--reads", type=int, default=500, help="number of times that the tag cloud is read after all uses are merged"
    )
    options.add_argument("--data", type=Path, default=REAL_DATA, help="directory that contains posts/*.jsonl.gz")
    options.add_argument("--uses", type=int, default=1_000_000, help="number of merged tag uses")
    chosen = options.parse_args()
    report = Report("tag_merge", chosen.size)
    if chosen.different:
        posts = made_up_posts(chosen.different)
    elif (chosen.data / "posts").exists():
        posts = real_posts(chosen.data)
    else:
        print(f"{chosen.data} is absent: made-up posts stand in for the real ones")
        posts = made_up_posts()
    with workplace(None) as place:
        asyncio.run(measure(place, posts, chosen.uses, chosen.reads, report))
    report.show()


if __name__ == "__main__":
    main()
