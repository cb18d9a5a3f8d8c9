"""Import of a network from files: members, follows and posts.

Records that exist are recognized, so an import that was interrupted at any moment, even by `kill -9`, can be run again and
continues; the final counts do not depend on interruptions. It runs in the process that owns the store, which may be a server.
Passwords are not imported: the operator sets them where needed (`shoal member password`).

Memory does not grow with the texts of the files. An import into an empty network runs in bulk: rows are written directly into
the store. The rows are identical to the rows that `shoal.commands` would write; `tests/ops/test_bulk_import.py` compares every
table. A bulk import does no lookups, so the network must be empty. Keys in the store record that it began
(`admin/unfinished.py`): running it again continues it, and any other import is refused until it is finished. At the end, the
search index is filled from the graph.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from shoal.admin import unfinished
from shoal.admin.contract import AnyNetwork
from shoal.admin.imports.files import MATCH, RecordSpool, Sources, number_of
from shoal.admin.imports.follows import ImportedFollows, follow_blocks, references
from shoal.admin.imports.members import ImportedMembers
from shoal.admin.imports.posts import ImportedPosts, post_records, with_own_decoder
from shoal.admin.imports.records import MemberRecord, PostRecord, Summary, check_columns, read_lines
from shoal.admin.report import Progress, nothing
from shoal.core.errors import InvalidInput
from shoal.core.model import Member, Post
from shoal.graph.bulk import Loading
from shoal.graph.contract import Store
from shoal.graph.schema import EVERYBODY
from shoal.search.contract import FORM, FillState
from shoal.search.indexing import fill

IN_BULK, ONE_BY_ONE = "in bulk", "one by one"
_ASKED = 100
"""Number of objects that are read to find out whether the network is empty."""
_PATIENCE_SECONDS = 3_600.0


async def bulk_store(network: AnyNetwork, sources: Sources, summary: Summary) -> Loading | None:
    """Return the store if the import can run in bulk, otherwise None. The summary explains the choice.

    Raises `InvalidInput` if the options of the import require a bulk import that is impossible, and if another bulk
    import is unfinished.
    """
    store = network.store if isinstance(network.store, Loading) else None
    begun = await unfinished.begun(network.store)
    if begun is not None:
        if store is None or sources.members is None or begun.files != await asyncio.to_thread(number_of, sources):
            raise InvalidInput(
                "a bulk import of other files into this store is unfinished: run that import again first, "
                "or use an empty store"
            )
        if sources.bulk is False:
            raise InvalidInput("this import began in bulk: omit --one-by-one to resume it")
        summary.way = f"{IN_BULK}, resumed"
        return store
    against = await _against(network, sources)
    if sources.bulk and against:
        raise InvalidInput(f"the import cannot run in bulk: {against}")
    if against or sources.bulk is False:
        summary.way = f"{ONE_BY_ONE}: {against or 'as asked'}"
        return None
    summary.way = f"{IN_BULK}: the network is empty"
    return store


async def _against(network: AnyNetwork, sources: Sources) -> str:
    """Return the reason why the import cannot run in bulk; empty if it can."""
    store = network.store
    if not (isinstance(store, Loading) and store.loads):
        return "this kind of store does not support bulk import"
    if sources.members is None:
        return "no file of members is given"
    return "" if await is_empty(store) else "the network is not empty"


async def is_empty(store: Store) -> bool:
    """Return whether a network has no members and posts."""
    found = await store.obj_scan(-1, _ASKED)
    return len(found) < _ASKED and not any(isinstance(node, Member | Post) for node in found)


async def begin_index(network: AnyNetwork) -> None:
    """Mark the search index as empty, so that it is filled from the graph. A bulk import emits no events for most records."""
    index = network.effects.search.index
    if index.keeps:
        await index.keep_state(FillState(FORM))


class _Import:
    """One run of an import. `folder` is for temporary files."""

    def __init__(
        self, network: AnyNetwork, sources: Sources, summary: Summary, progress: Progress, folder: Path
    ) -> None:
        self._network = network
        self._sources, self._summary, self._progress = sources, summary, progress
        self._people = ImportedMembers(RecordSpool(folder / "members", MemberRecord))
        self._posts = ImportedPosts(RecordSpool(folder / "posts", PostRecord))
        self._folder = folder

    async def run(self, store: Loading | None) -> None:
        """Import missing records and wait until their events are processed.

        With a `store`, records are written directly into it.
        """
        network, sources, summary = self._network, self._sources, self._summary
        people, posts, progress = self._people, self._posts, self._progress
        with summary.timed("reading"):
            if not sources.members:
                names = await asyncio.to_thread(self._names)
                await people.find_existing(network, sorted(names))
            follows = await asyncio.to_thread(self._read)
            authors = posts.authors(sources, people, follows.degrees())
            files = await asyncio.to_thread(number_of, sources) if store else 0
        begun = found = await unfinished.begun(network.store)
        if store:
            begun = found or await unfinished.begin(network.store, files)
            await begin_index(network)
        with summary.timed("members"):
            origin, firsts = sources.members.name if sources.members else "", posts.firsts(authors, len(people))
            if store and begun:
                await people.load(network, store, origin, begun.since, firsts, summary, progress)
            elif sources.members:
                await people.register(network, origin, firsts, summary, progress, sources.patience)
        with summary.timed("follows"):
            if store:
                await follows.load(network, store, summary, progress, sources.patience)
            else:
                await follows.create(network, summary, progress, sources.patience)
        with summary.timed("posts"):
            async with with_own_decoder(network) as writes:
                await posts.create(
                    network, writes, sources, authors, people, summary, progress, bulk=bool(store), resumed=bool(found)
                )
        with summary.timed("consequences"):
            await network.settle(_PATIENCE_SECONDS)
            # Discard cached followers and timelines: those read during the import lack the new follows (see
            # `admin/imports/follows.py`).
            await network.effects.followers.changed(EVERYBODY)
            await network.timelines.clear()
        if begun:
            with summary.timed("search"):
                await begin_index(network)
                await fill(network.store, network.effects.graph, network.effects.search, progress)
            await unfinished.finish(network.store, begun)

    def _names(self) -> set[str]:
        """Return the names of members in the files of follows and posts, for an import without a file of members."""
        sources = self._sources
        names = set(references(sources.follows, sources.columns)) if sources.follows else set()
        if sources.posts and sources.authors == MATCH:
            names.update(
                record.author for record in post_records(read_lines(sources.posts), sources.columns, Summary())
            )
        return names

    def _read(self) -> ImportedFollows:
        """Read the files of members, follows and posts. Run this in a thread: they may be long, and this may be a server."""
        sources, summary = self._sources, self._summary
        if sources.members:
            self._people.read(read_lines(sources.members), sources.columns, summary)
        follows = ImportedFollows(self._folder, self._people)
        blocks = follow_blocks(sources.follows, sources.columns, summary) if sources.follows else iter(())
        follows.read(blocks, summary, mutual=sources.mutual)
        if sources.posts:
            self._posts.read(read_lines(sources.posts), sources.columns, summary)
        return follows


async def import_all(network: AnyNetwork, sources: Sources, summary: Summary, progress: Progress = nothing) -> Summary:
    """Import missing records, and wait until their events are processed.

    Raises `OSError` for a file that cannot be read, and `InvalidInput` for an unknown format. Rejected records are in
    the summary.
    """
    check_columns(sources.columns)
    store = await bulk_store(network, sources, summary)
    with tempfile.TemporaryDirectory(prefix="shoal-import-") as folder:
        await _Import(network, sources, summary, progress, Path(folder)).run(store)
    return summary
