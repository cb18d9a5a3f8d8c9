"""Flame graphs of a home page that is made anew: where the main thread of `shoal serve` spends its time.

    python -m benchmarks.flames record NAME [--checkout DIR]    docs/flames/NAME.folded, by py-spy (https://github.com/benfred/py-spy)
    python -m benchmarks.flames draw                            docs/flames/*.svg, and the table in docs/where-time-goes.md

`record` serves the network of `benchmarks.network` from a checkout, which may be an older one, asks for home pages of all members
in turn over 16 connections, first without the profiler, for the processor time of a page, and then with it. Samples are taken of
Python frames; what a frame calls in C and the kernel counts for that frame.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.child import serving
from benchmarks.http_client import load, until
from benchmarks.http_load import homes, is_page
from benchmarks.measure import REPOSITORY, process_cpu
from benchmarks.network import Keys
from benchmarks.stores import url_of
from shoal.charts.shapes import Box, Chart, Colour, Shape, TextLine
from shoal.charts.surfaces import as_svg
from shoal.ops.engines.program import free_port

FOLDER = REPOSITORY / "docs" / "flames"
PAGE = REPOSITORY / "docs" / "where-time-goes.md"
BEGIN, END = "<!-- stages -->", "<!-- end of stages -->"
_CONNECTIONS = 16
_RATE = 250
_LEAST_SHARE = 0.002
"""Stacks with a smaller share are left out of the file, and counted for their parent."""
_FRAME = re.compile(r"(?P<function>.+) \((?P<path>[^()]+?)(:\d+)?\)")
_TURNING = ("asyncio.runners:Runner.run", "uvloop:run")
_BUILD = """
import pathlib, sys, msgspec, uvloop
from benchmarks.network import Shape, build
place = pathlib.Path(sys.argv[1])
keys = uvloop.run(build(place / "home.db", Shape()))
(place / "keys.json").write_bytes(msgspec.json.encode(keys))
"""


class Flames(NamedTuple):
    """Samples by stack, outermost frame first, and the processor time of a page in microseconds."""

    title: str
    page_us: float
    stacks: Mapping[tuple[str, ...], int]

    @property
    def samples(self) -> int:
        """Return the number of samples of all stacks."""
        return sum(self.stacks.values())


class Stage(NamedTuple):
    """A part of the work: time is its own where the innermost frame of a module that any stage names is one of its modules."""

    name: str
    modules: tuple[str, ...]


STAGES = (
    Stage("HTTP and sockets: uvicorn, uvloop, the kernel", ("uvicorn", "httptools", "asyncio", "uvloop")),
    Stage(
        "the way in and out: route, token, limits, headers",
        ("shoal.api", "shoal.services", "shoal.tracing", "starlette"),
    ),
    Stage("which posts: timelines, own posts, folding", ("shoal.feeds", "shoal.timelines", "shoal.core")),
    Stage("values: posts, people, counts, marks of the viewer", ("shoal.feeds.hydrate", "shoal.graph.access")),
    Stage("reads from memory and SQLite, for both", ("shoal.graph",)),
    Stage("JSON", ("shoal.api.entities", "shoal.api.listing")),
)
_OTHER = "all else"


def folded(text: str) -> Counter[tuple[str, ...]]:
    """Return the stacks of the main thread, as py-spy writes them, by module and function, from the event loop on."""
    found: Counter[tuple[str, ...]] = Counter()
    for line in text.splitlines():
        frames, _, count = line.rpartition(" ")
        names = [name for frame in frames.split(";") if (name := _named(frame))]
        if not frames.startswith("thread") or "MainThread" not in frames.split(";")[0]:
            continue
        turning = max((at for at, name in enumerate(names) if name in _TURNING), default=-1)
        found[tuple(names[turning + 1 :]) or ("the event loop",)] += int(count)
    return found


def _named(frame: str) -> str:
    """Return `module:function` of a frame; nothing for what is no Python frame."""
    found = _FRAME.fullmatch(frame)
    if found is None or found["function"].startswith("thread"):
        return ""
    path = re.sub(r"^.*?(?=(shoal|uvicorn|asyncio|starlette|httptools|uvloop|msgspec)/)", "", found["path"])
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".").strip("<>")
    return f"{module}:{found['function'].replace('.<locals>', '')}"


def trimmed(stacks: Mapping[tuple[str, ...], int]) -> dict[tuple[str, ...], int]:
    """Return the stacks without rare ends, each counted for the longest beginning that is frequent enough."""
    least = _LEAST_SHARE * sum(stacks.values())
    shares: Counter[tuple[str, ...]] = Counter()
    for stack, count in stacks.items():
        for end in range(1, len(stack) + 1):
            shares[stack[:end]] += count
    kept: Counter[tuple[str, ...]] = Counter()
    for stack, count in stacks.items():
        end = next((end for end in range(len(stack), 0, -1) if shares[stack[:end]] >= least), 0)
        kept[stack[:end] or ("all else",)] += count
    return dict(sorted(kept.items()))


def write(path: Path, flames: Flames) -> None:
    """Keep the samples in a file: a title, the time of a page, a line for each stack."""
    lines = [f"# {flames.title}", f"# {flames.page_us:.1f} us of processor time a page"]
    lines += [f"{';'.join(stack)} {count}" for stack, count in flames.stacks.items()]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def read(path: Path) -> Flames:
    """Read what `write` has kept."""
    title, page, *lines = path.read_text("utf-8").splitlines()
    stacks = {tuple(frames.split(";")): int(count) for frames, _, count in (line.rpartition(" ") for line in lines)}
    return Flames(title.removeprefix("# "), float(page.split()[1]), stacks)


def stages(flames: Flames) -> dict[str, float]:
    """Return the microseconds of a page by stage, in the order of `STAGES`."""
    shares: Counter[str] = Counter()
    for stack, count in flames.stacks.items():
        shares[_stage(stack)] += count
    return {name: shares[name] / flames.samples * flames.page_us for name in (*(one.name for one in STAGES), _OTHER)}


def _stage(stack: Sequence[str]) -> str:
    for frame in reversed(stack):
        module = frame.partition(":")[0]
        fitting = [
            (len(prefix), stage.name)
            for stage in STAGES
            for prefix in stage.modules
            if f"{module}.".startswith(f"{prefix}.")
        ]
        if fitting:
            return max(fitting)[1]
    return STAGES[0].name if stack == ("the event loop",) else _OTHER


_WIDTH, _MARGIN, _ROW, _TOP = 1_800, 20, 20, 92
_LEAST_WIDTH = 2.0
_LETTER = 6.2
"""Width of a letter of 11 points, on the broad side: text never leaves its box."""
_PALETTE: tuple[Colour, Colour] = ("line", "before")


class _Node:
    """A frame under its callers, and what it calls."""

    def __init__(self) -> None:
        self.count = 0
        self.calls: dict[str, _Node] = {}


def chart(flames: Flames) -> Chart:
    """Return the graph: a box as wide as its share of the samples under the boxes of its callers."""
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
    below = "a box is as wide as its share of the main thread's time, below the box of its caller; those too narrow are left out"
    head: list[Shape] = [
        Box(0, 0, _WIDTH, height, "page"),
        TextLine(_MARGIN, 34, flames.title, 20, bold=True),
        TextLine(_MARGIN, 58, f"{flames.page_us:.0f} microseconds of processor time a page; {below}", 13, "soft"),
    ]
    return Chart(flames.title, f"Flame graph: {below}.", _WIDTH, height, [*head, *shapes])


def _draw(shapes: list[Shape], node: _Node, left: float, depth: int, scale: float, samples: int) -> int:
    """Draw what a frame calls, from the left, sorted by name; return the deepest row."""
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
    """Return what fits of a frame's name and share."""
    function = frame.rpartition(":")[2]
    short = function.rpartition(".")[2]
    for words in (f"{frame} {share:.1%}", f"{function} {share:.1%}", f"{short} {share:.1%}", short):
        if len(words) * _LETTER <= width:
            return words
    return ""


