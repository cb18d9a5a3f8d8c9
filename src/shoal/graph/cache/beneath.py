"""A graph read past the memory in front of it."""

from __future__ import annotations

from shoal.graph.cache.read_sets import unnoted
from shoal.graph.contract import Graph, Store


class Beneath:
    """Reads from the store, and commits through the memory. No answer that is made of what it reads is remembered."""

    def __init__(self, memory: Graph, store: Store) -> None:
        self.obj_get = unnoted(store.obj_get)
        self.key_get = unnoted(store.key_get)
        self.assoc_get = unnoted(store.assoc_get)
        self.assoc_range = unnoted(store.assoc_range)
        self.assoc_ranges = unnoted(store.assoc_ranges)
        self.assoc_ranks = unnoted(store.assoc_ranks)
        self.assoc_ended = unnoted(store.assoc_ended)
        self.assoc_ended_range = unnoted(store.assoc_ended_range)
        self.assoc_count = unnoted(store.assoc_count)
        self.commit = memory.commit
        self.close = memory.close
