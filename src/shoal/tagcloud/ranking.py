"""The first tags of an order, kept while single tags move: never sorted anew from all there are."""

from __future__ import annotations

import heapq

import msgspec

from shoal.tagcloud.heat import NEVER


class Ranking(msgspec.Struct, array_like=True):
    """The greatest ranks, by id. Whatever is not in it has a rank of at most `floor`."""

    ranks: dict[int, float] = {}
    floor: float = NEVER

    def move(self, id_: int, rank: float, most: int) -> None:
        """A tag has this rank now. Of more than twice `most` tags the lowest are let go."""
        if rank > self.floor:
            self.ranks[id_] = rank
            if len(self.ranks) > 2 * most:
                self._cut(most)
        else:
            self.ranks.pop(id_, None)

    def _cut(self, most: int) -> None:
        ordered = self._ordered(len(self.ranks))
        self.floor = self.ranks[ordered[most]]
        self.ranks = {id_: rank for id_ in ordered[:most] if (rank := self.ranks[id_]) > self.floor}

    def first(self, most: int) -> list[int]:
        """The ids with the greatest ranks, greatest first, ties by id."""
        return self._ordered(most)

    def runs_dry(self, wanted: int) -> bool:
        """Whether tags that were let go may be among the first `wanted`."""
        return len(self.ranks) < wanted and self.floor > NEVER

    def _ordered(self, most: int) -> list[int]:
        return heapq.nsmallest(most, self.ranks, key=lambda id_: (-self.ranks[id_], id_))


class Rankings(msgspec.Struct, array_like=True):
    """One for each order, by its name."""

    by_order: dict[str, Ranking] = {}

    def of(self, order: str) -> Ranking:
        """The ranking of this order; an empty one at first."""
        return self.by_order.setdefault(order, Ranking())


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Rankings] = msgspec.msgpack.Decoder(Rankings)


def encode(rankings: Rankings) -> bytes:
    """Rankings as bytes."""
    return _encoder.encode(rankings)


def decode(data: bytes) -> Rankings:
    """Rankings from their bytes; empty ones from none."""
    return _decoder.decode(data) if data else Rankings()
