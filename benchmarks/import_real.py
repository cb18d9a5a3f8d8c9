"""`shoal import` of the real data: 37,700 members, 578,006 follows and 26,293 posts with photos into a new store.

The command runs as a child; the counts in its store are looked at four times a second, which gives the time that each kind of
record took. The raw engine is bare SQLite inserting the same associations, both directions, in the same order of the file.
"""

from __future__ import annotations

import shlex
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from benchmarks.measure import REAL_DATA, REPOSITORY, Report, parser, rss, tree_rss, workplace
from benchmarks.raw_sqlite import insert_follows
from benchmarks.stores import ids_of, numbered, power_law, real_graph, url_of
from shoal.graph.schema import FOLLOWS, POSTED

_COMMAND = f"{sys.executable} -m shoal.cli --store {{store}} import {{data}}"
_EVERY_SECONDS = 0.25
Counts = dict[int, int]


def counts(path: Path) -> Counts:
    """How many follows and posts the store has at this moment."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)) as store:
            found = store.execute("SELECT atype, sum(n) FROM count WHERE atype IN (?, ?) GROUP BY atype", _NUMBERS)
            return {atype: int(n or 0) for atype, n in found}
    except sqlite3.Error:
        return {}


_NUMBERS = (FOLLOWS.number, POSTED.number)


def watched(command: list[str], path: Path) -> tuple[float, int, int, dict[int, tuple[float, float]]]:
    """Run the import; seconds, exit status, peak memory, and when each count first and last moved."""
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


def real(place: Path, data: Path, form: str, report: Report) -> None:
    """Import the real data, and say how fast each part went."""
    path = place / "import.db"
    command = shlex.split(form.format(data=data, store=url_of(path)))
    seconds, status, peak, moved = watched(command, path)
    report.add("exit status", status, most=0)
    report.add("all of it", seconds, "s", most=180)
    for name, number, least in (("follows", FOLLOWS.number, 10_000), ("posts", POSTED.number, None)):
        n, (first, last) = counts(path).get(number, 0), moved.get(number, (0.0, 0.0))
        report.add(name, n)
        report.add(f"{name} a second", n / (last - first) if last > first else 0.0, "1/s", least=least)
    report.add("peak memory", peak / (1 << 20), "MiB")
    report.add("store", path.stat().st_size / (1 << 20) if path.exists() else 0, "MiB")


def main() -> None:
    """Import, measure the raw engine, report. A quick run measures the raw engine alone, on a made-up graph."""
    options = parser(__doc__)
    options.add_argument("--data", type=Path, default=REAL_DATA, help="the directory to import")
    options.add_argument("--command", default=_COMMAND, help="how the import is started, with {data} and {store}")
    chosen = options.parse_args()
    report = Report("import_real", chosen.quick)
    if not chosen.quick and not (chosen.data / "graph" / "edges.csv").exists():
        print(f"{chosen.data} is absent: nothing is imported")
        return
    with workplace(None) as place:
        if not chosen.quick:
            real(place, chosen.data, chosen.command, report)
        names, follows = (numbered(2_000), power_law(2_000, 20_000)) if chosen.quick else real_graph(chosen.data)
        seconds = insert_follows(place / "raw.db", ids_of(names)[follows])
        report.add("raw engine: association rows", 2 * len(follows))
        bare = len(follows) / seconds
        report.add("raw engine: follows, both directions", bare, "1/s")
        ours = next((figure.value for figure in report.figures if figure.what == "follows a second"), 0.0)
        if ours:
            report.add("follows a second, beside bare SQLite", ours, "1/s", raw=bare)
    report.add("memory of this process", rss() / (1 << 20), "MiB")
    report.show()


if __name__ == "__main__":
    main()
