"""Follows of an import into an empty network, sorted on disk into the order of the tables, and written as whole lists.

Each follow is an entry of two lists. All entries are dealt into files by whose list they are in, and each file is a *part*: so
many lists that it fits into memory, and of every list all of it. A list is stored with its length in one transaction. So a
list that is there is whole, and an import that was ended goes on with those that are not.
Where the file has dates, two follows may have the same moment: before that, rows are dealt by follower, and moved apart.

    rows of the file -> entries (position, other position, row, direction) -> parts by position -> sorted, each once -> stored
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.ids import SEQUENCE_BITS, SHARD_BITS, shard_of
from shoal.graph.bulk import Loading, LoadPart, Occupied, Table
from shoal.graph.contract import AssocOp, Batch
from shoal.graph.schema import ASSOC_TYPES, FOLLOWED_BY, FOLLOWS
from shoal.ops.bounded_tasks import run_bounded
from shoal.ops.checking.report import Progress
from shoal.ops.network import AnyNetwork
from shoal.ops.transfer.backdated import TICKS
from shoal.ops.transfer.follow_blocks import FollowBlock
from shoal.ops.transfer.imported_follows import told_apart
from shoal.ops.transfer.loaded_members import PER_MS, LoadedMembers
from shoal.ops.transfer.summary import Summary

ENTRIES = 400_000
"""Entries of a part, unless a single list has more."""
_MOST_PARTS = 500
"""Files that are open at once."""
_DEALT = 1_000_000
_OPERATIONS = 1_000
_AT_ONCE = 64
_SHARD_MASK = (1 << SHARD_BITS) - 1

_ROW = np.dtype([("follower", "<i4"), ("followee", "<i4"), ("moment", "<i8")])
_ENTRY = np.dtype([("of", "<i4"), ("other", "<i4"), ("moment", "<i8"), ("atype", "i1")])

Rows = NDArray[np.void]


class Prepared(NamedTuple):
    """A part, how many entries of the file it stands for, and how many follows of those came twice or were refused."""

    part: LoadPart
    entries: int
    twice: int
    refused: Sequence[tuple[int, int]]


class LoadedFollows:
    """The follows of a file, put aside in a directory as pairs of positions."""

    def __init__(self, folder: Path, people: LoadedMembers) -> None:
        self._folder = folder
        self._people = people
        self._rows = folder / "follows"
        self._dated = False
        self.following, self.followers = (np.zeros(len(people), np.int64) for _ in range(2))
        """How many follows each has in the file, and how many lead to them."""

    def degrees(self) -> NDArray[np.int64]:
        """Return both together."""
        return self.following + self.followers

    def read(self, blocks: Iterator[FollowBlock], summary: Summary, *, mutual: bool) -> None:
        """Put the follows aside."""
        with self._rows.open("wb") as file:
            for block in blocks:
                rows = self._found(block, summary)
                rows = np.column_stack((rows, _turned(rows))).ravel() if mutual else rows
                rows.tofile(file)
                self._dated |= block.dated
                self.following += np.bincount(rows["follower"], minlength=len(self._people))
                self.followers += np.bincount(rows["followee"], minlength=len(self._people))

    def _found(self, block: FollowBlock, summary: Summary) -> Rows:
        find = self._people.references.find
        followers, followees = find(block.followers), find(block.followees)
        good = (followers >= 0) & (followees >= 0) & (followers != followees)
        for at in np.nonzero(~good)[0].tolist():
            ends = f"{block.followers[at]} -> {block.followees[at]}"
            summary.refuse("follows", ends, _wrong(int(followers[at]), int(followees[at])))
        rows = np.empty(int(good.sum()), _ROW)
        rows["follower"], rows["followee"] = followers[good], followees[good]
        rows["moment"] = block.moments[good]
        return rows

    async def load(
        self, network: AnyNetwork, store: Loading, summary: Summary, progress: Progress, patience: float
    ) -> None:
        """Store the lists that are not there. `patience` is that of `run_bounded`."""
        paths = await asyncio.to_thread(self._dealt)
        total, seen = int(self.following.sum()), 0
        for path in paths:
            prepared = await asyncio.to_thread(self._prepared, path)
            for follower, followee in prepared.refused:
                self._refuse(follower, followee, summary)
            await _store(network, store, prepared.part, summary, patience)
            summary["follows"].there += prepared.twice
            path.unlink()
            # Each follow is an entry of two lists.
            seen += prepared.entries
            progress("follows", seen // 2, total)

    def _refuse(self, follower: int, followee: int, summary: Summary) -> None:
        absent = self._people.absent
        end = "follower" if follower in absent else "followee"
        summary.refuse("follows", absent.get(follower) or absent[followee], f"the {end} was refused")

    def _dealt(self) -> list[Path]:
        """Deal the entries into files, each of the lists of members who stand together, in their order."""
        if self._dated:
            self._tell_apart()
        entries = (
            np.concatenate((_entries(rows, FOLLOWS.number), _entries(_turned(rows), FOLLOWED_BY.number)))
            for rows in _in_turn(self._rows, _ROW)
        )
        paths = _deal(entries, "of", _parts(self.degrees()), self._folder / "part")
        self._rows.unlink()
        return paths

    def _tell_apart(self) -> None:
        """Give each of a follower's follows a moment of its own, which both ends have; equal ones have that of the first."""
        paths = _deal(_in_turn(self._rows, _ROW), "follower", _parts(self.following), self._folder / "dated")
        with self._rows.open("wb") as file:
            for path in paths:
                _told_apart(np.fromfile(path, _ROW)).tofile(file)
                path.unlink()

    def _prepared(self, path: Path) -> Prepared:
        entries = np.fromfile(path, _ENTRY)
        ids = self._people.ids
        of, other = ids[entries["of"]], ids[entries["other"]]
        there = (of != 0) & (other != 0)
        begins = entries["atype"] == FOLLOWS.number
        lost = entries[~there & begins]
        refused = list(zip(lost["of"].tolist(), lost["other"].tolist(), strict=True))
        shards = (np.where(begins, of, other) >> SEQUENCE_BITS) & _SHARD_MASK
        milliseconds, ticks = np.divmod(entries["moment"], TICKS)
        times = milliseconds << (SEQUENCE_BITS + SHARD_BITS) | shards << SEQUENCE_BITS | ticks
        links = np.column_stack((of, entries["atype"].astype(np.int64), other, times))[there]
        links = links[np.lexsort((links[:, 3], links[:, 2], links[:, 1], links[:, 0]))]
        # Of equal follows the first one counts.
        first = np.ones(len(links), np.bool_)
        first[1:] = (links[1:, :3] != links[:-1, :3]).any(axis=1)
        twice = int((~first & (links[:, 1] == FOLLOWS.number)).sum())
        links = np.ascontiguousarray(links[first])
        return Prepared(LoadPart(links=links, counts=_lengths(links)), len(entries), twice, refused)


