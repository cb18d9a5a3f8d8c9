"""Increments delivered to a collector and not yet acknowledged: each once, however many queues brought it.

A receipt is good for the connection that brought it. When that ends, everything here is forgotten: the broker delivers it again.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from shoal.tagcloud.contract import Parcel
from shoal.tagcloud.places import QueuePlace

_REMEMBERED = 10_000
"""So many ids of increments that are done are known here, for the copies that other queues bring soon after."""


class QueueReceipt(NamedTuple):
    """From which place in the line for a queue it came, and under which number."""

    place: QueuePlace
    tag: int


class Deliveries:
    """Increments by id, with a receipt for each of their deliveries; `arrived` are those that nobody has looked at."""

    def __init__(self) -> None:
        self._parcels: dict[bytes, Parcel] = {}
        self._receipts: dict[bytes, list[QueueReceipt]] = {}
        self._done: OrderedDict[bytes, None] = OrderedDict()
        self.arrived: list[Parcel] = []
        self.taken = 0

    def arrive(self, parcel: Parcel, receipt: QueueReceipt) -> bool:
        """A delivery came. False when its increment is done: then the receipt can be given at once."""
        self.taken += 1
        if parcel.id in self._done:
            return False
        self._receipts.setdefault(parcel.id, []).append(receipt)
        if parcel.id not in self._parcels:
            self._parcels[parcel.id] = parcel
            self.arrived.append(parcel)
        return True

    def again(self) -> None:
        """Have everything that is not done looked at once more."""
        self.arrived = list(self._parcels.values())

    def take(self) -> list[Parcel]:
        """Take the increments that have arrived since the last call."""
        taken, self.arrived = self.arrived, []
        return taken

    def done(self, ids: Iterable[bytes]) -> list[QueueReceipt]:
        """These are done: the receipts to give for them."""
        given: list[QueueReceipt] = []
        for id_ in ids:
            self._parcels.pop(id_, None)
            given += self._receipts.pop(id_, ())
            self._done[id_] = None
        while len(self._done) > _REMEMBERED:
            self._done.popitem(last=False)
        return given

    def forget(self, place: QueuePlace) -> None:
        """Forget a place's deliveries: the broker gives them to others. Those that also came from elsewhere stay."""
        for id_, receipts in list(self._receipts.items()):
            left = [receipt for receipt in receipts if receipt.place is not place]
            if left:
                self._receipts[id_] = left
            else:
                del self._receipts[id_], self._parcels[id_]

    def clear(self) -> None:
        """The connection has ended."""
        self._parcels.clear()
        self._receipts.clear()
        self.arrived.clear()

    def by_place(self) -> Counter[QueuePlace]:
        """How many deliveries from each place wait for their receipt."""
        return Counter(receipt.place for receipts in self._receipts.values() for receipt in receipts)
