"""Import the files of a network in a separate process: `python -m benchmarks.sized_import SETTINGS FOLDER`.

It prints one line of JSON.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from shoal import Shoal
from shoal.admin.imports.files import Sources
from shoal.admin.imports.records import Summary
from shoal.admin.imports.run import import_all
from shoal.app import process


class Imported(msgspec.Struct):
    """The result of an import: records by kind, seconds by phase, total processor seconds, and peak memory in bytes."""

    way: str
    taken: dict[str, int]
    seconds: dict[str, float]
    processor: float
    memory: int


async def _imported(settings: dict[str, Any], folder: Path) -> Imported:
    process.prepare()
    store = settings.pop("store")
    sources = Sources(members=folder / "members.csv", follows=folder / "follows.csv", posts=folder / "posts.jsonl")
    async with Shoal.open(store, media="memory://", **settings) as shoal:
        summary = await import_all(shoal.network, sources, Summary())
    taken = {kind: aggregate_id.taken for kind, aggregate_id in summary.counts.items()}
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Imported(summary.way, taken, summary.seconds, time.process_time(), most)


if __name__ == "__main__":
    found = uvloop.run(_imported(msgspec.json.decode(sys.argv[1]), Path(sys.argv[2])))
    print(msgspec.json.encode(found).decode(), flush=True)
