"""Engines of a shared network for benchmarks, each in a temporary folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from shoal.settings import Settings, build
from shoal_devcluster import postgres, rabbitmq, redis
from shoal_devcluster.program import Program


class Engines(NamedTuple):
    """Running engines: the requested number of stores, Redis, and optionally the broker."""

    stores: list[Program]
    redis: Program
    broker: Program | None

    def settings(self, **more: object) -> Settings:
        """Return settings of a network on these engines; the data sources are distributed evenly over the stores, in order."""
        share = 64 // len(self.stores)
        ranges = {f"{n * share}-{n * share + share - 1}": store.url for n, store in enumerate(self.stores)}
        broker = self.broker.url if self.broker is not None else ""
        return build(
            store=ranges, timelines=self.redis.url, broker=broker, media="memory://", rate_limits=False, **more
        )


@contextmanager
def engines(stores: int, *, broker: bool = False) -> Iterator[Engines]:
    folder = Path(tempfile.mkdtemp(prefix="shoal-bench-"))
    folder.chmod(0o755)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        servers = []
        for n in range(stores):
            servers.append(postgres.start(folder / f"store-{n}"))
            stack.callback(servers[-1].stop)
        cache = redis.start(folder)
        stack.callback(cache.stop)
        carrier = None
        if broker:
            carrier = rabbitmq.start(folder / "broker")
            # Kill the broker: a clean stop would take ten seconds, and the folder of the broker is deleted anyway.
            stack.callback(carrier.kill)
        yield Engines(servers, cache, carrier)
