"""Timelines on Redis: sorted sets, lists and packed strings, then the fan-out of one worker through `RedisTimelines`.

All take entries for the same members in random order, and hold 800. The raw engine is a socket that sends pre-encoded ZADD
commands, each followed by a trim, and reads the responses. It and the worker run in alternating rounds, and the median round of
each counts. The maximum rate of the server and its longest calls are computed from the CPU time of its thread, which does not
depend on other load.
"""

from __future__ import annotations

import asyncio
import random
import socket
import statistics
import struct
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import uvloop
from redis import Redis

from benchmarks.measure import Report, parser
from shoal.core.ids import EPOCH_MS, compose
from shoal.graph.contract import Cursor
from shoal.graph.redis.client import Nodes, keys_of
from shoal.timelines.redis import RedisTimelines
from shoal.timelines.redis_scripts import PUSH
from shoal_devcluster import redis as engine

_BATCH = 100
_LENGTH = 800
_OPEN = "#!lua flags=allow-cross-slot-keys\nlocal entry, score = ARGV[2], ARGV[3]\nfor i = 1, #ARGV[1], 25 do "
_KEY = "local key = string.sub(ARGV[1], i, i + 24) "
_ZADD = _OPEN + _KEY + "redis.call('ZADD', key, score, entry) redis.call('ZREMRANGEBYRANK', key, 0, -801) end return 1"
# Does what a timeline requires: it trims the list and keeps the highest trimmed entry as the floor.
_RPUSH = (
    _OPEN
    + _KEY
    + """
local count = redis.pcall('RPUSHX', key, entry)
if type(count) == 'table' then error(count) end
if count >= 825 then
  local out, floor = redis.call('LRANGE', key, 0, count - 801), -1
  for at = 1, #out do floor = math.max(floor, (struct.unpack('<d', out[at]))) end
  redis.call('LTRIM', key, -800, -1)
end
end return 1"""
)
_GET = _OPEN + _KEY + "local all = redis.call('GET', key) end return 1"
_CONCAT = _OPEN + _KEY + "local all = table.concat(redis.call('LRANGE', key, 0, -1)) end return 1"
_JOBS = 4
"""Number of posts that a worker fans out concurrently."""


def member_ids(count: int) -> list[int]:
    """Return ids of members on random shards, with random times of sign-up."""
    return [compose(EPOCH_MS + 7_919 * 32 * n, 613 * n % 8_192) for n in range(1, count + 1)]


def entry(n: int) -> int:
    """Return the n-th entry: ascending, and as large as real ones."""
    return compose(EPOCH_MS + 10_000_000_000 + 1_000 * n, 5)


class Bench:
    def __init__(self, url: str, members: int) -> None:
        self.server: Any = Redis.from_url(url)
        self.port = int(url.rsplit(":", 1)[1].partition("/")[0])
        self.members = member_ids(members)
        self.keys = [row.tobytes() for row in keys_of("b", np.array(self.members))]
        # Turn off the slow log, because the measured bytes would include it.
        self.server.config_set("slowlog-log-slower-than", -1)
        self.before = 0

    def anew(self) -> None:
        self.server.flushall()
        self.start_bytes()

    def start_bytes(self) -> None:
        self.before = int(self.server.info("memory")["used_memory"])

    def bytes_an_entry(self) -> float:
        """Return the server's bytes per entry, including keys, with timelines of 800."""
        return (int(self.server.info("memory")["used_memory"]) - self.before) / (len(self.keys) * _LENGTH)

    def reset_clocks(self) -> None:
        self.server.config_resetstat()

    def cpu(self) -> float:
        spent = self.server.info("cpu")
        return float(spent["used_cpu_user_main_thread"] + spent["used_cpu_sys_main_thread"])

    def in_batches(self, size: int) -> Iterator[list[bytes]]:
        """Return all keys in random order, in batches."""
        order = random.Random(5).sample(self.keys, len(self.keys))
        return (order[first : first + size] for first in range(0, len(order), size))


