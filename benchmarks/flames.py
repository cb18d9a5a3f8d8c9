"""Flame graphs of a home page that is rendered again, of a post, and of mixed load: where `shoal serve` spends time.

    python -m benchmarks.flames record NAME [--checkout DIR]    docs/flames/NAME.folded, by py-spy (https://github.com/benfred/py-spy)
    python -m benchmarks.flames draw                            docs/flames/*.svg, and the tables in docs/where-time-goes.md

`record` serves the network of `benchmarks.network` from a checkout, which may be an older one, and loads it twice: without the
profiler for the processor time of a request, and with it for the graph:

- home-before, home-after: home pages of all members in turn over 16 connections; the graph is of the main thread;
- post: posts of all authors in turn over 32 connections; of all threads;
- mixed: the load of `benchmarks.mixed_load`, 800 requests per second; of all threads, and for each cause;
- cluster-post: posts as above, of the one web process of `shoal bench cluster` with fewer members; of all threads.

Samples are Python frames of running threads; time in C functions and in the kernel counts for the calling frame.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from benchmarks.child import Child, serving
from benchmarks.http_client import Server, load, until
from benchmarks.http_load import homes, is_page, post_and_drain
from benchmarks.measure import REPOSITORY, process_cpu
from benchmarks.mixed_load import Mixture, ids_of
from benchmarks.network import Keys, build_on
from benchmarks.network import Shape as Network
from benchmarks.open_load import open_load
from benchmarks.samples import (
    CAUSES,
    CLUSTER_STAGES,
    STAGES,
    WRITE_STAGES,
    Flames,
    Stage,
    folded,
    part,
    read,
    stages,
    trimmed,
    write,
)
from benchmarks.shared_engines import engines
from benchmarks.shared_fanout import workers
from benchmarks.stores import url_of
from shoal.charts import Box, Chart, Color, Shape, TextLine, as_svg
from shoal.settings import environment
from shoal_devcluster.program import free_port

FOLDER = REPOSITORY / "docs" / "flames"
PAGE = REPOSITORY / "docs" / "where-time-goes.md"
_CONNECTIONS, _POSTING = 16, 32
_CLUSTERED = Network.of(150)
_MIXED_RATE, _WARMING_SECONDS = 800.0, 60.0
"""Requests per second, low enough to leave time for the profiler."""
_RATE = 250
_BUILD = """
import pathlib, sys, msgspec, uvloop
from benchmarks.network import Shape, build
place = pathlib.Path(sys.argv[1])
keys = uvloop.run(build(place / "home.db", Shape()))
(place / "keys.json").write_bytes(msgspec.json.encode(keys))
"""


_WIDTH, _MARGIN, _ROW, _TOP = 1_800, 20, 20, 92
_LEAST_WIDTH = 2.0
_LETTER = 6.2
"""Upper estimate of the width of a character at 11 points, so that text stays inside its box."""
_PALETTE: tuple[Color, Color] = ("line", "before")


class _Node:
    """A frame with its callees."""

    def __init__(self) -> None:
        self.count = 0
        self.calls: dict[str, _Node] = {}


def chart(flames: Flames) -> Chart:
    """Return the graph: the width of a box is its fraction of the samples, and it is below its callers."""
    root = _Node()
    for stack, count in flames.stacks.items():
        node = root
        node.count += count
        for frame in stack:
            node = node.calls.setdefault(frame, _Node())
            node.count += count
    shapes: list[Shape] = []
    scale = (_WIDTH - 2 * _MARGIN) / root.count
    depth = _draw(shapes, root, float(_MARGIN), 0, scale, flames.samples)
    height = _TOP + (depth + 1) * (_ROW + 1) + _MARGIN
    whose = "the main thread's time" if flames.unit == "page" else "the time of all threads"
    below = f"a box is as wide as its share of {whose}, below the box of its caller; those too narrow are left out"
    head: list[Shape] = [
        Box(0, 0, _WIDTH, height, "page"),
        TextLine(_MARGIN, 34, flames.title, 20, bold=True),
        TextLine(
            _MARGIN, 58, f"{flames.unit_us:.0f} microseconds of processor time a {flames.unit}; {below}", 13, "soft"
        ),
    ]
    return Chart(flames.title, f"Flame graph: {below}.", _WIDTH, height, [*head, *shapes])


def _draw(shapes: list[Shape], node: _Node, left: float, depth: int, scale: float, samples: int) -> int:
    """Draw the callees of a frame from the left, sorted by name; return the deepest row."""
    deepest = depth
    for frame, called in sorted(node.calls.items()):
        width = called.count * scale
        if width >= _LEAST_WIDTH:
            top = _TOP + depth * (_ROW + 1)
            shapes.append(Box(left, top, width - 0.6, _ROW, _PALETTE[depth % 2], 2))
            if words := _words(frame, called.count / samples, width - 5):
                shapes.append(TextLine(left + 3, top + 14, words, 11))
            deepest = max(deepest, _draw(shapes, called, left, depth + 1, scale, samples))
        left += width
    return deepest


def _words(frame: str, share: float, width: float) -> str:
    """Return the part of a frame's name and fraction that fits into the width."""
    function = frame.rpartition(":")[2]
    short = function.rpartition(".")[2]
    for words in (f"{frame} {share:.1%}", f"{function} {share:.1%}", f"{short} {share:.1%}", short):
        if len(words) * _LETTER <= width:
            return words
    return ""


