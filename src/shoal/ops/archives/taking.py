"""Posts and photos of an archive become ours, through the services, with their dates.

Each is recognised by its record, so a run that ended at any moment, even by `kill -9`, is run again and goes on where it was.
Nobody is told of the posts: they mention nobody, and enter timelines where their dates put them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from msgspec.structs import replace

from shoal.archives.plan import ArchivePlan
from shoal.archives.records import ArchivedPhoto, ArchivedPost, ArchiveKind, Omission
from shoal.archives.report import Amounts, ArchiveReport
from shoal.commands import media, posts
from shoal.commands.posts import Draft
from shoal.core.errors import Conflict, Gone, InvalidInput, NotAllowed, NotFound, Taken, Unfit
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import Post, Visibility
from shoal.core.text import is_blank
from shoal.graph.access import access_member
from shoal.graph.schema import Key, import_key
from shoal.ops.archives.backdated_slots import Slots, near
from shoal.ops.archives.process import ArchiveProcess
from shoal.ops.bounded_tasks import PATIENCE_SECONDS, run_bounded
from shoal.ops.checking.report import Progress
from shoal.ops.network import AnyNetwork
from shoal.ops.transfer.wording import cut

_CHUNK = 200
"""Posts that are looked up together, and then made."""
_AT_ONCE = 16
_PHOTOS_AT_ONCE = 2
_TRIES = 3
"""Records under which a photo is looked for: it may have been taken in by a run that was given up, and been deleted since."""
_BEHIND_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 60.0
_PAUSE_SECONDS = 0.1
_LANGUAGE = 35
"""Characters of the name of a language."""
_ID = re.compile(r"[0-9]{1,18}")
_NO_PARENT = -1
_OPENNESS = (Visibility.FOLLOWERS, Visibility.UNLISTED, Visibility.PUBLIC)


class _Job(NamedTuple):
    """A post to be made; `begun`: its first part is there."""

    position: int
    record: ArchivedPost
    begun: bool


class _Counts:
    """Counts of a post, which enter the report once it is known how it ended: one that is begun anew is counted once."""

    def __init__(self) -> None:
        self._omitted: list[tuple[str, Omission, str]] = []
        self._cut = 0
        self.continued = False

    def omit(self, kind: str, reason: Omission, example: str) -> None:
        """As `ArchiveReport.omit`."""
        self._omitted.append((kind, reason, example))

    def cut_to(self, whole: str, kept: str) -> str:
        """Return what is kept of a text."""
        self._cut += kept != whole
        return kept

    def add_to(self, report: ArchiveReport) -> None:
        """Count them."""
        for omitted in self._omitted:
            report.omit(*omitted)
        report.cut += self._cut
        report.continued += self.continued


class ArchiveTaking:
    """One archive on its way in."""

    def __init__(
        self,
        network: AnyNetwork,
        member_id: int,
        plan: ArchivePlan,
        process: ArchiveProcess,
        report: ArchiveReport,
        slots: Slots,
        *,
        widest: Visibility = Visibility.PUBLIC,
    ) -> None:
        self._network = network
        self._writes = network.writes
        self._member_id = member_id
        self._shard = shard_of(member_id)
        self._plan = plan
        self._process = process
        self._report = report
        self._widest = widest
        self._slots = slots
        self._photo_turns = asyncio.Semaphore(_PHOTOS_AT_ONCE)
        # Posts that others answer, by their positions.
        self._ids: dict[int, int] = {}

    async def run(self, progress: Progress) -> None:
        """Take in what is not there yet. Raises `Unavailable` for a store that stays away, `Gone` for a member who left."""
        total, done = len(self._plan.order), 0
        for level in self._plan.levels():
            for start in range(0, len(level), _CHUNK):
                chunk = level[start : start + _CHUNK]
                await access_member(self._writes.graph, self._member_id)
                before = done

                def told(finished: int, before: int = before) -> None:
                    progress("posts", before + finished, total)

                await run_bounded(await self._missing(chunk), self._take, _AT_ONCE, told, patience=PATIENCE_SECONDS)
                done += len(chunk)
                progress("posts", done, total)
                await self._rest()

    async def _missing(self, chunk: Sequence[int]) -> list[_Job]:
        """Return the posts that are not there yet, or not with all their parts, and count the others."""
        records = await asyncio.to_thread(self._plan.read, chunk)
        firsts = [self._key(record, 0) for record in records]
        lasts = [self._key(record, self._slots.parts(len(record.photos)) - 1) for record in records]
        known = await self._writes.graph.key_get([*firsts, *lasts])
        made = {record.id: known[key] for key, record in zip(firsts, records, strict=True) if key in known}
        whole = {record.id for key, record in zip(lasts, records, strict=True) if key in known}
        if self._report.kind is ArchiveKind.SHOAL:
            # The export may be of this very account, which has its posts already.
            own = {
                record.id: int(record.id) for record in records if _ID.fullmatch(record.id) and record.id not in made
            }
            made, whole = made | own, whole | own.keys()
        nodes = await self._writes.graph.obj_get(list(made.values()))
        left: list[_Job] = []
        for position, key, record in zip(chunk, firsts, records, strict=True):
            node = nodes.get(made.get(record.id, 0))
            there = isinstance(node, Post) and node.author_id == self._member_id
            if there and record.id in whole:
                self._note(self._report.there, position, len(record.photos), made[record.id])
            elif key in known and not there:
                self._report.omit("posts", Omission.DELETED, record.id)
            else:
                left.append(_Job(position, record, begun=there))
        return left

    async def _take(self, job: _Job) -> None:
        position, record = job.position, job.record
        parent = self._plan.parent(position)
        parent_id = self._ids.get(parent, 0)
        if parent != _NO_PARENT and not parent_id:
            self._report.omit("posts", Omission.THREAD, record.id)
            return
        counted = _Counts()
        made, photos = await self._make(position, record, parent_id, counted)
        counted.add_to(self._report)
        if made:
            self._note(self._report.there if job.begun else self._report.taken, position, photos, made)

    async def _make(self, position: int, record: ArchivedPost, parent_id: int, counted: _Counts) -> tuple[int, int]:
        """Make a post with all its parts, and return its id, and how many photos there are; 0 for one that is left out."""
        try:
            photos = await self._photos(position, record, counted)
            drafts = self._drafts(record, photos, parent_id, counted)
            if not drafts:
                counted.omit("posts", Omission.EMPTY, record.id)
                return 0, 0
            made = await self._create(position, record, 0, drafts.pop(0))
            if not made:
                counted.omit("posts", Omission.DELETED, record.id)
                return 0, 0
            for part, draft in drafts.items():
                await self._create(position, record, part, replace(draft, parent_id=made))
        except (InvalidInput, NotAllowed, NotFound, Conflict) as error:
            counted.omit("posts", Omission.REFUSED, f"{record.id}: {error}")
            return 0, 0
        counted.continued = bool(drafts)
        return made, len(photos)

    def _note(self, amounts: Amounts, position: int, photos: int, id_: int) -> None:
        """Count a post that is there now, and keep its id for those that answer it."""
        if self._plan.answered[position]:
            self._ids[position] = id_
        if self._plan.parent(position) == _NO_PARENT:
            amounts.posts += 1
        else:
            amounts.comments += 1
        amounts.photos += photos

    def _drafts(
        self, record: ArchivedPost, photos: Mapping[int, int], parent_id: int, counted: _Counts
    ) -> dict[int, Draft]:
        """Return a post as its first part, and a comment for every few photos that it has no room for; nothing for an empty one.

        A photo's number in the record says in which part it is, whichever others can be stored.
        """
        limits = self._writes.limits
        media: dict[int, list[int]] = {}
        for number, id_ in photos.items():
            media.setdefault(number // limits.media, []).append(id_)
        text = counted.cut_to(record.text, cut(record.text, limits.text))
        if is_blank(text) and not (record.data is not None or 0 in media):
            if not media:
                return {}
            # It begins with those that there are.
            media[0] = media.pop(min(media))
        first = Draft(
            text=text,
            spoiler=counted.cut_to(record.spoiler, record.spoiler[: limits.spoiler]),
            sensitive=record.sensitive,
            visibility=min(record.visibility, self._widest, key=_OPENNESS.index),
            language=record.language if len(record.language) <= _LANGUAGE else "",
            media=media.pop(0, ()),
            parent_id=parent_id,
            place=record.place,
            data=record.data,
            imported=True,
        )
        bare = replace(
            first, text="", spoiler="", place=None, data=None, sensitive=first.sensitive or bool(first.spoiler)
        )
        return {0: first} | {part: replace(bare, media=media[part]) for part in sorted(media)}

    async def _create(self, position: int, record: ArchivedPost, part: int, draft: Draft) -> int:
        """Make a part of a post, and return its id. One that was deleted since stays so."""
        name = self._name("post", record, part)
        for id_ in near(self._slots.part(position, part)):
            dated = 0 if milliseconds_of(id_) == record.written else record.written
            try:
                made = await posts.create(self._writes, self._member_id, draft, id_=id_, created_at=dated, record=name)
            except Conflict:
                continue
            except Gone:
                # The part is gone; or else the author is, which ends it all.
                await access_member(self._writes.graph, self._member_id)
                return 0
            return made.id
        raise Conflict("no free id was found; repeat")

    async def _photos(self, position: int, record: ArchivedPost, counted: _Counts) -> dict[int, int]:
        """Store the photos of a post that can be, and return their ids by their numbers in the record."""
        stored: dict[int, int] = {}
        for number, photo in enumerate(record.photos):
            async with self._photo_turns:
                try:
                    stored[number] = await self._photo(position, record, number, counted)
                except Unfit:
                    counted.omit("photos", Omission.NO_ROOM, photo.file)
                except InvalidInput as error:
                    counted.omit("photos", Omission.UNREADABLE, f"{photo.file}: {error}")
        return stored

    async def _photo(self, position: int, record: ArchivedPost, number: int, counted: _Counts) -> int:
        photo = record.photos[number]
        names = [self._name(f"photo{attempt or ''}", record, number) for attempt in range(_TRIES)]
        keys = [import_key(self._shard, name) for name in names]
        known = await self._writes.graph.key_get(keys)
        nodes = await self._writes.graph.obj_get(list(known.values()))
        for key in keys:
            if known.get(key) in nodes:
                return known[key]
        name = next((name for name, key in zip(names, keys, strict=True) if key not in known), names[-1])
        data = await self._process.read(photo.file, self._network.media.limits.max_bytes)
        owner = await access_member(self._writes.graph, self._member_id)
        media.check_room(self._writes, owner, len(data))
        most = self._writes.limits.description
        description = counted.cut_to(photo.description, photo.description[:most])
        parts = self._slots.parts(len(record.photos))
        for id_ in near(self._slots.photo(position, parts, number)):
            try:
                made = await media.upload(
                    self._writes,
                    self._member_id,
                    data,
                    description=description,
                    focus=_focus(photo),
                    id_=id_,
                    record=name,
                )
            except Taken:
                continue
            return made.id
        raise Conflict("no free id was found; repeat")

    def _key(self, record: ArchivedPost, part: int) -> Key:
        return import_key(self._shard, self._name("post", record, part))

    def _name(self, what: str, record: ArchivedPost, number: int) -> str:
        """Return the name of what a part of a post becomes: of bounded length, whatever ids its network has."""
        whole = f"{self._report.kind}\n{record.id}\n{number}"
        return f"archive:{what}:{self._member_id}:{blake2b(whole.encode(), digest_size=16).hexdigest()}"

    async def _rest(self) -> None:
        """Wait while what follows from posts is late: those of members go first."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _LONGEST_WAIT_SECONDS
        while self._network.runner.behind() > _BEHIND_SECONDS and loop.time() < until:  # noqa: ASYNC110  # it is a figure
            await asyncio.sleep(_PAUSE_SECONDS)


def _focus(photo: ArchivedPhoto) -> tuple[float, float]:
    return photo.focus if all(-1 <= part <= 1 for part in photo.focus) else (0.0, 0.0)
