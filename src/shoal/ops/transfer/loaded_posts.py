"""Posts of an import into an empty network: committed like any others, but nothing of them is looked up before.

A post keeps 200 bytes of memory: its id in the file, its moment, its author and the id that it gets. What it says is put aside
on disk.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shoal.commands import posts
from shoal.commands.context import Writes
from shoal.core.errors import Conflict, InvalidInput
from shoal.core.ids import milliseconds_of, shard_of
from shoal.graph.schema import import_key
from shoal.ops.bounded_tasks import run_bounded
from shoal.ops.checking.report import Progress
from shoal.ops.network import AnyNetwork
from shoal.ops.transfer.backdated import BackdatedIds
from shoal.ops.transfer.imported_members import bulk_keys
from shoal.ops.transfer.imported_posts import (
    NO_AUTHOR,
    PostJob,
    draft_of,
    imported_post,
    note_wording,
    post_records,
    take_posts,
)
from shoal.ops.transfer.loaded_members import LoadedMembers
from shoal.ops.transfer.records import NumberedRow, PostRecord
from shoal.ops.transfer.sources import BEST_CONNECTED, Sources, photos_in
from shoal.ops.transfer.spools import RecordSpool
from shoal.ops.transfer.summary import Summary
from shoal.ops.transfer.wording import worded

_BLOCK = 5_000
_AT_ONCE = 1_024
"""Posts under way: what waits together is committed together."""


class LoadedPosts:
    """The posts of a file, by their positions in it."""

    def __init__(self, spool: RecordSpool[PostRecord]) -> None:
        self._spool = spool
        self._ids: list[str] = []
        self._moments: list[int] = []
        self._author: list[int] = []
        self._authors: dict[str, int] = {}

    def read(self, lines: Iterable[NumberedRow], named: Mapping[str, str], summary: Summary) -> None:
        """Put the records aside."""
        self._spool.fill(self._noted(post_records(lines, named, summary)))

    def _noted(self, records: Iterable[PostRecord]) -> Iterator[PostRecord]:
        for record in records:
            self._ids.append(record.id)
            self._moments.append(record.created_at)
            self._author.append(self._authors.setdefault(record.author, len(self._authors)))
            yield record

    def authors(self, sources: Sources, people: LoadedMembers, degrees: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the position of each post's author among the members, -1 for nobody."""
        if not self._ids:
            return np.empty(0, np.int64)
        names = list(self._authors)
        if sources.authors != BEST_CONNECTED:
            return people.references.find(names)[self._author]
        wrote = Counter(self._author)
        ranked = sorted(range(len(names)), key=lambda author: (-wrote[author], names[author]))
        best = np.argsort(-degrees[~people.references.twice], kind="stable")
        best = np.nonzero(~people.references.twice)[0][best]
        found = np.full(len(names), -1, np.int64)
        found[ranked[: len(best)]] = best[: len(ranked)]
        return found[self._author]

    def firsts(self, authors: NDArray[np.int64], people: int) -> NDArray[np.int64]:
        """Return when each member first posted (Unix ms), 0 for never."""
        never = np.iinfo(np.int64).max
        first = np.full(people, never, np.int64)
        known = authors >= 0
        np.minimum.at(first, authors[known], np.array(self._moments, np.int64)[known])
        first[first == never] = 0
        return first

    async def load(
        self,
        network: AnyNetwork,
        writes: Writes,
        sources: Sources,
        authors: NDArray[np.int64],
        people: LoadedMembers,
        summary: Summary,
        progress: Progress,
        *,
        anew: bool,
    ) -> None:
        """Make the posts that are not there. `anew`: the import was begun before, so some may be."""
        origin = sources.posts.name if sources.posts else ""
        # Told also where there are none.
        summary["posts"], summary["photos"]
        plan = await asyncio.to_thread(self._plan, sources, authors, people)
        start = 0
        for records in self._spool.blocks(_BLOCK):
            jobs = [job for job in plan.jobs(records, start, origin) if self._has_author(job, summary)]
            pictured = [job for job in jobs if job.photo]
            if pictured:
                await take_posts(network, pictured, writes, summary, lambda *_: None, sources.patience)
            plain = [job for job in jobs if not job.photo]
            await _take(network, writes, plain, summary, sources.patience, anew=anew)
            start += len(records)
            progress("posts", start, len(self._ids))

    def _has_author(self, job: PostJob, summary: Summary) -> bool:
        if not job.author:
            summary.refuse("posts", job.record.id, NO_AUTHOR)
        return bool(job.author)

    def _plan(self, sources: Sources, authors: NDArray[np.int64], people: LoadedMembers) -> _Plan:
        members = np.where(authors >= 0, people.ids[authors], 0) if len(people) else np.zeros(len(authors), np.int64)
        order = np.array(sorted(range(len(self._ids)), key=self._ids.__getitem__), np.int64)
        order = order[np.argsort(np.array(self._moments, np.int64)[order], kind="stable")]
        known = [at for at in order.tolist() if members[at]]
        ids = BackdatedIds()
        post_ids = np.zeros(len(order), np.int64)
        for at in known:
            post_ids[at] = ids.take(self._moments[at], shard_of(int(members[at])))
        photos = photos_in(sources.photos) if sources.photos and sources.posts else []
        pictures: dict[int, tuple[Path, int]] = {}
        first = max(0, len(known) - sources.photos_newest) if photos else len(known)
        for place in range(first, len(known)):
            at = known[place]
            # The newest post has the first photo.
            photo = photos[(len(known) - 1 - place) % len(photos)]
            pictures[at] = photo, ids.after(int(post_ids[at]), shard_of(int(members[at])))
        return _Plan(members, post_ids, pictures)


class _Plan:
    """Author, id and picture of every post: the same in every run over the same files."""

    def __init__(
        self, members: NDArray[np.int64], post_ids: NDArray[np.int64], pictures: Mapping[int, tuple[Path, int]]
    ) -> None:
        self._members = members
        self._post_ids = post_ids
        self._pictures = pictures

    def jobs(self, records: Sequence[PostRecord], start: int, origin: str) -> Iterator[PostJob]:
        """The posts of these records, the first of which stands at `start`."""
        for at, record in enumerate(records, start):
            photo, photo_id = self._pictures.get(at, (None, 0))
            author, id_ = int(self._members[at]), int(self._post_ids[at])
            yield PostJob(record, f"{origin}/{record.id}", author, id_, photo, photo_id)


async def _take(
    network: AnyNetwork, writes: Writes, jobs: Sequence[PostJob], summary: Summary, patience: float, *, anew: bool
) -> None:
    missing = jobs
    if anew:
        keys = [import_key(shard_of(job.author), f"post:{job.name}") for job in jobs]
        there = await bulk_keys(network, keys)
        missing = [job for job, key in zip(jobs, keys, strict=True) if key not in there]
        summary["posts"].there += len(jobs) - len(missing)

    async def make(job: PostJob) -> None:
        wording = worded(job.record, writes.limits.text)
        moment = job.record.created_at
        told = 0 if milliseconds_of(job.id) == moment else moment
        draft = draft_of(job.record, wording.text, 0)
        try:
            record = f"post:{job.name}"
            await writes.graph.commit(
                await posts.imported(writes, job.author, draft, id_=job.id, created_at=told, record=record)
            )
        except Conflict:
            # It is there, or a post of somebody else has its id: the usual way sees which.
            await imported_post(writes, job, 0, summary)
        except InvalidInput as error:
            summary.refuse("posts", job.record.id, str(error))
        else:
            note_wording(wording, summary)

    await run_bounded(missing, make, _AT_ONCE, lambda _: None, patience=patience)
