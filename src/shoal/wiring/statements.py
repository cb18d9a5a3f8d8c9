"""Requests to engines, counted by the parts that make them: how many each store was sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shoal.graph.contract import Store
from shoal.graph.sharding.sharded_graph import ShardedGraph
from shoal.tagcloud.contract import CloudStore
from shoal.wiring.sharing import Sharing


class Statements:
    """The stores of a network that are asked over a connection. A file or memory in this process is asked uncounted."""

    def __init__(self, store: Store, tags: CloudStore, sharing: Sharing | None) -> None:
        self._store = store
        self._tags = tags
        self._sharing = sharing

    def sent(self) -> Mapping[str, int]:
        """Return how many statements, requests or scripts were sent since the process began.

        They go by store: `graph-0` and so on in the order of the shard map, `tags`, and `shared` for home timelines and
        whatever else processes share.
        """
        return {name: sent for name, part in self._parts() if (sent := _sent(part)) is not None}

    def _parts(self) -> Iterator[tuple[str, object]]:
        stores = self._store.stores if isinstance(self._store, ShardedGraph) else (self._store,)
        for at, store in enumerate(stores):
            yield f"graph-{at}", store
        yield "tags", self._tags
        if self._sharing is not None:
            yield "shared", self._sharing


def _sent(part: object) -> int | None:
    sent = getattr(part, "round_trips", None)
    # A store that could not be opened yet has a function by every name.
    return sent if isinstance(sent, int) else None