def _encoded(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def raw_zadd(bench: Bench, rounds: int, *, first: int, trim: bool) -> float:
    """Return the deliveries per second of a socket that sends commands encoded beforehand."""
    plan: list[tuple[bytes, int]] = []
    for n in range(first, first + rounds):
        # Scores are floating-point numbers, so only small ones are exact.
        score, packed = b"%d" % n, struct.pack("<q", entry(n))
        for keys in bench.in_batches(_BATCH):
            lines = [_encoded(b"ZADD", key, score, packed) for key in keys]
            if trim:
                lines += [_encoded(b"ZREMRANGEBYRANK", key, b"0", b"-801") for key in keys]
            plan.append((b"".join(lines), len(lines)))
    with socket.create_connection(("127.0.0.1", bench.port)) as connection:
        started = time.perf_counter()
        for lines_sent, answers in plan:
            connection.sendall(lines_sent)
            came = 0
            while came < answers:
                came += connection.recv(1 << 16).count(b"\n")
        return rounds * len(bench.keys) / (time.perf_counter() - started)


def fill(bench: Bench, act: Callable[[Any, bytes], object]) -> None:
    """Fill every key with its 800 entries."""
    bench.anew()
    for keys in bench.in_batches(200):
        pipeline = bench.server.pipeline(transaction=False)
        for key in keys:
            act(pipeline, key)
        pipeline.execute()


def scripted(bench: Bench, script: str, rounds: int, *, packed: bool = False) -> float:
    """Return the members per second that the server can process with a script."""
    sha = bench.server.script_load(script)
    before = bench.cpu()
    for n in range(2_000_000, 2_000_000 + rounds):
        sent = struct.pack("<q", entry(n))
        for keys in bench.in_batches(_BATCH):
            # Script arguments of `RedisTimelines`: capacity, cut position and interval, half of the maximum, cuts; the entry.
            shape = (6_400, 9_312, 180, 5_616, 4, sent, len(keys), b"0") if packed else (sent, n)
            bench.server.execute_command("EVALSHA", sha, 0, b"".join(keys), *shape)
    return rounds * len(bench.keys) / (bench.cpu() - before)


_SORTED = {struct.pack("<q", entry(n)): n for n in range(_LENGTH)}


def compare(bench: Bench, rounds: int, report: Report) -> None:
    """Compare packed strings, lists and sorted sets by the server's CPU time; the sorted sets remain in the server."""
    fill(bench, lambda pipeline, key: pipeline.set(key, bytes(32) + b"".join(_SORTED)))
    scripted(bench, PUSH.text, 600, packed=True)
    report.add("packed string", bench.bytes_an_entry(), "bytes/entry")
    report.add("script, packed string", scripted(bench, PUSH.text, rounds, packed=True), "deliveries/s of CPU")
    report.add("script, reading a packed string", scripted(bench, _GET, 1), "reads/s of CPU")
    fill(bench, lambda pipeline, key: pipeline.rpush(key, *_SORTED))
    report.add("list", bench.bytes_an_entry(), "bytes/entry")
    report.add("script, RPUSHX, trimmed 25 at a time", scripted(bench, _RPUSH, rounds), "deliveries/s of CPU")
    report.add("script, reading a list in one piece", scripted(bench, _CONCAT, 1), "reads/s of CPU")
    bench.server.config_set("zset-max-listpack-entries", 1_000)
    fill(bench, lambda pipeline, key: pipeline.zadd(key, _SORTED))
    report.add("sorted set, listpack", bench.bytes_an_entry(), "bytes/entry")
    report.add("script, ZADD and trim: listpack", scripted(bench, _ZADD, 1), "deliveries/s of CPU")
    bench.server.config_set("zset-max-listpack-entries", 128)
    fill(bench, lambda pipeline, key: pipeline.zadd(key, _SORTED))
    report.add("sorted set, skip list", bench.bytes_an_entry(), "bytes/entry")
    report.add("script, ZADD and trim: skip list", scripted(bench, _ZADD, rounds // 3), "deliveries/s of CPU")


async def fan_out(bench: Bench, url: str, rounds: int, turns: int, report: Report) -> None:
    """Measure the packed strings of `RedisTimelines` in turns with the raw engine."""
    nodes = Nodes(url)
    timelines = RedisTimelines(nodes, _LENGTH, clock=lambda: EPOCH_MS / 1000)
    bench.start_bytes()
    newest = [entry(n) for n in range(_LENGTH)]
    for member in bench.members:
        await timelines.create(member)
        await timelines.fill(member, newest, 0)
    report.add("packed string, filled", bench.bytes_an_entry(), "bytes/entry")
    order = [timelines.slots(random.Random(n).sample(bench.members, len(bench.members))) for n in range(8)]
    for n in range(_LENGTH // 2):
        await timelines.push(entry(_LENGTH + n), order[n % 8])
    report.add("packed string, in use", bench.bytes_an_entry(), "bytes/entry")
    bench.reset_clocks()
    rates: list[tuple[float, float, float]] = []
    cpu, written, newest_pushed = 0.0, 0, 0
    for turn in range(turns):
        at = 3_000_000 + turn * 3 * rounds
        bare = raw_zadd(bench, rounds, first=at, trim=False)
        trimmed = raw_zadd(bench, rounds, first=at + rounds, trim=True)
        before, started, count = bench.cpu(), time.perf_counter(), 0
        for n in range(0, rounds * 3, _JOBS):
            jobs = [timelines.push(entry(at + job), order[job % 8]) for job in range(n, n + _JOBS)]
            count += sum(await asyncio.gather(*jobs))
            newest_pushed = at + n + _JOBS - 1
        rates.append((bare, trimmed, count / (time.perf_counter() - started)))
        cpu += bench.cpu() - before
        written += count
    bare, trimmed, ours = (statistics.median(turn[which] for turn in rates) for which in range(3))
    report.add("raw socket, ZADD without a trim", bare, "deliveries/s")
    report.add("raw socket, ZADD and trim", trimmed, "deliveries/s")
    fan_outs = turns * len(range(0, rounds * 3, _JOBS)) * _JOBS
    report.check("deliveries that were written", written, fan_outs * len(bench.members))
    report.check(
        "timelines that have the newest entry on top",
        await topped(bench, timelines, newest_pushed),
        len(bench.members),
    )
    report.add("fan-out of one worker, compared with ZADD and trim", ours, "deliveries/s", raw=trimmed)
    report.add("fan-out of one worker, compared with ZADD without a trim", ours, "deliveries/s", raw=bare)
    report.add("the server alone, its memory full of sorted sets", written / cpu, "deliveries/s of CPU")
    report.add("of them cut", bench.server.info("commandstats")["cmdstat_get"]["calls"] / written * 100, "%")
    await others(bench, timelines, order[0], report)
    await timelines.close()
    await nodes.close()


async def topped(bench: Bench, timelines: RedisTimelines, newest: int) -> int:
    """Return the number of timelines that begin with this entry."""
    pages = await asyncio.gather(*[timelines.read(member, Cursor(limit=1)) for member in bench.members])
    return sum(page is not None and page.ids == [entry(newest)] for page in pages)


async def others(bench: Bench, timelines: RedisTimelines, slots: Any, report: Report) -> None:
    """Measure everything except pushes of new entries to warm timelines."""
    started = time.perf_counter()
    for n in range(5):
        await timelines.push(entry(-900_000 + n), slots)
    report.add("pushes of old entries", 5 * len(slots) / (time.perf_counter() - started), "deliveries/s")
    cold = timelines.slots([member + 1 for member in bench.members])
    started = time.perf_counter()
    for n in range(5):
        await timelines.push(entry(50_000 + n), cold)
    report.add("pushes to the cold", 5 * len(cold) / (time.perf_counter() - started), "members/s")
    started = time.perf_counter()
    await timelines.remove(entry(1), slots)
    report.add("removals", len(slots) / (time.perf_counter() - started), "members/s")
    some = bench.members[: min(2_000, len(bench.members))]
    started = time.perf_counter()
    for member in some:
        await timelines.read(member, Cursor(limit=20))
    report.add("a page, alone", (time.perf_counter() - started) / len(some) * 1e6, "us")
    started = time.perf_counter()
    for first in range(0, len(some), 50):
        await asyncio.gather(*(timelines.read(member, Cursor(limit=20)) for member in some[first : first + 50]))
    report.add("a page, 50 at once", (time.perf_counter() - started) / len(some) * 1e6, "us")
    await longest(bench, timelines, report)


async def longest(bench: Bench, timelines: RedisTimelines, report: Report) -> None:
    full = timelines.slots(bench.members[:300])
    wide = [entry(40_000 + 7 * n) for n in range(_LENGTH)]
    kinds: dict[str, Callable[[int], Awaitable[object]]] = {
        "push to 300 members, 4 of them cut": lambda n: timelines.push(entry(70_000 + n), full),
        "removal from 50 members": lambda n: timelines.remove(entry(70_000 + n), full[:50]),
        "reading 16": lambda _: asyncio.gather(*(timelines.read(m, Cursor(limit=20)) for m in bench.members[:16])),
        "union of 800": lambda n: timelines.union(bench.members[n], wide, 0),
        "subtracting 800": lambda n: timelines.subtract(bench.members[n], wide),
    }
    for kind, act in kinds.items():
        spent = []
        for n in range(400 if kind.startswith("push") else 100):
            before = bench.cpu()
            await act(n)
            spent.append(bench.cpu() - before)
        report.add(f"longest call: {kind}", max(spent) * 1_000, "ms of CPU")


def main() -> None:
    options = parser(
        __doc__,
        quick={"members": 1_000, "rounds": 5},
        smallest={"members": 300, "rounds": 2, "turns": 1},
    )
    options.add_argument("--members", type=int, default=5_000, help="number of members with a timeline")
    options.add_argument(
        "--rounds", type=int, default=20, help="number of entries that a round pushes to each timeline"
    )
    options.add_argument("--turns", type=int, default=5, help="number of rounds for each data structure")
    chosen = options.parse_args()
    report = Report("redis_structures", chosen.size)
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as name:
        Path(name).chmod(0o755)
        program = engine.start(Path(name))
        try:
            bench = Bench(program.url, chosen.members)
            report.add("redis", float(bench.server.info("server")["redis_version"].rpartition(".")[0]))
            compare(bench, chosen.rounds, report)
            uvloop.run(fan_out(bench, program.url, chosen.rounds, chosen.turns, report))
            bench.server.close()
        finally:
            program.stop()
    report.show()


if __name__ == "__main__":
    main()