def table(columns: Mapping[str, Flames], known: Sequence[Stage], whole: str) -> str:
    """Return a Markdown table of the stages of each column; the last row is `whole`."""
    told = [stages(flames, known) for flames in columns.values()]
    rows = [[name, *(f"{one[name]:,.0f}" for one in told)] for name in told[0]]
    rows.append([f"**{whole}**", *(f"**{flames.unit_us:,.0f}**" for flames in columns.values())])
    head = ["| stage | " + " | ".join(f"{name}, µs" for name in columns) + " |", "|---|" + "---:|" * len(columns)]
    return "\n".join([*head, *("| " + " | ".join(row) + " |" for row in rows)])


def causes(flames: Flames) -> str:
    """Return a Markdown table of the causes of the mixed load, each with a link to its graph."""
    rows = [
        (f"[{name}](flames/{cause_file(name)})" if us else name, f"{us:,.0f}", f"{us / flames.unit_us:.1%}")
        for name, us in stages(flames, CAUSES).items()
    ]
    rows.append((f"**a {flames.unit}**", f"**{flames.unit_us:,.0f}**", "**100%**"))
    return "\n".join(["| cause | µs | share |", "|---|---:|---:|", *(f"| {' | '.join(row)} |" for row in rows)])


def with_tables(page: str) -> str:
    """Return the text of the page with tables of the stored samples."""
    home = {name: read(FOLDER / f"home-{name}.folded") for name in ("before", "after")}
    writes = {name: read(FOLDER / f"{kind}.folded") for name, kind in (("a post", "post"), ("mixed load", "mixed"))}
    tables = {
        "stages": table(home, STAGES, "a page"),
        "stages of writes": table(writes, WRITE_STAGES, "a request"),
        "causes of the mixed load": causes(writes["mixed load"]),
        "stages in a cluster": table({"a post": read(FOLDER / "cluster-post.folded")}, CLUSTER_STAGES, "a post"),
    }
    for name, made in tables.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        head, _, rest = page.partition(begin)
        page = f"{head}{begin}\n\n{made}\n\n{end}{rest.partition(end)[2]}"
    return page


def files() -> Iterator[tuple[Path, bytes]]:
    for path in sorted(FOLDER.glob("*.folded")):
        yield path.with_suffix(".svg"), as_svg(chart(read(path)))
    mixed = read(FOLDER / "mixed.folded")
    for stage, us in stages(mixed, CAUSES).items():
        if us > 0:
            yield FOLDER / cause_file(stage), as_svg(chart(part(mixed, CAUSES, stage)))


def cause_file(stage: str) -> str:
    """Return the name of the graph of one cause of the mixed load."""
    words = re.findall("[a-z]+", stage.lower().partition(":")[0].partition(",")[0])
    return f"mixed-{'-'.join(words)}.svg"


def draw() -> None:
    for path, content in files():
        path.write_bytes(content)
    PAGE.write_text(with_tables(PAGE.read_text("utf-8")), "utf-8")


_Load = Callable[[float], Awaitable[int]]
"""Loads a server for a number of seconds. Returns the number of served requests. Exits on a wrong response."""


def _right(right: int, wrong: Mapping[str, int]) -> int:
    if wrong:
        raise SystemExit(f"wrong answers: {dict(wrong)}")
    return right


async def _load_of(kind: str, server: Server, keys: Keys) -> _Load:
    """Return the load for a graph, against a warm server."""
    wanted = homes(server, keys.all)
    await load(server, itertools.islice(wanted, 2 * len(keys.all)), is_page, _CONNECTIONS)

    async def pages(seconds: float) -> int:
        outcome = await load(server, until(wanted, seconds), is_page, _CONNECTIONS)
        return _right(outcome.right, outcome.wrong)

    async def posts(seconds: float) -> int:
        outcome = await post_and_drain(server, keys.authors, keys.probe, _POSTING, seconds)
        return _right(outcome.right, outcome.wrong)

    if kind != "request":
        return pages if kind == "page" else posts
    mixture = Mixture(server, keys, await ids_of(server, keys.all), 1).requests()
    await open_load(server, mixture, _MIXED_RATE, _WARMING_SECONDS, 1)

    async def mixed(seconds: float) -> int:
        outcome = await open_load(server, mixture, _MIXED_RATE, seconds, 1)
        return _right(outcome.answers, outcome.wrong)

    return mixed


