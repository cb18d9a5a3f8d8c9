"""Check and repair media: every media object has its files and correct metadata, and every file belongs to an object.

Files are compared by the hashes of their keys, which takes about 60 bytes of memory per file.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Sequence
from hashlib import blake2b
from typing import cast

import numpy as np
from msgspec.structs import replace

from shoal.admin.consistency.invariants import MOST, Found
from shoal.admin.consistency.scan import Column, Links, Objects, column, found_in
from shoal.admin.contract import AnyNetwork
from shoal.admin.report import Finding
from shoal.core.ids import now_ms, shard_of
from shoal.core.media_files import files_now, files_of_member, lasting_files_of, with_copies
from shoal.core.model import Media, MediaKind, MediaState, Member
from shoal.graph.changes import change_object, retry_on_conflict
from shoal.graph.contract import Batch, Cursor, find_object
from shoal.graph.media import UNUSED_MS, charge, plan
from shoal.graph.schema import AGENDA, ATTACHED, DUE_ON, OWNS, AnyNode

YOUNG_SECONDS = 3_600.0
"""Minimum age of an orphaned file. A younger file may belong to an upload in progress."""
_AT_ONCE = 16
_PAGE = 1_000
_PARTS = 5
"""Number of parts of a media key: three numbers, the member, and the file."""


class MediaFiles:
    def __init__(self, network: AnyNetwork, young: float = YOUNG_SECONDS) -> None:
        self._network = network
        self._young = young
        self._files = [array("q") for _ in range(3)]
        self._media = [array("q") for _ in range(5)]
        self._members = [array("q") for _ in range(2)]
        self._findings: list[Finding] = []
        self._wrong = 0

    def take(self, page: Sequence[AnyNode]) -> None:
        for node in page:
            for key, required in files_now(node).items():
                _append(self._files, (_hash(key), node.id, required))
            if isinstance(node, Media):
                _append(self._media, (node.id, node.owner_id, node.stored, node.unused_since, node.ticket_id))
            elif isinstance(node, Member):
                _append(self._members, (node.id, node.media_bytes))

    async def compared(self, objects: Objects, links: Links) -> Found:
        """Return wrong media objects and byte counts, missing files, and files that belong to no object."""
        hashes, owners, required = map(column, self._files)
        order = np.argsort(hashes)
        hashes, owners, required = hashes[order], owners[order], required[order]
        sizes = np.full(len(hashes), -1, np.int64)
        files = await self._match_files(hashes, sizes)
        for at in np.nonzero((sizes < 0) & (required > 0))[0]:
            self._add("a file of {0} is missing", int(owners[at]))
        self._compare_media(objects, links, owners, np.maximum(sizes, 0))
        self._compare_sums()
        return Found(files + len(self._media[0]), self._wrong, self._findings)

    async def _match_files(self, hashes: Column, sizes: Column) -> int:
        """Set the `sizes` of the stored files with these `hashes`, and return the number of all files.

        A file without a media object is a finding, unless it is new.
        """
        seen, now = 0, time.time()
        async for page in self._network.media.files():
            seen += len(page)
            found = np.fromiter((_hash(file.key) for file in page), np.int64, len(page))
            known = found_in(found, hashes)
            size = np.fromiter((file.size for file in page), np.int64, len(page))
            sizes[np.searchsorted(hashes, found[known])] = size[known]
            for file, is_known in zip(page, known.tolist(), strict=True):
                if not is_known and _is_ours(file.key) and now - file.modified > self._young:
                    self._add(f"the file {file.key} belongs to no media object", file=file.key)
        return seen

    def _compare_media(self, objects: Objects, links: Links, owners: Column, sizes: Column) -> None:
        ids, _, stored, unused, tickets = map(column, self._media)
        used = np.unique(objects.declared[ATTACHED.number][0])
        planned = np.unique(links.of(DUE_ON.number).id1)
        order = np.argsort(ids)
        there = np.zeros(len(ids), np.int64)
        mine = found_in(owners, ids[order])
        np.add.at(there, order[np.searchsorted(ids[order], owners[mine])], sizes[mine])
        in_post = found_in(ids, used)
        waits = unused != 0
        for words, wrong in (
            ("{0} is in a post, and does not know it", in_post & waits),
            ("{0} is in no post, and does not know it", ~in_post & ~waits),
            (
                "{0} is in no post and has no ticket for its deletion",
                (waits | (tickets != 0)) & ~found_in(tickets, planned),
            ),
            ("{0} has files of other sizes than it says", stored != there),
        ):
            for at in np.nonzero(wrong)[0]:
                self._add(words, int(ids[at]))

    def _compare_sums(self) -> None:
        _, owners, stored, *_ = map(column, self._media)
        members, declared = map(column, self._members)
        order = np.argsort(members)
        sums = np.zeros(len(members), np.int64)
        mine = found_in(owners, members[order])
        np.add.at(sums, order[np.searchsorted(members[order], owners[mine])], stored[mine])
        for at in np.nonzero(sums != declared)[0]:
            words = f"the media of {{0}} have {sums[at]} bytes, but the count says {declared[at]}"
            self._add(words, int(members[at]), sum_of=True)

    def _add(self, words: str, id_: int = 0, *, file: str = "", sum_of: bool = False) -> None:
        self._wrong += 1
        if len(self._findings) < MOST:
            media, owner = (0, id_) if sum_of else (id_, 0)
            self._findings.append(Finding(words, (id_,) if id_ else (), media=media, bytes_of=owner, file=file))


async def repair_media(network: AnyNetwork, findings: Sequence[Finding]) -> None:
    """Repair the files and media of these findings, each according to its current state."""
    await network.media.remove([finding.file for finding in findings if finding.file])
    ids = list(dict.fromkeys(finding.media for finding in findings if finding.media))
    for start in range(0, len(ids), _AT_ONCE):
        await asyncio.gather(*(_repair(network, id_) for id_ in ids[start : start + _AT_ONCE]))
    for owner in dict.fromkeys(finding.bytes_of for finding in findings if finding.bytes_of):
        await _recount(network, owner)


async def _repair(network: AnyNetwork, id_: int) -> None:
    if await find_object(network.effects.graph, Media, id_) is not None:
        await retry_on_conflict(lambda: _repair_media(network, id_))
    else:
        await _repair_profile(network, id_)


async def _repair_media(network: AnyNetwork, id_: int) -> None:
    graph, new_id = network.effects.graph, network.effects.new_id
    media = await find_object(graph, Media, id_)
    if media is None:
        return
    sizes = await network.media.sizes(lasting_files_of(media))
    mended = _with_files(media, sizes)
    attached = await graph.assoc_range(id_, ATTACHED, Cursor(limit=1))
    batch = Batch(shard_of(media.owner_id))
    ticket = new_id(batch.shard)
    now = now_ms()
    is_planned = bool((await graph.assoc_get(media.ticket_id, (DUE_ON,), (AGENDA,)))[DUE_ON])
    mended = replace(
        mended,
        unused_since=0 if attached else media.unused_since or now,
        let_go=media.let_go and not attached,
        ticket_id=media.ticket_id if is_planned else 0,
    )
    if mended.unused_since and not mended.ticket_id:
        plan(batch, mended, ticket, now + UNUSED_MS)
    elif mended != media:
        batch.obj_set(replace(mended, version=media.version + 1))
    owner = (await graph.obj_get((media.owner_id,))).get(media.owner_id)
    if isinstance(owner, Member):
        charge(batch, owner, mended.stored - media.stored)
    if batch.objects:
        await graph.commit(batch)


def _with_files(media: Media, sizes: dict[str, int]) -> Media:
    """Return a media object that matches its files. If the main file is missing, its state is `FAILED`."""
    gone = {key for key in (media.key, media.preview_key, media.original_key) if key and key not in sizes}
    made_from_original = media.kind is not MediaKind.IMAGE
    main = media.original_key if media.state is MediaState.PROCESSING else media.key
    if media.state is not MediaState.FAILED and main in gone:
        media = replace(media, state=MediaState.FAILED)
    if media.preview_key in gone:
        media = replace(media, preview_key="", preview_width=0, preview_height=0)
    if media.original_key in gone and not made_from_original:
        media = replace(media, original_key="")
    lasting = {key: sizes[key] for key in lasting_files_of(media) if key in sizes}
    preview = sum(lasting.get(key, 0) for key in with_copies(media.preview_key))
    return replace(media, file_bytes=sum(lasting.values()) - preview, preview_bytes=preview)


async def _repair_profile(network: AnyNetwork, id_: int) -> None:
    """Clear the avatar and the header of a member if their files are missing."""
    graph = network.effects.graph
    member = (await graph.obj_get((id_,))).get(id_)
    if not isinstance(member, Member):
        return
    gone = {*filter(None, (member.avatar, member.header))} - {*await network.media.sizes(files_of_member(member))}

    async def read() -> Member:
        return cast("Member", (await graph.obj_get((id_,)))[id_])

    await change_object(
        graph,
        read,
        lambda profile: replace(
            profile,
            avatar="" if profile.avatar in gone else profile.avatar,
            header="" if profile.header in gone else profile.header,
        ),
    )


async def _recount(network: AnyNetwork, owner_id: int) -> None:
    """Recount the bytes of a member's media. A concurrent change increases the member's version; the commit is then repeated."""
    graph = network.effects.graph

    async def attempt() -> None:
        owner = (await graph.obj_get((owner_id,))).get(owner_id)
        if not isinstance(owner, Member):
            return
        used, after = 0, -1
        while page := await graph.assoc_range(owner_id, OWNS, Cursor(after=after, limit=_PAGE, oldest_first=True)):
            nodes = await graph.obj_get([entry.id2 for entry in page])
            used += sum(node.stored for node in nodes.values() if isinstance(node, Media))
            after = page[-1].time
        batch = Batch(shard_of(owner_id))
        charge(batch, owner, used - owner.media_bytes)
        if batch.objects:
            await graph.commit(batch)

    await retry_on_conflict(attempt)


def _append(columns: Sequence[array[int]], values: Sequence[int]) -> None:
    for values_of, value in zip(columns, values, strict=True):
        values_of.append(value)


def _hash(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), signed=True)


def _is_ours(key: str) -> bool:
    """Return whether a key has the form of a media key. A bucket may contain other files, which are ignored."""
    parts = key.split("/")
    return len(parts) == _PARTS and all(part.isdecimal() for part in parts[:3])
