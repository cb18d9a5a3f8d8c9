"""Schemes that place a hash on one of so many servers: modulo, jump hash, and rendezvous."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.study.mixing import Hashes, mixed
from shoal.study.schemes.contract import Loads

Placed = NDArray[np.intp]


class HashedScheme(Protocol):
    """A scheme that needs a hash and the number of servers, and remembers nothing."""

    @property
    def key(self) -> str:
        """The word that chooses it."""
        ...

    @property
    def title(self) -> str:
        """For people."""
        ...

    def place(self, hashes: Hashes, sizes: Sequence[int]) -> list[Placed]:
        """Return the server of each hash, from 0, for each of these numbers of servers."""
        ...


class Modulo:
    """The hash mod the number of servers."""

    key = "modulo"
    title = "XXH3 modulo"

    def place(self, hashes: Hashes, sizes: Sequence[int]) -> list[Placed]:
        """One division for each size."""
        return [(hashes % np.uint64(size)).astype(np.intp) for size in sizes]


class Jump:
    """Jump consistent hash: Lamping and Veach, "A fast, minimal memory, consistent hash algorithm" (2014).

    Servers have numbers, and only the last one can go without the others being renumbered.
    """

    key = "jump"
    title = "Jump hash"

    def place(self, hashes: Hashes, sizes: Sequence[int]) -> list[Placed]:
        """Jump ahead until the number of servers is passed; a smaller number is passed on the way to a larger one."""
        found = [np.zeros(len(hashes), np.intp) for _ in sizes]
        keys, who = hashes.copy(), np.arange(len(hashes))
        at = np.zeros(len(hashes), np.int64)
        while len(who):
            for servers, size in zip(found, sizes, strict=True):
                there = at < size
                servers[who[there]] = at[there]
            keys = keys * np.uint64(2862933555777941757) + np.uint64(1)
            step = (1 << 31) / ((keys >> np.uint64(33)).astype(np.float64) + 1)
            at = ((at + 1) * step).astype(np.int64)
            left = at < max(sizes)
            keys, who, at = keys[left], who[left], at[left]
        return found


class Rendezvous:
    """Rendezvous hashing: Thaler and Ravishankar, "Using name-based mappings to increase hit rates" (1998).

    Every server has a number for every name, and the highest wins.
    """

    key = "rendezvous"
    title = "Rendezvous"

    def place(self, hashes: Hashes, sizes: Sequence[int]) -> list[Placed]:
        """One round for each server; a smaller number of servers is a shorter way."""
        found: dict[int, Placed] = {}
        best = np.zeros(len(hashes), np.uint64)
        winner = np.zeros(len(hashes), np.intp)
        for server in range(max(sizes)):
            score = mixed(hashes, server)
            higher = score > best
            np.copyto(best, score, where=higher)
            winner[higher] = server
            if server + 1 in sizes:
                found[server + 1] = winner.copy()
        return [found[size] for size in sizes]


class ServerLoads:
    """Members of each server in one scheme, for several numbers of servers, and who is elsewhere than in the first of these."""

    def __init__(self, scheme: HashedScheme, sizes: Sequence[int]) -> None:
        self.scheme = scheme
        self.sizes = tuple(sizes)
        self.loads = [Loads(size) for size in sizes]
        self.moved = [0] * len(sizes)

    def add(self, placed: Sequence[Placed], activity: NDArray[np.float64] | None) -> None:
        """Count some members where the scheme has placed them."""
        for at, servers in enumerate(placed):
            self.loads[at].add(servers, activity)
            self.moved[at] += int((servers != placed[0]).sum())
