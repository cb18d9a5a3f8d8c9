"""A graph read past the memory in front of it."""

from __future__ import annotations

from shoal.graph.contract import Graph, Store


class Beneath:
    """Reads from the store, and commits through the memory."""

    def __init__(self, memory: Graph, store: Store) -> None:
        self.obj_get = store.obj_get
        self.key_get = store.key_get
        self.assoc_get = store.assoc_get
        self.assoc_range = store.assoc_range
        self.assoc_ranges = store.assoc_ranges
        self.assoc_ranks = store.assoc_ranks
        self.assoc_ended = store.assoc_ended
        self.assoc_ended_range = store.assoc_ended_range
        self.assoc_count = store.assoc_count
        self.commit = memory.commit
        self.close = memory.close
