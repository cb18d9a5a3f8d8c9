"""Posts of an import, with their photos, created through `shoal.commands` or in bulk.

A post has a unique name in the store, by which it is recognized after an interruption. A photo is decoded once, even if
several posts show it; each post has its own media object and files. An import decodes several photos concurrently. A
server decodes one at a time, next to its requests.

A post takes 200 bytes of memory: its id in the file, its time, its author and its new id. Its text is stored on disk. A
bulk import into an empty network commits posts as usual, but looks nothing up before.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.admin.contract import AnyNetwork
from shoal.admin.imports.files import BEST_CONNECTED, RecordSpool, Sources, photos_in
from shoal.admin.imports.members import ImportedMembers, bulk_keys
from shoal.admin.imports.records import (
    BackdatedIds,
    NumberedRow,
    PostRecord,
    Summary,
    Wording,
    post_record,
    readable_rows,
    worded,
)
from shoal.admin.report import Progress
from shoal.admin.throttling import run_bounded
from shoal.commands import media, posts
from shoal.commands.context import Writes
from shoal.commands.posts import Draft
from shoal.core.errors import Conflict, Gone, InvalidInput, ShoalError, Unavailable
from shoal.core.ids import milliseconds_of, now_ms, shard_of
from shoal.graph.schema import import_key
from shoal.media.decoder import Decoder
from shoal.media.limits import UploadLimits
from shoal.media.protocol import Rendering

_AT_ONCE = 512
"""Number of posts that are created concurrently. The store groups their commits."""
_PICTURES_AT_ONCE = 32
NO_AUTHOR = "the author is not a member"
_ID_TRIES = 8
_REMEMBERED_BYTES = 256 * 1024 * 1024


class CachingDecoder(Decoder):
    """A media decoder that caches its results for one import, within bounded memory."""

    def __init__(self, limits: UploadLimits, *, children: int) -> None:
        super().__init__(limits, children=children, max_waiting=_PICTURES_AT_ONCE, max_of_one=_PICTURES_AT_ONCE)
        self._made: dict[bytes, asyncio.Task[Rendering]] = {}
        self._bytes_left = _REMEMBERED_BYTES

    async def render(self, data: bytes, *, member: str = "", keep_kind: bool = False, still: bool = False) -> Rendering:
        name = sha256(data).digest()
        task = self._made.get(name)
        if task is None:
            task = asyncio.create_task(super().render(data, member=member, keep_kind=keep_kind, still=still))
            self._bytes_left -= len(data)
            if self._bytes_left > 0:
                self._made[name] = task
        return await asyncio.shield(task)


class PostJob(NamedTuple):
    record: PostRecord
    name: str
    author: int
    id: int
    photo: Path | None
    photo_id: int


def post_records(lines: Iterable[NumberedRow], named: Mapping[str, str], summary: Summary) -> Iterator[PostRecord]:
    """Iterate over the records in file order. A record whose id occurred before is rejected."""
    seen: set[str] = set()
    latest = now_ms()
    for fields, line in readable_rows("posts", lines, named, summary):
        try:
            record = post_record(fields, line)
        except InvalidInput as error:
            summary.refuse("posts", fields.text(line.row, "id") or f"line {line.number}", str(error))
            continue
        if record.created_at > latest:
            summary.refuse("posts", record.id, "its time is in the future")
        elif not record.id or record.id in seen:
            summary.refuse("posts", record.id or f"line {line.number}", "its id is empty or that of an earlier record")
        else:
            seen.add(record.id)
            yield record


async def _create_posts(
    network: AnyNetwork, jobs: Sequence[PostJob], writes: Writes, summary: Summary, patience: float
) -> None:
    """Create the posts that do not exist. `writes` uses the import's own media library.

    An unavailable store is retried for `patience` seconds.
    """
    keys = [import_key(shard_of(job.author), f"post:{job.name}") for job in jobs]
    known = await bulk_keys(network, keys)
    missing = [job for job, key in zip(jobs, keys, strict=True) if key not in known]
    summary["posts"].there += len(jobs) - len(missing)
    await _count_photos(network, [job for job, key in zip(jobs, keys, strict=True) if key in known], summary)
    limit = asyncio.Semaphore(_PICTURES_AT_ONCE)

    async def make(job: PostJob) -> None:
        picture = 0
        if job.photo:
            async with limit:
                picture = await _picture(writes, job, job.photo, summary)
        await imported_post(writes, job, picture, summary)

    # Begin with posts that have pictures, because other processes decode the pictures while the rest is created.
    missing.sort(key=lambda job: job.photo is None)
    await run_bounded(missing, make, _AT_ONCE, patience=patience)


async def _count_photos(network: AnyNetwork, there: Sequence[PostJob], summary: Summary) -> None:
    """Count the pictures of existing posts. A missing picture is reported: it was rejected before, or added to the files later."""
    keys = {import_key(shard_of(job.author), f"photo:{job.name}"): job.photo for job in there if job.photo}
    known = await bulk_keys(network, list(keys))
    summary["photos"].there += len(known)
    for key, photo in keys.items():
        if key not in known:
            summary.refuse("photos", photo.name, "its post is there already, without it")


def draft_of(record: PostRecord, text: str, picture: int) -> Draft:
    """Return the draft of a record with the given text. `picture` is the id of its media object; 0 for none."""
    return Draft(text=text, sensitive=record.sensitive, language=record.language, media=(picture,) if picture else ())


async def imported_post(writes: Writes, job: PostJob, picture: int, summary: Summary) -> None:
    """Create a post through `shoal.commands`. If that fails, record the reason of the rejection."""
    wording = worded(job.record, writes.limits.text)
    try:
        await _create(writes, job, draft_of(job.record, wording.text, picture))
    except Unavailable:
        # The error is not due to this record, so abort the import. The next run resumes it.
        raise
    except ShoalError as error:
        summary.refuse("posts", job.record.id, str(error))
        return
    note_wording(wording, summary)


def note_wording(wording: Wording, summary: Summary) -> None:
    summary["posts"].taken += 1
    summary["tags"].taken += wording.tags
    for name, reason in wording.refused_tags:
        summary.refuse("tags", name, reason)
    if wording.cut:
        summary.note("text was cut at the limit", "texts were cut at the limit")
    if wording.cleaned:
        summary.note("text lost characters that are not text", "texts lost characters that are not text")


async def _create(writes: Writes, job: PostJob, draft: Draft) -> None:
    """Create a post. If a post of another import has its id, the next id is tried."""
    record = f"post:{job.name}"
    for step in range(_ID_TRIES):
        id_ = job.id + step
        moment = job.record.created_at
        explicit_time = 0 if milliseconds_of(id_) == moment else moment
        try:
            await posts.create(writes, job.author, draft, id_=id_, created_at=explicit_time, record=record)
        except Conflict:
            if step == _ID_TRIES - 1:
                raise
        except Gone:
            # The author has deleted the post after an earlier import.
            return
        else:
            return


async def _picture(writes: Writes, job: PostJob, photo: Path, summary: Summary) -> int:
    """Return the id of the post's media object; 0 for a file that is no picture."""
    data = await asyncio.to_thread(photo.read_bytes)
    try:
        found = await media.upload(writes, job.author, data, id_=job.photo_id, record=f"photo:{job.name}")
    except InvalidInput as error:
        summary.refuse("photos", photo.name, str(error))
        return 0
    summary["photos"].taken += 1
    return found.id


