"""Finding the member that a record of an import means, in 24 bytes a member.

References are kept as hashes of 64 bits, with a key that is new in each process: of ten million members two share one with a
probability of 3e-6.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.ops.transfer.imported_members import as_name

Positions = NDArray[np.int64]


class _Index(NamedTuple):
    """Hashes in ascending order, and the position of each."""

    hashes: NDArray[np.int64]
    positions: NDArray[np.int32]

    def find(self, wanted: NDArray[np.int64]) -> Positions:
        """The positions of these hashes, -1 for those that are not here; the last one of equal hashes."""
        found = np.full(len(wanted), -1, np.int64)
        if len(self.hashes):
            # In ascending order one look-up is near the last: a third of the time.
            order = np.argsort(wanted)
            ascending = wanted[order]
            at = np.maximum(np.searchsorted(self.hashes, ascending, side="right") - 1, 0)
            found[order] = np.where(self.hashes[at] == ascending, self.positions[at], -1)
        return found


class References:
    """Members by position, found by their id in the file, or else by user name. `add` all of them, then `settle`."""

    def __init__(self) -> None:
        self._added = (array("q"), array("q"))
        self.twice: NDArray[np.bool_] = np.empty(0, np.bool_)
        """By position, whether an earlier record has the name: it is not found."""

    def __len__(self) -> int:
        return len(self.twice)

    def add(self, id_: str, name: str) -> None:
        """The next position is that of a record with this id and user name."""
        ids, names = self._added
        ids.append(hash(id_))
        names.append(hash(name))

    def settle(self) -> None:
        """Make it possible to find them."""
        ids, names = (
            np.frombuffer(column, np.int64) if len(column) else np.empty(0, np.int64) for column in self._added
        )
        order = np.argsort(names, kind="stable")
        again = np.nonzero(names[order[1:]] == names[order[:-1]])[0] + 1
        self.twice = np.zeros(len(names), np.bool_)
        self.twice[order[again]] = True
        self._by_name = _index(names, order[~self.twice[order]])
        order = np.argsort(ids, kind="stable")
        self._by_id = _index(ids, order[~self.twice[order]])
        del self._added

    def find(self, references: Sequence[str]) -> Positions:
        """The position that each means, -1 for nobody."""
        found = self._by_id.find(_hashes(references))
        unknown = np.nonzero(found < 0)[0]
        if len(unknown):
            found[unknown] = self._by_name.find(_hashes([as_name(references[at]) for at in unknown.tolist()]))
        return found


def _index(hashes: NDArray[np.int64], order: NDArray[np.int64]) -> _Index:
    return _Index(hashes[order], order.astype(np.int32))


def _hashes(texts: Sequence[str]) -> NDArray[np.int64]:
    return np.fromiter(map(hash, texts), np.int64, len(texts))
