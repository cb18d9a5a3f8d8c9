"""Schemes that place a 64-bit XXH3 hash on a server: modulo, jump hash, rendezvous and a ring of virtual nodes.

XXH3 (Collet) comes from the optional package xxhash. The ring: Karger and others, "Consistent hashing and random trees" (1997);
Mirrokni, Thorup and Zadimoghaddam, "Consistent hashing with bounded loads" (2016). All members between two adjacent points
of the ring have the same choice of servers, so only the counts of these arcs are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from math import ceil
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal_study.name_schemes import Loads
from shoal_study.names import Amounts, Hashes, NameBatch, Numbers, mixed

PACKAGE = "xxhash"


def is_installed() -> bool:
    """Return whether the package that computes the hashes can be imported."""
    try:
        return find_spec(PACKAGE) is not None
    except ValueError:
        return False


@cache
def hash_function() -> Callable[[bytes], int]:
    """Return the function that computes the XXH3 hash of some bytes."""
    digest: Callable[[bytes], int] = import_module(PACKAGE).xxh3_64_intdigest
    return digest


def hashes_of(batch: NameBatch) -> Hashes:
    """Return the XXH3 hash of each name."""
    return np.fromiter(map(hash_function(), batch.encoded()), np.uint64, batch.size)


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


VIRTUAL_NODES = 160
"""Points of one server on the ring: as many as libketama has."""
BOUND = 1.1
"""No server has more than so many times the mean."""


class ArcShare(NamedTuple):
    """Some members of an arc, next to each other, on one server."""

    server: int
    members: int


class Ring:
    """The points of the largest number of servers. A ring of fewer is the same ring without the points of the others."""

    def __init__(self, servers: int, points: int = VIRTUAL_NODES) -> None:
        hash_of = hash_function()
        named = [(hash_of(f"{server}/{at}".encode()), server) for server in range(servers) for at in range(points)]
        named.sort()
        self._points: Hashes = np.array([point for point, _ in named], np.uint64)
        self._owners = np.array([server for _, server in named], np.intp)
        self.arcs = Loads(len(named))
        """The members whose hash lies before each point, and behind the one before."""

    def place(self, hashes: Hashes) -> NDArray[np.intp]:
        """Return the arc of each hash; past the last point the ring begins again."""
        return np.searchsorted(self._points, hashes) % len(self._points)

    def owners(self, servers: int) -> NDArray[np.intp]:
        """Return the server of each arc where there are so many."""
        size = len(self._owners)
        mine = np.flatnonzero(self._owners < servers)
        next_one = np.searchsorted(mine, np.arange(size)) % len(mine)
        return self._owners[mine[next_one]]

    def loads(self, servers: int) -> Loads:
        """Add up the arcs of each server."""
        return _added(self.owners(servers), self.arcs, servers)

    def moved(self, before: int, after: int) -> int:
        """Return how many members have another server when there are `after` of them."""
        return int(self.arcs.members[self.owners(before) != self.owners(after)].sum())

    def bounded(self, servers: int, bound: float = BOUND) -> list[list[ArcShare]]:
        """Return, for each arc, which of its members are where when no server has more than `bound` times the mean.

        Members come in the order of their hashes, and one whose server is full goes to the next one on the ring that is not. So two
        processes that know the same members agree.
        """
        total = int(self.arcs.members.sum())
        room = [ceil(bound * total / servers)] * servers
        owners = [int(owner) for owner in self._owners]
        return [
            list(_shares(int(members), _clockwise(owners, arc, servers), room))
            for arc, members in enumerate(self.arcs.members)
        ]


def bounded_loads(shares: Sequence[Sequence[ArcShare]], servers: int) -> Numbers:
    """Add up what each server has."""
    found = np.zeros(servers, np.int64)
    for arc in shares:
        for share in arc:
            found[share.server] += share.members
    return found


def bounded_activity(shares: Sequence[Sequence[ArcShare]], arcs: Loads, servers: int) -> Amounts:
    """Add up how active each server's members are; those of a divided arc count as alike."""
    found = np.zeros(servers)
    for arc, members, activity in zip(shares, arcs.members, arcs.activity, strict=True):
        for share in arc:
            found[share.server] += activity * share.members / members
    return found


def bounded_moved(before: Sequence[Sequence[ArcShare]], after: Sequence[Sequence[ArcShare]]) -> int:
    """Return how many members have another server; the members of an arc stand in the same order before and after."""
    return sum(map(_differing, before, after))


def _shares(members: int, servers: Iterator[int], room: list[int]) -> Iterator[ArcShare]:
    while members:
        server = next(servers)
        taken = min(members, room[server])
        if taken:
            room[server] -= taken
            members -= taken
            yield ArcShare(server, taken)


def _clockwise(owners: Sequence[int], arc: int, servers: int) -> Iterator[int]:
    size = len(owners)
    for step in range(size):
        owner = owners[(arc + step) % size]
        if owner < servers:
            yield owner


def _differing(before: Sequence[ArcShare], after: Sequence[ArcShare]) -> int:
    """Walk along an arc, from border to border of either division, and add up where the servers differ."""
    differing = 0
    left, right = list(before[::-1]), list(after[::-1])
    while left and right:
        (mine, here), (yours, there) = left.pop(), right.pop()
        both = min(here, there)
        differing += both if mine != yours else 0
        if here > both:
            left.append(ArcShare(mine, here - both))
        if there > both:
            right.append(ArcShare(yours, there - both))
    return differing


def _added(owners: NDArray[np.intp], arcs: Loads, servers: int) -> Loads:
    found = Loads(servers)
    found.members += np.bincount(owners, arcs.members, minlength=servers).astype(np.int64)
    found.activity += np.bincount(owners, arcs.activity, minlength=servers)
    return found