@asynccontextmanager
async def with_own_decoder(network: AnyNetwork) -> AsyncIterator[Writes]:
    """Yield the network's `Writes` with a media decoder of the import's own, which has one process per core."""
    async with CachingDecoder(network.media.limits, children=os.cpu_count() or 1) as decoder:
        yield dataclasses.replace(network.writes.trusted(), media=network.media.with_decoder(decoder))


_BLOCK = 5_000
_BULK_CONCURRENCY = 1_024
"""Number of posts that are created concurrently. The store groups their commits."""


class ImportedPosts:
    def __init__(self, spool: RecordSpool[PostRecord]) -> None:
        self._spool = spool
        self._ids: list[str] = []
        self._moments: list[int] = []
        self._author: list[int] = []
        self._authors: dict[str, int] = {}

    def read(self, lines: Iterable[NumberedRow], named: Mapping[str, str], summary: Summary) -> None:
        self._spool.fill(self._indexed(post_records(lines, named, summary)))

    def _indexed(self, records: Iterable[PostRecord]) -> Iterator[PostRecord]:
        for record in records:
            self._ids.append(record.id)
            self._moments.append(record.created_at)
            self._author.append(self._authors.setdefault(record.author, len(self._authors)))
            yield record

    def authors(self, sources: Sources, people: ImportedMembers, degrees: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return, for each post, the position of its author among the members; -1 if the author is unknown.

        `degrees` has the number of follows of and by each member, for `BEST_CONNECTED`.
        """
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
        """Return the time of each member's first post (Unix ms); 0 without a post."""
        never = np.iinfo(np.int64).max
        first = np.full(people, never, np.int64)
        known = authors >= 0
        np.minimum.at(first, authors[known], np.array(self._moments, np.int64)[known])
        first[first == never] = 0
        return first

    async def create(
        self,
        network: AnyNetwork,
        writes: Writes,
        sources: Sources,
        authors: NDArray[np.int64],
        people: ImportedMembers,
        summary: Summary,
        progress: Progress,
        *,
        bulk: bool,
        resumed: bool,
    ) -> None:
        """Create the posts that do not exist. In a bulk import that is not `resumed`, no post exists."""
        origin = sources.posts.name if sources.posts else ""
        # Create both counts, so that the report lists posts and photos even if there are none.
        summary["posts"], summary["photos"]
        plan = await asyncio.to_thread(self._plan, sources, authors, people)
        start = 0
        for records in self._spool.blocks(_BLOCK):
            jobs = []
            for job in plan.jobs(records, start, origin):
                if job.author:
                    jobs.append(job)
                else:
                    summary.refuse("posts", job.record.id, NO_AUTHOR)
            if through_commands := [job for job in jobs if job.photo or not bulk]:
                await _create_posts(network, through_commands, writes, summary, sources.patience)
            if bulk:
                in_bulk = [job for job in jobs if not job.photo]
                await _commit_posts(network, writes, in_bulk, summary, sources.patience, resumed=resumed)
            start += len(records)
            progress("posts", start, len(self._ids))

    def _plan(self, sources: Sources, authors: NDArray[np.int64], people: ImportedMembers) -> _Plan:
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
        for index in range(first, len(known)):
            at = known[index]
            # Assign the photos from the newest post to the oldest, so that the newest post has the first photo.
            photo = photos[(len(known) - 1 - index) % len(photos)]
            pictures[at] = photo, ids.after(int(post_ids[at]), shard_of(int(members[at])))
        return _Plan(members, post_ids, pictures)


class _Plan(NamedTuple):
    """The author, id and picture of every post. Every run over the same files yields the same plan."""

    members: NDArray[np.int64]
    post_ids: NDArray[np.int64]
    pictures: Mapping[int, tuple[Path, int]]

    def jobs(self, records: Sequence[PostRecord], start: int, origin: str) -> Iterator[PostJob]:
        """Yield the posts to create from these records of the file `origin`, beginning with record number `start`."""
        for at, record in enumerate(records, start):
            photo, photo_id = self.pictures.get(at, (None, 0))
            author, id_ = int(self.members[at]), int(self.post_ids[at])
            yield PostJob(record, f"{origin}/{record.id}", author, id_, photo, photo_id)


async def _commit_posts(
    network: AnyNetwork, writes: Writes, jobs: Sequence[PostJob], summary: Summary, patience: float, *, resumed: bool
) -> None:
    """Commit new posts. Only a `resumed` import looks up whether they exist."""
    missing = jobs
    if resumed:
        keys = [import_key(shard_of(job.author), f"post:{job.name}") for job in jobs]
        there = await bulk_keys(network, keys)
        missing = [job for job, key in zip(jobs, keys, strict=True) if key not in there]
        summary["posts"].there += len(jobs) - len(missing)

    async def make(job: PostJob) -> None:
        wording = worded(job.record, writes.limits.text)
        moment = job.record.created_at
        explicit_time = 0 if milliseconds_of(job.id) == moment else moment
        draft = draft_of(job.record, wording.text, 0)
        try:
            record = f"post:{job.name}"
            await writes.graph.commit(
                await posts.imported(writes, job.author, draft, id_=job.id, created_at=explicit_time, record=record)
            )
        except Conflict:
            # The post exists already, or another post has its id. `imported_post` handles both cases.
            await imported_post(writes, job, 0, summary)
        except InvalidInput as error:
            summary.refuse("posts", job.record.id, str(error))
        else:
            note_wording(wording, summary)

    await run_bounded(missing, make, _BULK_CONCURRENCY, patience=patience)
