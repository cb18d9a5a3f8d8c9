"""Import of a network from files: members, follows and posts.

Every record is recognized, so an import that was interrupted at any moment, even by `kill -9`, can be run again and
continues; the final counts are the same. It runs in the process that owns the store, which may be a server. Passwords are
not imported: the operator sets them where needed (`shoal member password`).

An import into an empty network runs in bulk: rows are written directly into the store, and memory does not grow with their
texts. It leaves the same rows as the commands; `tests/ops/test_loading.py` compares every table. It does no lookups, so the
network must be empty. A mark in the store records that it began (`admin/unfinished.py`): running it again continues it, and
another import is refused until then. Consequences are computed at the end: the search index is filled from the graph.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path

from shoal.admin import unfinished
from shoal.admin.contract import AnyNetwork
from shoal.admin.imports import members, posts
from shoal.admin.imports.files import BEST_CONNECTED, MATCH, RecordSpool, Sources, number_of, photos_in
from shoal.admin.imports.follows import Edges, LoadedFollows, follow_blocks, read_follows, references, take_follows
from shoal.admin.imports.members import ImportedMembers, LoadedMembers, read_members, take_members
from shoal.admin.imports.posts import LoadedPosts, PostJob, read_posts, take_posts, with_own_decoder
from shoal.admin.imports.records import MemberRecord, PostRecord, Summary, check_columns, read_lines
from shoal.admin.report import Progress, nothing
from shoal.core.errors import InvalidInput
from shoal.core.model import Member, Post
from shoal.graph.bulk import Loading
from shoal.graph.schema import EVERYBODY
from shoal.search.contract import FORM, FillState
from shoal.search.indexing import fill

IN_BULK, ONE_BY_ONE = "in bulk", "one by one"
_ASKED = 100
"""Objects that are read to find out whether the network is empty."""
_PATIENCE_SECONDS = 3_600.0


async def loads(network: AnyNetwork, sources: Sources, summary: Summary) -> bool:
    """Return whether the import is a bulk import, and record that in the summary.

    Raises `InvalidInput` if it must be but cannot, or if another bulk import is unfinished.
    """
    begun = await unfinished.begun(network.store)
    if begun is not None:
        if sources.members is None or begun.files != await asyncio.to_thread(number_of, sources):
            raise InvalidInput(
                "an import in bulk of other files was begun here and is not finished: run that one again first, "
                "or begin with an empty store"
            )
        if sources.bulk is False:
            raise InvalidInput("this import was begun in bulk: it must go on in bulk")
        summary.way = f"{IN_BULK}, from where it was ended"
        return True
    against = await _against(network, sources)
    if sources.bulk and against:
        raise InvalidInput(f"the import cannot go in bulk: {against}")
    if against or sources.bulk is False:
        summary.way = f"{ONE_BY_ONE}: {against or 'as asked'}"
        return False
    summary.way = f"{IN_BULK}: the network is empty"
    return True


async def _against(network: AnyNetwork, sources: Sources) -> str:
    """Return the reason against a bulk import, or an empty string."""
    store = network.store
    if not (isinstance(store, Loading) and store.loads):
        return "this kind of store takes no rows in bulk"
    if sources.members is None:
        return "there is no file of members"
    found = await store.obj_scan(-1, _ASKED)
    if len(found) == _ASKED or any(isinstance(node, Member | Post) for node in found):
        return "the network is not empty"
    return ""


async def load_all(network: AnyNetwork, sources: Sources, summary: Summary, progress: Progress) -> None:
    """Import missing records, and fill the search index. Raises as `import_all`."""
    with tempfile.TemporaryDirectory(prefix="shoal-import-") as folder:
        await _Bulk(network, sources, summary, progress, Path(folder)).run()


class _Bulk:
    """One bulk import. Its folder is for spool files."""

    def __init__(
        self, network: AnyNetwork, sources: Sources, summary: Summary, progress: Progress, folder: Path
    ) -> None:
        store = network.store
        if not isinstance(store, Loading) or sources.members is None:
            raise TypeError("an import in bulk needs a store that takes parts, and a file of members")
        self._network, self._store = network, store
        self._sources, self._summary, self._progress = sources, summary, progress
        self._origin = sources.members.name
        self._members_file = sources.members
        self._people = LoadedMembers(RecordSpool(folder / "members", MemberRecord))
        self._posts = LoadedPosts(RecordSpool(folder / "posts", PostRecord))
        self._folder = folder

    async def run(self) -> None:
        sources, summary, people = self._sources, self._summary, self._people
        with summary.timed("reading"):
            follows = await asyncio.to_thread(self._read)
            files = await asyncio.to_thread(number_of, sources)
            authors = self._posts.authors(sources, people, follows.degrees())
        found = await unfinished.begun(self._network.store)
        begun = found or await unfinished.begin(self._network.store, files)
        await self._begin_index()
        with summary.timed("members"):
            firsts = self._posts.firsts(authors, len(people))
            await people.load(self._network, self._store, self._origin, begun.since, firsts, summary, self._progress)
        with summary.timed("follows"):
            await follows.load(self._network, self._store, summary, self._progress, sources.patience)
        with summary.timed("posts"):
            async with with_own_decoder(self._network) as writes:
                await self._posts.load(
                    self._network, writes, sources, authors, people, summary, self._progress, anew=found is not None
                )
        with summary.timed("consequences"):
            await self._network.settle(_PATIENCE_SECONDS)
            await self._network.effects.followers.changed(EVERYBODY)
            await self._network.timelines.clear()
        with summary.timed("search"):
            await self._begin_index()
            effects = self._network.effects
            await fill(self._network.store, effects.graph, effects.search, self._progress)
        await unfinished.finish(self._network.store, begun)

    def _read(self) -> LoadedFollows:
        """Read all files, in a thread: they may be long, and a server keeps serving."""
        sources, summary = self._sources, self._summary
        self._people.read(read_lines(self._members_file), sources.columns, summary)
        follows = LoadedFollows(self._folder, self._people)
        blocks = follow_blocks(sources.follows, sources.columns, summary) if sources.follows else iter(())
        follows.read(blocks, summary, mutual=sources.mutual)
        if sources.posts:
            self._posts.read(read_lines(sources.posts), sources.columns, summary)
        return follows

    async def _begin_index(self) -> None:
        """Have the search index filled from scratch: members, and most posts, emit no events."""
        index = self._network.effects.search.index
        if index.keeps:
            await index.keep_state(FillState(FORM))


async def import_all(network: AnyNetwork, sources: Sources, summary: Summary, progress: Progress = nothing) -> Summary:
    """Import missing records, and wait until their events are processed.

    Raises `OSError` for a file that cannot be read, `InvalidInput` for an unknown format; rejected records
    are in the summary.
    """
    check_columns(sources.columns)
    if await loads(network, sources, summary):
        await load_all(network, sources, summary, progress)
        return summary
    with summary.timed("reading"):
        people = await _people(network, sources, summary)
        # In a thread: files may be long, and a server keeps serving.
        edges = await asyncio.to_thread(_edges, sources, people, summary)
        records = await asyncio.to_thread(_records, sources, summary)
        authors = _authors(sources, records, people, edges)
    with summary.timed("members"):
        if sources.members:
            first = posts.first_posts(records, authors)
            await take_members(network, people, sources.members.name, first, summary, progress, sources.patience)
    with summary.timed("follows"):
        await take_follows(network, people, edges, summary, progress, sources.patience)
    with summary.timed("posts"):
        jobs = _jobs(sources, records, authors, people, summary)
        async with with_own_decoder(network) as writes:
            await take_posts(network, jobs, writes, summary, progress, sources.patience)
    with summary.timed("consequences"):
        await network.settle(_PATIENCE_SECONDS)
        # Timelines that were read during the import lack the follows (see `admin/imports/follows.py`).
        await network.effects.followers.changed(EVERYBODY)
        await network.timelines.clear()
    return summary


async def _people(network: AnyNetwork, sources: Sources, summary: Summary) -> ImportedMembers:
    if sources.members:
        return await asyncio.to_thread(_members, sources.members, sources, summary)
    names: set[str] = set()
    if sources.follows:
        names.update(references(read_lines(sources.follows), sources.columns))
    if sources.posts and sources.authors == MATCH:
        names.update(record.author for record in read_posts(read_lines(sources.posts), sources.columns, Summary()))
    return await members.members_there(network, sorted(names))


def _members(path: Path, sources: Sources, summary: Summary) -> ImportedMembers:
    return read_members(read_lines(path), sources.columns, summary)


def _edges(sources: Sources, people: ImportedMembers, summary: Summary) -> Edges:
    lines = read_lines(sources.follows) if sources.follows else iter(())
    return read_follows(lines, sources.columns, people, summary, mutual=sources.mutual)


def _records(sources: Sources, summary: Summary) -> list[PostRecord]:
    return read_posts(read_lines(sources.posts), sources.columns, summary) if sources.posts else []


def _authors(sources: Sources, records: list[PostRecord], people: ImportedMembers, edges: Edges) -> dict[str, int]:
    if sources.authors == BEST_CONNECTED:
        return posts.authors_by_connection(records, edges.degrees(len(people)))
    return posts.authors_by_name(records, people)


def _jobs(
    sources: Sources, records: list[PostRecord], authors: Mapping[str, int], people: ImportedMembers, summary: Summary
) -> list[PostJob]:
    origin = sources.posts.name if sources.posts else ""
    photos = photos_in(sources.photos) if sources.photos else []
    return posts.plan(records, authors, people, origin, photos, sources.photos_newest, summary)