def table(before: Flames, after: Flames) -> str:
    """Return the stages of both as a table of Markdown."""
    old, new = stages(before), stages(after)
    lines = ["| stage | before, us | after, us |", "|---|---:|---:|"]
    lines += [f"| {name} | {old[name]:.0f} | {new[name]:.0f} |" for name in old]
    return "\n".join([*lines, f"| **a page** | **{before.page_us:.0f}** | **{after.page_us:.0f}** |"])


def with_table(page: str) -> str:
    """Return the text of the page with the table of the samples that are kept."""
    made = table(read(FOLDER / "home-before.folded"), read(FOLDER / "home-after.folded"))
    head, _, rest = page.partition(BEGIN)
    return f"{head}{BEGIN}\n\n{made}\n\n{END}{rest.partition(END)[2]}"


def files() -> Iterator[tuple[Path, bytes]]:
    """Yield each graph with its bytes."""
    for path in sorted(FOLDER.glob("*.folded")):
        yield path.with_suffix(".svg"), as_svg(chart(read(path)))


def draw() -> None:
    """Write the graphs and the table."""
    for path, content in files():
        path.write_bytes(content)
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")


async def record(name: str, checkout: Path, profiler: str, seconds: float, title: str) -> None:
    """Serve, load, take samples, keep them."""
    path = {"PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{checkout}"}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        building = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _BUILD, folder, cwd=checkout, env={**os.environ, **path}
        )
        if await building.wait():
            raise SystemExit("the network could not be built")
        keys = msgspec.json.decode((place / "keys.json").read_bytes(), type=Keys)
        port = free_port()
        command = [
            sys.executable,
            "-m",
            "shoal.cli",
            "--store",
            url_of(place / "home.db"),
            "serve",
            "--port",
            str(port),
        ]
        environ = {**path, "SHOAL_RATE_LIMITS": "false", "SHOAL_MEDIA": "memory://"}
        if (checkout / "src" / "shoal" / "graph" / "cache" / "answers.py").exists():
            environ["SHOAL_ANSWER_CACHE"] = "0"
        async with serving(command, port, "/api/v1/instance", environ) as child:
            wanted = homes(child.server, keys.all)
            await load(child.server, itertools.islice(wanted, 2 * len(keys.all)), is_page, _CONNECTIONS)
            began = process_cpu(child.pid)
            outcome = await load(child.server, until(wanted, seconds), is_page, _CONNECTIONS)
            page_us = (process_cpu(child.pid) - began) / outcome.right * 1e6
            taken = place / "stacks"
            taking = await asyncio.create_subprocess_exec(
                *(profiler, "record", "--threads", "--function", "--format", "raw", "--rate", str(_RATE)),
                *("--duration", f"{seconds:.0f}", "--pid", str(child.pid), "--output", str(taken)),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
            outcome = await load(child.server, until(wanted, seconds + 3), is_page, _CONNECTIONS)
            if await taking.wait() or outcome.wrong:
                raise SystemExit(f"no samples, or wrong answers: {outcome.wrong}")
        write(FOLDER / f"{name}.folded", Flames(title, page_us, trimmed(folded(taken.read_text("utf-8")))))


def main() -> None:
    """Take samples, or draw."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    acts = options.add_subparsers(dest="act", required=True)
    acts.add_parser("draw")
    recording = acts.add_parser("record")
    recording.add_argument("name", help="of the file: home-before or home-after")
    recording.add_argument("--checkout", type=Path, default=REPOSITORY, help="the checkout that is served")
    recording.add_argument("--py-spy", default="py-spy", help="the profiler's program")
    recording.add_argument("--seconds", type=float, default=20.0, help="with the profiler, and before without it")
    recording.add_argument("--title", default="A home page made anew", help="the title of the graph")
    chosen = options.parse_args()
    if chosen.act == "draw":
        draw()
        return
    asyncio.run(record(chosen.name, chosen.checkout.absolute(), chosen.py_spy, chosen.seconds, chosen.title))


if __name__ == "__main__":
    main()