def _turned(rows: Rows) -> Rows:
    """Turn rows around, so that they are seen from their other end."""
    turned = np.empty(len(rows), _ROW)
    turned["follower"], turned["followee"], turned["moment"] = rows["followee"], rows["follower"], rows["moment"]
    return turned


def _entries(rows: Rows, atype: int) -> Rows:
    entries = np.empty(len(rows), _ENTRY)
    entries["of"], entries["other"], entries["moment"] = rows["follower"], rows["followee"], rows["moment"]
    entries["atype"] = atype
    return entries


def _told_apart(rows: Rows) -> Rows:
    """Move apart the follows of some members, all of them, given in the order of the file."""
    pairs = np.column_stack((rows["follower"], rows["followee"]))
    once, first, which = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    order = np.lexsort((first, once[:, 0]))
    cuts = np.nonzero(np.diff(once[order, 0]))[0] + 1
    apart = np.empty(len(once), np.int64)
    apart[order] = np.concatenate([told_apart(part) for part in np.split(rows["moment"][first[order]], cuts)])
    rows["moment"] = apart[which.ravel()]
    return rows


def _deal(blocks: Iterable[Rows], by: str, parts: NDArray[np.int64], start: Path) -> list[Path]:
    """Deal rows into files by the part of the position that they have in a column. Their order stays."""
    paths = [start.with_name(f"{start.name}-{at}") for at in range(int(parts[-1]) + 1 if len(parts) else 0)]
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for rows in blocks:
            to = parts[rows[by]]
            order = np.argsort(to, kind="stable")
            cuts = np.searchsorted(to[order], np.arange(len(paths) + 1))
            dealt = rows[order]
            for at in np.unique(to).tolist():
                dealt[cuts[at] : cuts[at + 1]].tofile(files[at])
    return paths


