"""Schemes that place a 64-bit XXH3 hash on a server: modulo, jump hash, rendezvous and a ring of virtual nodes.

XXH3 (Collet) comes from the optional package xxhash. The ring: Karger and others, "Consistent hashing and random trees"
(1997); Mirrokni, Thorup and Zadimoghaddam, "Consistent hashing with bounded loads" (2016). All members between two
adjacent points of the ring have equal choices of servers, so only the counts of these arcs are kept.
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
    try:
        return find_spec(PACKAGE) is not None
    except ValueError:
        return False


@cache
def hash_function() -> Callable[[bytes], int]:
    digest: Callable[[bytes], int] = import_module(PACKAGE).xxh3_64_intdigest
    return digest


def hashes_of(batch: NameBatch) -> Hashes:
    return np.fromiter(map(hash_function(), batch.encoded()), np.uint64, batch.size)


Placed = NDArray[np.intp]


class HashedScheme(Protocol):
    """A placement scheme without stored state: it assigns a name by its hash and the number of servers."""

    @property
    def key(self) -> str: ...

    @property
    def title(self) -> str: ...

    def place(self, hashes: Hashes, sizes: Sequence[int]) -> list[Placed]:
        """Return the server (from 0) of each hash, for each of these numbers of servers."""


class Modulo:
    key = "modulo"
    title = "XXH3 modulo"

    def place(self, hashes: Hashes, sizes: Sequence[int]) -> list[Placed]:
        return [(hashes % np.uint64(size)).astype(np.intp) for size in sizes]


class Jump:
    """Jump consistent hash: Lamping and Veach, "A fast, minimal memory, consistent hash algorithm" (2014).

    Servers are numbered, and only the last one can be removed without renumbering the others.
    """

    key = "jump"
    title = "Jump hash"

    def place(self, hashes: Hashes, sizes: Sequence[int]) -> list[Placed]:
        """Return the server of each hash, for each number of servers. The search for the largest number also finds the others."""
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

    Each server has a weight for each name. A name belongs to the server with the highest weight.
    """

    key = "rendezvous"
    title = "Rendezvous"

    def place(self, hashes: Hashes, sizes: Sequence[int]) -> list[Placed]:
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
    """Counts the members of each server in one scheme for several numbers of servers, and the members who move between these."""

    def __init__(self, scheme: HashedScheme, sizes: Sequence[int]) -> None:
        self.scheme = scheme
        self.sizes = tuple(sizes)
        self.loads = [Loads(size) for size in sizes]
        self.moved = [0] * len(sizes)

    def add(self, placed: Sequence[Placed], activity: NDArray[np.float64] | None) -> None:
        for at, servers in enumerate(placed):
            self.loads[at].add(servers, activity)
            self.moved[at] += int((servers != placed[0]).sum())


VIRTUAL_NODES = 160
"""Points per server on the ring: as many as in libketama."""
BOUND = 1.1
"""Maximum load of a server as a multiple of the mean."""


class ArcShare(NamedTuple):
    """Consecutive members of an arc of a hash ring who are on one server."""

    server: int
    members: int


class Ring:
    """A hash ring with points for `servers` servers. To study fewer servers, the points of the last servers are ignored."""

    def __init__(self, servers: int, points: int = VIRTUAL_NODES) -> None:
        hash_of = hash_function()
        named = [(hash_of(f"{server}/{at}".encode()), server) for server in range(servers) for at in range(points)]
        named.sort()
        self._points: Hashes = np.array([point for point, _ in named], np.uint64)
        self._owners = np.array([server for _, server in named], np.intp)
        self.arcs = Loads(len(named))
        """Members by the next point after their hash."""

    def place(self, hashes: Hashes) -> NDArray[np.intp]:
        return np.searchsorted(self._points, hashes) % len(self._points)

    def owners(self, servers: int) -> NDArray[np.intp]:
        size = len(self._owners)
        mine = np.flatnonzero(self._owners < servers)
        next_one = np.searchsorted(mine, np.arange(size)) % len(mine)
        return self._owners[mine[next_one]]

    def loads(self, servers: int) -> Loads:
        return self.arcs.grouped(self.owners(servers), servers)

    def moved(self, before: int, after: int) -> int:
        return int(self.arcs.members[self.owners(before) != self.owners(after)].sum())

    def bounded(self, servers: int, bound: float = BOUND) -> list[list[ArcShare]]:
        """Return for each arc of a hash ring how its members are divided if no server has more than `bound` times the mean.

        Members are assigned in the order of their hashes, and one whose server is full goes to the next one on the ring with
        capacity, so two processes that know equal sets of members agree.
        """
        total = int(self.arcs.members.sum())
        capacity = [ceil(bound * total / servers)] * servers
        owners = [int(owner) for owner in self._owners]
        return [
            list(_shares(int(members), _clockwise(owners, arc, servers), capacity))
            for arc, members in enumerate(self.arcs.members)
        ]


def bounded_loads(shares: Sequence[Sequence[ArcShare]], servers: int) -> Numbers:
    found = np.zeros(servers, np.int64)
    for arc in shares:
        for share in arc:
            found[share.server] += share.members
    return found


def bounded_activity(shares: Sequence[Sequence[ArcShare]], arcs: Loads, servers: int) -> Amounts:
    """Sum the activity per server; the members of an arc that is divided count as equally active."""
    found = np.zeros(servers)
    for arc, members, activity in zip(shares, arcs.members, arcs.activity, strict=True):
        for share in arc:
            found[share.server] += activity * share.members / members
    return found


def bounded_moved(before: Sequence[Sequence[ArcShare]], after: Sequence[Sequence[ArcShare]]) -> int:
    """Return how many members have another server after the change. Members of an arc keep their order."""
    return sum(map(_differing, before, after))


def _shares(members: int, servers: Iterator[int], capacity: list[int]) -> Iterator[ArcShare]:
    while members:
        server = next(servers)
        taken = min(members, capacity[server])
        if taken:
            capacity[server] -= taken
            members -= taken
            yield ArcShare(server, taken)


def _clockwise(owners: Sequence[int], arc: int, servers: int) -> Iterator[int]:
    size = len(owners)
    for step in range(size):
        owner = owners[(arc + step) % size]
        if owner < servers:
            yield owner


def _differing(before: Sequence[ArcShare], after: Sequence[ArcShare]) -> int:
    """Count the members of an arc whose server differs between two divisions of the arc."""
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
