"""`shoal import` of the real data: 37,700 members, 578,006 follows and 26,293 posts with photos into a new store.

The command runs as a child. The rows in its store are counted four times per second, which gives the time of each kind of record.
Then a generated database is imported by a map in this process, measured by the processor time of the process. The raw engine is
bare SQLite, which inserts the associations of the real data in both directions, in the order of the file.
"""

from __future__ import annotations

import asyncio
import gzip
import shlex
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import msgspec

from benchmarks.measure import REAL_DATA, REPOSITORY, Report, parser, rss, tree_rss, workplace
from benchmarks.raw_sqlite import insert_follows
from benchmarks.stores import ids_of, numbered, power_law, real_graph, url_of
from shoal import Shoal
from shoal.admin.database_imports.run import ImportMapped
from shoal.graph.schema import FOLLOWS, POSTED

_COMMAND = f"{shlex.quote(sys.executable)} -m shoal.cli --store {{store}} import {{data}}"
_MADE_UP = 30_000
"""Number of members in the generated network that is used if the real data is absent."""
_EVERY_SECONDS = 0.25
Counts = dict[int, int]


def counts(path: Path) -> Counts:
    """Return the current numbers of follows and posts in the store."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)) as store:
            found = store.execute(
                "SELECT atype, sum(time) FROM association WHERE alive = -1 AND atype IN (?, ?) GROUP BY atype", _NUMBERS
            )
            return {atype: int(n or 0) for atype, n in found}
    except sqlite3.Error:
        return {}


def _lines(data: Path) -> int:
    with gzip.open(next((data / "posts").glob("*.jsonl.gz"))) as posts:
        return sum(1 for _ in posts)


_NUMBERS = (FOLLOWS.number, POSTED.number)


def watched(command: list[str], path: Path) -> tuple[float, int, int, dict[int, tuple[float, float]]]:
    started = time.perf_counter()
    moved: dict[int, tuple[float, float]] = {}
    before: Counts = {}
    peak = 0
    seen = started
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL) as child:
        while child.poll() is None:
            time.sleep(_EVERY_SECONDS)
            now, found = time.perf_counter(), counts(path)
            peak = max(peak, tree_rss(child.pid))
            for atype, n in found.items():
                if n != before.get(atype, 0):
                    moved[atype] = (moved.get(atype, (seen, now))[0], now)
            before, seen = found, now
    return time.perf_counter() - started, child.returncode, peak, moved


def made(folder: Path, members: int) -> Path:
    """Generate a network in the files that an import reads: ten follows per member, and as many posts as members."""
    (folder / "graph").mkdir(parents=True)
    (folder / "posts").mkdir()
    names, follows = numbered(members), power_law(members, 10 * members)
    with (folder / "graph" / "nodes.csv").open("w", encoding="utf-8") as nodes:
        nodes.write("id,name\n")
        nodes.writelines(f"{number},{name}\n" for number, name in enumerate(names))
    with (folder / "graph" / "edges.csv").open("w", encoding="utf-8") as edges:
        edges.write("id_1,id_2\n")
        # Each row is a follow in both directions.
        edges.writelines(f"{one},{other}\n" for one, other in follows.tolist() if one < other)
    with gzip.open(folder / "posts" / "posts.jsonl.gz", "wb") as posts:
        for number in range(members):
            post = {"id": number, "user_id": number % members, "name": f"Low tide {number}", "tags": ["harbour"]}
            posts.write(msgspec.json.encode({**post, "created_at": "2015-06-01T06:00:00Z"}) + b"\n")
    return folder


def imported(place: Path, data: Path, form: str, follows: int, report: Report) -> None:
    """Import the data, and report the rate of each part."""
    path = place / "import.db"
    command = shlex.split(form.format(data=shlex.quote(str(data)), store=shlex.quote(url_of(path))))
    seconds, status, peak, moved = watched(command, path)
    report.check("exit status of the import", status, 0)
    report.check("follows that the store has", counts(path).get(FOLLOWS.number, 0), follows)
    report.check("posts that the store has", counts(path).get(POSTED.number, 0), _lines(data))
    report.add("all of it", seconds, "s")
    for name, number in (("follows", FOLLOWS.number), ("posts", POSTED.number)):
        n, (first, last) = counts(path).get(number, 0), moved.get(number, (0.0, 0.0))
        report.add(name, n)
        report.add(f"{name} per second", n / (last - first) if last > first else 0.0, "1/s")
    report.add("peak memory", peak / (1 << 20), "MiB")
    report.add("store", path.stat().st_size / (1 << 20) if path.exists() else 0, "MiB")


_MAP = """
issuer = "https://old.example"
[members]
table = "users"
fields = { id = "id", name = "name" }
[follows]
table = "follows"
fields = { follower = "a", followee = "b", created_at = "at" }
[posts]
table = "posts"
fields = { id = "id", author = "user_id", text = "text", created_at = "at" }
[comments]
table = "comments"
fields = { id = "id", author = "user_id", post = "post_id", text = "text", created_at = "at" }
[likes]
table = "likes"
fields = { member = "user_id", post = "post_id", created_at = "at" }
"""


def _database(path: Path, members: int) -> None:
    """Create a database with, for each member, ten follows, a post, a comment and five likes."""
    rows = {
        "users (id, name)": ((n, f"member{n}") for n in range(members)),
        "follows (id, a, b, at)": (
            (n * 10 + k, n, (n + k * k + 1) % members, 1_714_000_000 + n) for n in range(members) for k in range(10)
        ),
        "posts (id, user_id, text, at)": ((n, n, f"Low tide {n} #harbour", 1_714_000_000 + n) for n in range(members)),
        "comments (id, user_id, post_id, text, at)": (
            (n, n * 3 % members, n, f"So calm {n}", 1_715_000_000 + n) for n in range(members)
        ),
        "likes (id, user_id, post_id, at)": (
            (n * 5 + k, n, (n * 7 + k) % members, 1_716_000_000 + n) for n in range(members) for k in range(5)
        ),
    }
    with closing(sqlite3.connect(path)) as old, old:
        for name, entries in rows.items():
            old.execute(f"CREATE TABLE {name.replace('(id', '(id INTEGER PRIMARY KEY')}")
            old.executemany(f"INSERT INTO {name.split()[0]} VALUES ({', '.join('?' * (name.count(',') + 1))})", entries)  # noqa: S608


async def by_map(place: Path, members: int, report: Report) -> None:
    """Import a generated database by a map, and report the rows per second of processor time."""
    await asyncio.to_thread(_database, place / "old.db", members)
    used: dict[str, tuple[int, float]] = {}

    def note(kind: str, done: int, _total: int) -> None:
        used[kind] = (done, time.process_time())

    async with Shoal.open(f"sqlite:///{place / 'mapped.db'}") as shoal:
        began = before = time.process_time()
        made = await ImportMapped(_MAP, f"sqlite:///{place / 'old.db'}").carry_out(shoal.network, note)
        whole = time.process_time() - began
    rows = {"members": members, "follows": 10 * members, "posts": members, "comments": members, "likes": 5 * members}
    for kind, expected in rows.items():
        report.check(f"database import: {kind}", made.counts[kind].taken, expected)
        _, after = used[kind]
        report.add(f"database import: {kind} per second of processor time", expected / (after - before), "1/s")
        before = after
    report.add("database import: rows per second of processor time", sum(rows.values()) / whole, "1/s")


def main() -> None:
    options = parser(__doc__, quick={"members": 2_000}, smallest={"members": 100})
    options.add_argument(
        "--members",
        type=int,
        default=0,
        help="number of members of a generated network to import; 0: import the network in --data",
    )
    options.add_argument("--data", type=Path, default=REAL_DATA, help="directory of the network to import")
    options.add_argument(
        "--command",
        default=_COMMAND,
        help="command that starts the import; the data directory replaces {data}, the store URL {store}",
    )
    chosen = options.parse_args()
    report = Report("import_real", chosen.size)
    made_up = chosen.members or (0 if (chosen.data / "graph" / "edges.csv").exists() else _MADE_UP)
    with workplace(None) as place:
        data = made(place / "data", made_up) if made_up else chosen.data
        names, follows = real_graph(data)
        imported(place, data, chosen.command, len(follows), report)
        seconds = insert_follows(place / "raw.db", ids_of(names)[follows])
        report.add("raw engine: association rows", 2 * len(follows))
        bare = len(follows) / seconds
        report.add("raw engine: follows, both directions", bare, "1/s")
        ours = next((figure.value for figure in report.figures if figure.what == "follows per second"), 0.0)
        if ours:
            report.add("follows per second, compared with bare SQLite", ours, "1/s", raw=bare)
        asyncio.run(by_map(place, min(len(names), 20_000), report))
    report.add("memory of this process", rss() / (1 << 20), "MiB")
    report.show()


if __name__ == "__main__":
    main()
