"""Follows of an import, spooled to disk (16 MB for a million) and written one by one or as whole lists.

Rows of CSV are read in blocks, which takes a third of the time of reading them one by one. A follow has the date of its row.
Without a date, row n has the n-th millisecond after the epoch of ids. So lists are in the order of dates or of the file, and a
second run has an equal result.

No `FollowChanged` event is emitted. Its consumer merges the followee's posts into the follower's materialized (warm) timeline.
An import owns the store, so only timelines read by this process are materialized; they are dropped at the end and rebuilt when
they are read. Half a million events without effect would take as long as the follows.

A bulk import into an empty network sorts follows on disk into the order of the tables. Each follow is an entry of two lists,
the follower's and the followee's. All entries are partitioned into files by list owner; each *part* fits into memory and holds
its lists completely. A list is stored with its length in one transaction, so a stored list is complete, and an interrupted
import continues with the lists that are not stored. If the file has dates, two follows may have equal times, so rows are first
partitioned by follower and their times are made distinct.

    rows of the file -> entries (position, other position, row, direction) -> parts by position -> sorted, deduplicated -> stored
"""

from __future__ import annotations

import asyncio
import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import compress, islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.admin.consistency.scan import Column
from shoal.admin.contract import AnyNetwork
from shoal.admin.imports.members import PER_MS, ImportedMembers
from shoal.admin.imports.records import (
    TICKS,
    UNEVEN,
    Fields,
    Summary,
    moment_of,
    opened,
    read_lines,
    ticks_of,
    written_as_csv,
)
from shoal.admin.report import Progress
from shoal.admin.throttling import run_bounded
from shoal.core.errors import InvalidInput, TooLarge
from shoal.core.ids import EPOCH_MS, SEQUENCE_BITS, SHARD_BITS, compose, now_ms, shard_of
from shoal.graph.bulk import Loading, LoadPart, Occupied, Table
from shoal.graph.contract import AssocOp, Batch
from shoal.graph.schema import ASSOC_TYPES, BLOCKED_BY, BLOCKS, FOLLOWED_BY, FOLLOWS

_ROWS = 200_000


class FollowBlock(NamedTuple):
    """Follows from a file: references to followers and followees, and the times of the follows in ticks (1,024 per millisecond)."""

    followers: Sequence[str]
    followees: Sequence[str]
    moments: NDArray[np.int64]
    dated: bool = False
    """Whether the file has dates. If so, two rows may have equal times."""


def row_moment(since: str, number: int, latest: int) -> int:
    """Return the time of a row in ticks (1,024 per millisecond), from its date or, without a date, from its number.

    Rows with equal dates are a tick apart, because dates in files are usually in whole seconds. Raises `InvalidInput`
    for a date that is invalid or later than `latest` (Unix milliseconds).
    """
    if not since:
        return (1 + number) * TICKS
    moment = moment_of(since)
    if moment > latest:
        raise InvalidInput("date is in the future")
    return ticks_of(moment) + number % TICKS


def follow_blocks(path: Path, named: Mapping[str, str], summary: Summary) -> Iterator[FollowBlock]:
    """Yield the rows of a file of follows in blocks. Unreadable rows are rejected.

    Raises `OSError`, and `InvalidInput` for an unsupported kind of file and for missing columns.
    """
    if written_as_csv(path):
        yield from _of_csv(path, named, summary)
    else:
        yield from _of_lines(path, named, summary)


def _of_csv(path: Path, named: Mapping[str, str], summary: Summary) -> Iterator[FollowBlock]:
    with opened(path) as file:
        reader = csv.reader(file)
        head = next(reader, [])
        number, row = reader.line_num, 0
        columns: tuple[itemgetter[int], ...] = ()
        while rows := list(islice(reader, _ROWS)):
            after = row + len(rows)
            row_numbers: Sequence[int] = range(row, after)
            if set(map(len, rows)) != {len(head)}:
                after = row + sum(map(bool, rows))
                rows, row_numbers = _complete_rows(rows, len(head), number, row, summary)
            if rows:
                columns = columns or _columns(head, named)
                followers, followees, *dates = (list(map(column, rows)) for column in columns)
                yield _block(followers, followees, row_numbers, *dates, summary=summary)
            number, row = reader.line_num, after


