"""Stack samples of a profiler, stored in a text file, and the time of each stage of the work derived from them.

A file has a title, the processor time of a unit, and a line for each stack: its frames, outermost first, and its samples.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_LEAST_SHARE = 0.002
"""A stack with a smaller fraction of the samples is omitted from the file, and counted for its parent."""
_FRAME = re.compile(r"(?P<function>.+) \((?P<path>[^()]+?)(:\d+)?\)")
_OUTSIDE = re.compile(
    r"^.*?(?=(shoal|uvicorn|asyncio|starlette|httptools|uvloop|msgspec|concurrent|asyncpg|redis|aiormq|pamqp)/)"
)
_TURNING = ("asyncio.runners:Runner.run", "uvloop:run")
_WAITING = ("threading:Condition.wait", "shoal.graph.sqlite.writer:Writer._gather")
_WORKING = ("threading:Thread.run", "concurrent.futures.thread:_worker")


class Flames(NamedTuple):
    """Samples by stack, outermost frame first, and the processor time of a `unit` (a page, a post, a request) in microseconds."""

    title: str
    unit_us: float
    stacks: Mapping[tuple[str, ...], int]
    unit: str = "page"

    @property
    def samples(self) -> int:
        """The number of samples of all stacks."""
        return sum(self.stacks.values())


class Stage(NamedTuple):
    """A part of the work, with its modules; a class of a module may belong to another stage than the module.

    A sample counts for the stage of its innermost frame that belongs to a stage. The longest matching name decides. `callers` are
    the modules of consumers: a sample with a frame of one of these counts for that stage, whatever the consumer calls.
    """

    name: str
    modules: tuple[str, ...]
    callers: tuple[str, ...] = ()


_HTTP = Stage("HTTP and sockets: uvicorn, uvloop, the kernel", ("uvicorn", "httptools", "asyncio", "uvloop"))
_IN_AND_OUT = Stage(
    "request handling: routing, token, limits, headers",
    ("shoal.http", "shoal.mastodon_api", "shoal.observability", "starlette"),
)
_JSON = Stage(
    "JSON",
    (
        "shoal.mastodon_api.entities",
        *(
            f"shoal.mastodon_api.context.{name}"
            for name in ("address_of", "cursor_of", "entries_page", "entry_of", "paged", "show")
        ),
    ),
)
STAGES = (
    _HTTP,
    _IN_AND_OUT._replace(modules=(*_IN_AND_OUT.modules, "shoal.commands")),
    Stage("post selection: timelines, own posts, folding", ("shoal.queries", "shoal.timelines", "shoal.core")),
    Stage("hydration: posts, members, counts, viewer state", ("shoal.queries.hydration", "shoal.graph.access")),
    Stage("reads from caches and SQLite, for both", ("shoal.graph",)),
    _JSON,
)
WRITE_STAGES = (
    _HTTP,
    _IN_AND_OUT,
    Stage("commands: permission checks, the batch", ("shoal.commands", "shoal.graph.access", "shoal.core")),
    Stage(
        "SQLite: evaluating a group, statements, the commit (mostly in the writer's thread)",
        (
            "shoal.graph.sqlite",
            "shoal.graph.resolve",
            "shoal.graph.contract.ListChanges",
            "shoal.graph.payloads",
            "sqlite3",
        ),
    ),
    Stage("caches: before and after a commit", ("shoal.graph",)),
    Stage(
        "consumers: timelines of followers, notifications, tags, search",
        (
            "shoal.outbox.runner",
            "shoal.consumers",
            "shoal.timelines",
            "shoal.tagcloud",
            "shoal.search",
            "shoal.streaming",
        ),
    ),
    Stage("pages: which posts, their values", ("shoal.queries",)),
    _JSON,
)
CAUSES = (
    _HTTP,
    _IN_AND_OUT,
    Stage(
        "authentication: tokens, members",
        ("shoal.http.authentication", "shoal.commands.oauth", "shoal.core.tokens", "shoal.queries.sessions"),
    ),
    Stage("response cache: validation, storing, eviction", ("shoal.response_cache", "shoal.graph.cache.dependencies")),
    Stage("posts of a page: timelines, own posts", ("shoal.queries", "shoal.timelines", "shoal.core")),
    Stage("values of a page: posts, members, the viewer", ("shoal.queries.hydration", "shoal.graph.access")),
    Stage("reads from caches, for pages and commands, and their changes by commits", ("shoal.graph",)),
    _JSON,
    Stage("commands: permission checks, the batch", ("shoal.commands",)),
    WRITE_STAGES[3],
    Stage(
        "fan-out to home timelines",
        (),
        ("shoal.consumers.home", "shoal.consumers.follower_sets", "shoal.consumers.high_fan_out"),
    ),
    Stage("notifications", (), ("shoal.consumers.notifications",)),
    Stage("search and tags", (), ("shoal.consumers.indexing", "shoal.search", "shoal.tagcloud")),
    Stage("outbox, other consumers and streams", (), ("shoal.outbox", "shoal.consumers", "shoal.streaming")),
)
"""Causes of the processor time of the mixed load."""
CLUSTER_STAGES = (
    _HTTP,
    _IN_AND_OUT,
    WRITE_STAGES[2],
    Stage(
        "PostgreSQL: evaluating a group, statements and their results",
        (
            "shoal.graph.postgres",
            "shoal.graph.sharding",
            "shoal.graph.resolve",
            "shoal.graph.contract.ListChanges",
            "shoal.graph.payloads",
            "asyncpg",
        ),
    ),
    Stage("Redis: version tokens of cached objects", ("shoal.graph.redis", "redis")),
    Stage("the broker: committed events", ("shoal.outbox.rabbitmq", "shoal.outbox.relay", "aiormq", "pamqp")),
    Stage("caches: before and after a commit", ("shoal.graph", "shoal.graph.redis.client.Batching")),
    Stage("pages: which posts, their values", ("shoal.queries",)),
    _JSON,
)
_OTHER = "all else"


def folded(text: str, *, all_threads: bool = False) -> Counter[tuple[str, ...]]:
    """Return the stacks of the main thread from py-spy's output, by module and function, from the event loop inwards.

    With `all_threads`, also those of other threads while they work: below the frame that marks a job.
    """
    found: Counter[tuple[str, ...]] = Counter()
    for line in text.splitlines():
        frames, _, count = line.rpartition(" ")
        names = [name for frame in frames.split(";") if (name := _named(frame))]
        if not frames.startswith("thread"):
            continue
        if "MainThread" in frames.split(";")[0]:
            found[_below(names, _TURNING) or ("the event loop",)] += int(count)
        elif all_threads and (calls := _below(names, _WORKING)) and calls[-1] not in _WAITING:
            found["beside the event loop", *calls] += int(count)
    return found


def _below(names: Sequence[str], roots: Sequence[str]) -> tuple[str, ...]:
    """Return the frames below the innermost of these roots."""
    return tuple(names[max((at for at, name in enumerate(names) if name in roots), default=-1) + 1 :])


def _named(frame: str) -> str:
    """Return `module:function` of a frame; empty if it is not a Python frame."""
    found = _FRAME.fullmatch(frame)
    if found is None or found["function"].startswith("thread"):
        return ""
    path = _OUTSIDE.sub("", found["path"], count=1)
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".").strip("<>")
    return f"{module}:{found['function'].replace('.<locals>', '')}"


def trimmed(stacks: Mapping[tuple[str, ...], int]) -> dict[tuple[str, ...], int]:
    """Return the stacks without rare ends, each counted for its longest prefix that is frequent enough."""
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
    """Store the samples in a file: a title, the time of a unit, a line for each stack."""
    lines = [f"# {flames.title}", f"# {flames.unit_us:.1f} us of processor time a {flames.unit}"]
    lines += [f"{';'.join(stack)} {count}" for stack, count in flames.stacks.items()]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def read(path: Path) -> Flames:
    title, time, *lines = path.read_text("utf-8").splitlines()
    stacks = {tuple(frames.split(";")): int(count) for frames, _, count in (line.rpartition(" ") for line in lines)}
    return Flames(title.removeprefix("# "), float(time.split()[1]), stacks, time.split()[-1])


def stages(flames: Flames, known: Sequence[Stage] = STAGES) -> dict[str, float]:
    """Return the microseconds of a unit by stage, in order."""
    shares: Counter[str] = Counter()
    for stack, count in flames.stacks.items():
        shares[_stage(stack, known)] += count
    return {name: shares[name] / flames.samples * flames.unit_us for name in (*(one.name for one in known), _OTHER)}


def part(flames: Flames, known: Sequence[Stage], name: str) -> Flames:
    """Return the samples of one stage."""
    stacks = {stack: count for stack, count in flames.stacks.items() if _stage(stack, known) == name}
    share = sum(stacks.values()) / flames.samples
    return Flames(f"{flames.title}: {name}", share * flames.unit_us, stacks, flames.unit)


def _stage(stack: Sequence[str], known: Sequence[Stage]) -> str:
    callers = [(stage.callers, stage.name) for stage in known if stage.callers]
    innermost_first = [frame.replace(":", ".") for frame in reversed(stack)]
    for of in (callers, [(stage.modules, stage.name) for stage in known]):
        for name in innermost_first:
            fitting = [
                (len(prefix), stage)
                for prefixes, stage in of
                for prefix in prefixes
                if f"{name}.".startswith(f"{prefix}.")
            ]
            if fitting:
                return max(fitting)[1]
    return known[0].name if stack == ("the event loop",) else _OTHER