_CLUSTER_POST = "cluster-post"
_UNITS = {"home-before": "page", "home-after": "page", "post": "post", "mixed": "request", _CLUSTER_POST: "post"}
_PAGE = "A home page rendered again"
_TITLES = {
    "home-before": _PAGE,
    "home-after": _PAGE,
    "post": "A post, over 32 connections",
    "mixed": "800 requests per second: 90 % home pages, 5 % posts, 5 % likes and follows",
    _CLUSTER_POST: "A post in a cluster, its web process: over 32 connections",
}


@asynccontextmanager
async def _alone(name: str, checkout: Path) -> AsyncIterator[tuple[Child, Keys]]:
    """Serve the network on SQLite with one process."""
    path = _python_path(checkout)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        building = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _BUILD, folder, cwd=checkout, env={**os.environ, **path}
        )
        if await building.wait():
            raise SystemExit("building the measured network failed")
        keys = msgspec.json.decode((place / "keys.json").read_bytes(), type=Keys)
        port = free_port()
        command = [
            *(sys.executable, "-m", "shoal.cli", "--store", url_of(place / "home.db")),
            *("serve", "--port", str(port)),
        ]
        environ = {**path, "SHOAL_RATE_LIMITS": "false", "SHOAL_MEDIA": "memory://"}
        # Older checkouts have the response cache in `graph/cache`; the oldest have none.
        files = ("response_cache.py", "graph/cache/responses.py", "graph/cache/answers.py")
        if _UNITS[name] == "page" and any((checkout / "src" / "shoal" / file).exists() for file in files):
            environ["SHOAL_ANSWER_CACHE"] = "0"
        async with serving(command, port, "/api/v1/instance", environ) as child:
            yield child, keys


@asynccontextmanager
async def _in_a_cluster(checkout: Path) -> AsyncIterator[tuple[Child, Keys]]:
    """Serve the network on the engines of `shoal bench cluster` with one web process and one worker."""
    with engines(2, broker=True) as of:
        keys = await build_on(of._replace(broker=None).settings(), _CLUSTERED)
        settings, port = of.settings(run_consequences=False), free_port()
        command = [sys.executable, "-m", "shoal.cli", "serve", "--port", str(port)]
        environ = {**environment(settings), **_python_path(checkout)}
        with workers(settings, 1):
            async with serving(command, port, "/health", environ) as child:
                yield child, keys


def _python_path(checkout: Path) -> dict[str, str]:
    return {"PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{checkout}"}


async def record(name: str, checkout: Path, profiler: str, seconds: float, title: str) -> None:
    unit = _UNITS[name]
    served = _in_a_cluster(checkout) if name == _CLUSTER_POST else _alone(name, checkout)
    with tempfile.TemporaryDirectory() as folder:
        taken = Path(folder) / "stacks"
        async with served as (child, keys):
            loaded = await _load_of(unit, child.server, keys)
            began = process_cpu(child.pid)
            answered = await loaded(seconds)
            unit_us = (process_cpu(child.pid) - began) / answered * 1e6
            taking = await asyncio.create_subprocess_exec(
                *(profiler, "record", "--threads", "--function", "--format", "raw", "--rate", str(_RATE)),
                *("--duration", f"{seconds:.0f}", "--pid", str(child.pid), "--output", str(taken)),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
            await loaded(seconds + 3)
            if await taking.wait():
                raise SystemExit("no samples")
        stacks = trimmed(folded(taken.read_text("utf-8"), all_threads=unit != "page"))
        write(FOLDER / f"{name}.folded", Flames(title or _TITLES[name], unit_us, stacks, unit))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    acts = options.add_subparsers(dest="act", required=True)
    acts.add_parser("draw")
    recording = acts.add_parser("record")
    recording.add_argument("name", choices=_UNITS, help="load to profile; the output file gets its name")
    recording.add_argument(
        "--checkout", type=Path, default=REPOSITORY, help="checkout of Shoal whose server is profiled"
    )
    recording.add_argument("--py-spy", default="py-spy", help="path of the program py-spy")
    recording.add_argument(
        "--seconds",
        type=float,
        default=20.0,
        help="seconds for which the server is measured without the profiler, and then with it",
    )
    recording.add_argument("--title", default="", help="title of the flame graph; by default a description of the load")
    chosen = options.parse_args()
    if chosen.act == "draw":
        draw()
        return
    asyncio.run(record(chosen.name, chosen.checkout.absolute(), chosen.py_spy, chosen.seconds, chosen.title))


if __name__ == "__main__":
    main()