def _columns(head: list[str], named: Mapping[str, str]) -> tuple[itemgetter[int], ...]:
    """Return functions that get the follower, the followee and, if there is such a column, the date of a row."""
    fields = Fields("follows", dict.fromkeys(head), named)
    # If several columns have one name, the last of them is used, as in other files of an import.
    last = {name: at for at, name in enumerate(head)}
    expected = ("follower", "followee", "since") if fields.has("since") else ("follower", "followee")
    return tuple(itemgetter(last[fields.column(field)]) for field in expected)


def _block(
    followers: list[str],
    followees: list[str],
    row_numbers: Sequence[int],
    dates: list[str] | None = None,
    *,
    summary: Summary,
) -> FollowBlock:
    """Return the follows in these columns with their times. Follows with an invalid date are rejected."""
    if dates is None:
        return FollowBlock(followers, followees, (np.asarray(row_numbers, np.int64) + 1) * TICKS)
    latest = now_ms()
    moments: list[int] = []
    good: list[bool] = []
    for follower, followee, row, since in zip(followers, followees, row_numbers, dates, strict=True):
        try:
            moments.append(row_moment(since, row, latest))
            good.append(True)
        except InvalidInput as error:
            summary.refuse("follows", f"{follower} -> {followee}", str(error))
            good.append(False)
    return FollowBlock(
        list(compress(followers, good)), list(compress(followees, good)), np.array(moments, np.int64), dated=True
    )


def _complete_rows(
    rows: list[list[str]], width: int, number: int, row_number: int, summary: Summary
) -> tuple[list[list[str]], Sequence[int]]:
    """Return the rows that have `width` columns, each with its number. Other rows are rejected; empty lines are ignored.

    `number` is the number of lines before these rows, and `row_number` the number of the first row.
    """
    even, row_numbers = [], []
    for row in rows:
        number += 1 + sum(cell.count("\n") for cell in row)
        if len(row) == width:
            even.append(row)
            row_numbers.append(row_number)
        elif row:
            summary.refuse("follows", f"line {number}", UNEVEN)
        row_number += bool(row)
    return even, row_numbers


def _of_lines(path: Path, named: Mapping[str, str], summary: Summary) -> Iterator[FollowBlock]:
    fields: Fields | None = None
    numbered = enumerate(read_lines(path))
    while lines := list(islice(numbered, _ROWS)):
        followers: list[str] = []
        followees: list[str] = []
        dates: list[str] = []
        row_numbers: list[int] = []
        for row, line in lines:
            if line.error:
                summary.refuse("follows", f"line {line.number}", line.error)
                continue
            fields = fields or Fields("follows", line.row, named)
            followers.append(fields.text(line.row, "follower"))
            followees.append(fields.text(line.row, "followee"))
            dates.append(fields.text(line.row, "since"))
            row_numbers.append(row)
        timestamps = dates if fields is not None and fields.has("since") else None
        yield _block(followers, followees, row_numbers, timestamps, summary=summary)


OPERATIONS = 1_000
_AT_ONCE = 1_024
"""Number of concurrent batches. The store groups concurrent commits, which then write fewer pages."""


class FollowJob(NamedTuple):
    """Follows of one member, with their distinct times in ticks."""

    follower: int
    followees: list[int]
    moments: list[int]


def references(path: Path, named: Mapping[str, str]) -> Iterator[str]:
    """Yield all references to members in a file of follows."""
    for block in follow_blocks(path, named, Summary()):
        yield from block.followers
        yield from block.followees