def _in_turn(path: Path, form: np.dtype[np.void]) -> Iterator[Rows]:
    with path.open("rb") as file:
        while len(rows := np.fromfile(file, form, _DEALT)):
            yield rows


def _parts(entries: NDArray[np.int64]) -> NDArray[np.int64]:
    """The part of each position. Members whose ids say the same millisecond stay together, for they stand in no order."""
    groups = np.add.reduceat(entries, np.arange(0, len(entries), PER_MS)) if len(entries) else entries
    most = max(ENTRIES, int(entries.sum()) // _MOST_PARTS + 1)
    ends = (np.cumsum(groups) - 1) // most
    # Parts that would be empty, behind a list that is longer than a part, are left out.
    _, numbered = np.unique(ends, return_inverse=True)
    return np.repeat(numbered.astype(np.int64), PER_MS)[: len(entries)]


def _lengths(links: Table) -> Table:
    """The lists of these entries, which are sorted by them, and how long each is."""
    if not len(links):
        return np.empty((0, 3), np.int64)
    begins = np.nonzero(np.concatenate(([True], (links[1:, :2] != links[:-1, :2]).any(axis=1))))[0]
    return np.column_stack((links[begins, :2], np.diff(np.append(begins, len(links)))))


def _wrong(follower: int, followee: int) -> str:
    if follower < 0 and followee < 0:
        return "the follower and the followee are not among the members"
    if follower == followee:
        return "nobody follows themselves"
    return f"the {'follower' if follower < 0 else 'followee'} is not among the members"


async def _store(network: AnyNetwork, store: Loading, part: LoadPart, summary: Summary, patience: float) -> None:
    try:
        await store.load(part)
        new = part
    except Occupied:
        new, begun = await _not_there(network, part)
        if new:
            await store.load(new)
        await _complete(network, begun, patience)
        new = LoadPart(links=np.concatenate((new.links, begun.links)))
    taken = int((new.links[:, 1] == FOLLOWS.number).sum())
    summary["follows"].taken += taken
    summary["follows"].there += int((part.links[:, 1] == FOLLOWS.number).sum()) - taken


async def _not_there(network: AnyNetwork, part: LoadPart) -> tuple[LoadPart, LoadPart]:
    """Return the lists of which nothing is there, and those of which something is, but not all."""
    ids = np.unique(part.counts[:, 0]).tolist()
    stored = await network.store.assoc_count(ids, (FOLLOWS, FOLLOWED_BY))
    lengths = np.array([stored[ASSOC_TYPES[atype]].get(id1, 0) for id1, atype in part.counts[:, :2].tolist()], np.int64)
    of_list = np.repeat(np.arange(len(part.counts)), part.counts[:, 2])
    new, begun = lengths == 0, (lengths > 0) & (lengths != part.counts[:, 2])
    return (
        LoadPart(links=part.links[new[of_list]], counts=part.counts[new]),
        LoadPart(links=part.links[begun[of_list]], counts=part.counts[begun]),
    )


async def _complete(network: AnyNetwork, begun: LoadPart, patience: float) -> None:
    """Add to lists that somebody has begun already: entry by entry, as a repair does."""

    async def add(batch: Batch) -> None:
        await network.store.commit(batch)

    def batches() -> Iterator[Batch]:
        cuts = np.nonzero((begun.links[1:, :2] != begun.links[:-1, :2]).any(axis=1))[0] + 1
        for rows in np.split(begun.links, cuts):
            for start in range(0, len(rows), _OPERATIONS):
                batch = Batch(shard_of(int(rows[0, 0])))
                for id1, atype, id2, moment in rows[start : start + _OPERATIONS].tolist():
                    batch.put(AssocOp(id1, atype, id2, moment, alive=True, plain=True))
                yield batch

    if len(begun.links):
        await run_bounded(batches(), add, _AT_ONCE, lambda _: None, patience=patience)
