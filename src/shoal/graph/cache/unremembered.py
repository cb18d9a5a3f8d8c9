"""Questions that a graph with a memory leaves to the store below it: keys, positions, ends, the outbox and scans."""

from __future__ import annotations

from shoal.graph.contract import Store


class Unremembered:
    """The questions to a store whose answers are not remembered."""

    def __init__(self, store: Store) -> None:
        self.key_get = store.key_get
        self.assoc_ranks = store.assoc_ranks
        self.assoc_ended = store.assoc_ended
        self.assoc_ended_range = store.assoc_ended_range
        self.claim = store.claim
        self.ack = store.ack
        self.put_back = store.put_back
        self.bury = store.bury
        self.backlog = store.backlog
        self.lag = store.lag
        self.buried = store.buried
        self.unbury = store.unbury
        self.on_event = store.on_event
        self.obj_scan = store.obj_scan
        self.assoc_scan = store.assoc_scan
        self.count_scan = store.count_scan
        self.block_scan = store.block_scan
        self.block_drop = store.block_drop
        self.sweep = store.sweep
        self.sweep_history = store.sweep_history