def distinct_times(moments: Column) -> Column:
    """Return the times of a follower's follows, given in file order, with at least a tick between any two.

    Follows within one millisecond are sorted by row number, because ticks repeat after 1,024 rows.
    """
    order = np.argsort(moments // TICKS, kind="stable")
    steps = np.arange(len(moments))
    apart = np.empty_like(moments)
    apart[order] = np.maximum.accumulate(moments[order] - steps) + steps
    return apart


async def follow_all(network: AnyNetwork, job: FollowJob, summary: Summary) -> None:
    """Create follows of one member. One read finds the existing follows, and the blocks between members."""
    relations = await network.store.assoc_get(job.follower, (FOLLOWS, BLOCKS, BLOCKED_BY), job.followees)
    shard = shard_of(job.follower)
    batch = Batch(shard)
    there = [followee for followee in job.followees if followee in relations[FOLLOWS]]
    barred = (relations[BLOCKS].keys() | relations[BLOCKED_BY].keys()) - relations[FOLLOWS].keys()
    blocked = [followee for followee in job.followees if followee in barred]
    passed = {*there, *blocked}
    for followee, moment in zip(job.followees, job.moments, strict=True):
        if followee not in passed:
            at = compose(EPOCH_MS + moment // TICKS, shard, moment % TICKS)
            batch.assoc_add(job.follower, FOLLOWS, followee, at)
    if batch.assocs:
        await _commit(network, batch)
    # Count after the commit, because the whole job is retried if the store is unavailable.
    summary["follows"].there += len(there)
    summary["follows"].taken += len(batch.assocs)
    for followee in blocked:
        summary.refuse("follows", f"{job.follower} -> {followee}", "one of them has blocked the other")


async def _commit(network: AnyNetwork, batch: Batch) -> None:
    """Commit a batch. It is split if necessary, because some stores limit the number of changes in a commit."""
    try:
        await network.store.commit(batch)
    except TooLarge:
        if len(batch.assocs) == 1:
            raise
        half = len(batch.assocs) // 2
        for follows in (batch.assocs[:half], batch.assocs[half:]):
            part = Batch(batch.shard)
            part.assocs = follows
            await _commit(network, part)


ENTRIES = 400_000
"""Maximum number of list entries in a part. A single longer list is a part by itself."""
_MOST_PARTS = 500
"""Maximum number of parts. The files of all parts are open concurrently."""
_ROWS_AT_ONCE = 1_000_000
_BULK_CONCURRENCY = 64
_SHARD_MASK = (1 << SHARD_BITS) - 1

_ROW = np.dtype([("follower", "<i4"), ("followee", "<i4"), ("moment", "<i8")])
_ENTRY = np.dtype([("of", "<i4"), ("other", "<i4"), ("moment", "<i8"), ("atype", "i1")])

Rows = NDArray[np.void]


class Prepared(NamedTuple):
    """List entries that are ready to be stored, the numbers of entries and of duplicates, and the rejected follows."""

    part: LoadPart
    entries: int
    twice: int
    refused: Sequence[tuple[int, int]]


class ImportedFollows:
    """The follows of a file, stored on disk as pairs of member positions (row numbers in the file of members)."""

    def __init__(self, folder: Path, people: ImportedMembers) -> None:
        self._folder = folder
        self._people = people
        self._rows = folder / "follows"
        self._dated = False
        self.following, self.followers = (np.zeros(len(people), np.int64) for _ in range(2))
        """`following`: number of follows in the file by each member. `followers`: number of follows in the file of each member."""

    def degrees(self) -> NDArray[np.int64]:
        return self.following + self.followers

    def read(self, blocks: Iterator[FollowBlock], summary: Summary, *, mutual: bool) -> None:
        with self._rows.open("wb") as file:
            for block in blocks:
                rows = self._found(block, summary)
                rows = np.column_stack((rows, _reversed(rows))).ravel() if mutual else rows
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
            summary.refuse("follows", ends, _refusal(int(followers[at]), int(followees[at])))
        rows = np.empty(int(good.sum()), _ROW)
        rows["follower"], rows["followee"] = followers[good], followees[good]
        rows["moment"] = block.moments[good]
        return rows

    async def create(self, network: AnyNetwork, summary: Summary, progress: Progress, patience: float) -> None:
        """Create missing follows one by one. An unavailable store is retried for `patience` seconds."""
        rows = await asyncio.to_thread(np.fromfile, self._rows, _ROW)
        # Of equal follows, keep the first. Group the follows by follower, in file order.
        pairs = rows["follower"].astype(np.int64) * len(self._people) + rows["followee"]
        _, first = np.unique(pairs, return_index=True)
        once = rows[first[np.lexsort((first, rows["follower"][first]))]]
        seen = len(rows) - len(once)
        summary["follows"].there += seen

        async def follow(job: FollowJob) -> None:
            nonlocal seen
            await follow_all(network, job, summary)
            seen += len(job.followees)
            progress("follows", seen, len(rows))

        await run_bounded(self._jobs(once, summary), follow, _AT_ONCE, patience=patience)

    def _jobs(self, rows: Rows, summary: Summary) -> Iterator[FollowJob]:
        ids, names = self._people.ids, self._people.names
        for part in np.split(rows, np.nonzero(np.diff(rows["follower"]))[0] + 1):
            if not len(part):
                continue
            at = int(part["follower"][0])
            follower = int(ids[at])
            known: list[tuple[int, int]] = []
            moments = distinct_times(part["moment"]).tolist()
            for other, moment in zip(part["followee"].tolist(), moments, strict=True):
                followee = int(ids[other])
                if follower and followee:
                    known.append((followee, moment))
                else:
                    end = "followee" if follower else "follower"
                    summary.refuse("follows", f"{names[at]} -> {names[other]}", f"the {end} was refused")
            for start in range(0, len(known), OPERATIONS):
                followees, distinct = zip(*known[start : start + OPERATIONS], strict=True)
                yield FollowJob(follower, list(followees), list(distinct))

    async def load(
        self, network: AnyNetwork, store: Loading, summary: Summary, progress: Progress, patience: float
    ) -> None:
        """Write missing follows directly into the store. An unavailable store is retried for `patience` seconds."""
        paths = await asyncio.to_thread(self._partitioned)
        total, seen = int(self.following.sum()), 0
        for path in paths:
            prepared = await asyncio.to_thread(self._prepared, path)
            for follower, followee in prepared.refused:
                self._refuse(follower, followee, summary)
            await _store(network, store, prepared.part, summary, patience)
            summary["follows"].there += prepared.twice
            path.unlink()
            # Each follow is counted twice: it is an entry of two lists.
            seen += prepared.entries
            progress("follows", seen // 2, total)

    def _refuse(self, follower: int, followee: int, summary: Summary) -> None:
        absent = self._people.absent
        end = "follower" if follower in absent else "followee"
        summary.refuse("follows", absent.get(follower) or absent[followee], f"the {end} was refused")

    def _partitioned(self) -> list[Path]:
        if self._dated:
            self._make_times_distinct()
        entries = (
            np.concatenate((_entries(rows, FOLLOWS.number), _entries(_reversed(rows), FOLLOWED_BY.number)))
            for rows in _read_blocks(self._rows, _ROW)
        )
        paths = _partition(entries, "of", _parts(self.degrees()), self._folder / "part")
        self._rows.unlink()
        return paths

    def _make_times_distinct(self) -> None:
        """Give each follow of a follower a distinct time, equal in both lists. A duplicate row gets the time of the first."""
        paths = _partition(_read_blocks(self._rows, _ROW), "follower", _parts(self.following), self._folder / "dated")
        with self._rows.open("wb") as file:
            for path in paths:
                _with_distinct_times(np.fromfile(path, _ROW)).tofile(file)
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
        # Of equal follows, keep the first.
        first = np.ones(len(links), np.bool_)
        first[1:] = (links[1:, :3] != links[:-1, :3]).any(axis=1)
        twice = int((~first & (links[:, 1] == FOLLOWS.number)).sum())
        links = np.ascontiguousarray(links[first])
        return Prepared(LoadPart(links=links, counts=_lengths(links)), len(entries), twice, refused)


def _reversed(rows: Rows) -> Rows:
    turned = np.empty(len(rows), _ROW)
    turned["follower"], turned["followee"], turned["moment"] = rows["followee"], rows["follower"], rows["moment"]
    return turned


def _entries(rows: Rows, atype: int) -> Rows:
    entries = np.empty(len(rows), _ENTRY)
    entries["of"], entries["other"], entries["moment"] = rows["follower"], rows["followee"], rows["moment"]
    entries["atype"] = atype
    return entries


def _with_distinct_times(rows: Rows) -> Rows:
    """Give the follows of each follower distinct times. `rows` contains all follows of a follower, in file order."""
    pairs = np.column_stack((rows["follower"], rows["followee"]))
    once, first, which = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    order = np.lexsort((first, once[:, 0]))
    cuts = np.nonzero(np.diff(once[order, 0]))[0] + 1
    apart = np.empty(len(once), np.int64)
    apart[order] = np.concatenate([distinct_times(part) for part in np.split(rows["moment"][first[order]], cuts)])
    rows["moment"] = apart[which.ravel()]
    return rows


def _partition(blocks: Iterable[Rows], by: str, parts: NDArray[np.int64], start: Path) -> list[Path]:
    """Write the rows of `blocks`, in their order, to one file per part; its path begins with `start`.

    `parts` maps the member in the column `by` to a part.
    """
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


def _read_blocks(path: Path, form: np.dtype[np.void]) -> Iterator[Rows]:
    with path.open("rb") as file:
        while len(rows := np.fromfile(file, form, _ROWS_AT_ONCE)):
            yield rows


def _parts(entries: NDArray[np.int64]) -> NDArray[np.int64]:
    """Divide members, by position, into parts with similar numbers of list entries. Return the part of each member.

    A part covers a range of ids, so members whose ids have the same millisecond are in one part: within a millisecond,
    ids are not in the order of positions.
    """
    groups = np.add.reduceat(entries, np.arange(0, len(entries), PER_MS)) if len(entries) else entries
    most = max(ENTRIES, int(entries.sum()) // _MOST_PARTS + 1)
    ends = (np.cumsum(groups) - 1) // most
    # A group with more than `most` entries leaves a gap in the numbers in `ends`, so renumber the parts consecutively.
    _, numbered = np.unique(ends, return_inverse=True)
    return np.repeat(numbered.astype(np.int64), PER_MS)[: len(entries)]


def _lengths(links: Table) -> Table:
    """Return the id, type and length of each list. The list entries must be sorted."""
    if not len(links):
        return np.empty((0, 3), np.int64)
    begins = np.nonzero(np.concatenate(([True], (links[1:, :2] != links[:-1, :2]).any(axis=1))))[0]
    return np.column_stack((links[begins, :2], np.diff(np.append(begins, len(links)))))


def _refusal(follower: int, followee: int) -> str:
    if follower < 0 and followee < 0:
        return "neither the follower nor the followee is a member"
    if follower == followee:
        return "a member cannot follow themselves"
    return f"the {'follower' if follower < 0 else 'followee'} is not a member"


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
    """Return the follow lists of `part` that the store lacks, and those of which it has only some entries."""
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
    """Complete follow lists that the store has in part. Adding is idempotent, so all their entries are added."""

    async def add(batch: Batch) -> None:
        await network.store.commit(batch)

    def batches() -> Iterator[Batch]:
        cuts = np.nonzero((begun.links[1:, :2] != begun.links[:-1, :2]).any(axis=1))[0] + 1
        for rows in np.split(begun.links, cuts):
            for start in range(0, len(rows), OPERATIONS):
                batch = Batch(shard_of(int(rows[0, 0])))
                for id1, atype, id2, moment in rows[start : start + OPERATIONS].tolist():
                    batch.put(AssocOp(id1, atype, id2, moment, alive=True, plain=True))
                yield batch

    if len(begun.links):
        await run_bounded(batches(), add, _BULK_CONCURRENCY, patience=patience)
