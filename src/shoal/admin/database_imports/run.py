"""Import from a database or a folder by a map (`maps.py`): members, follows, posts with media, comments and likes.

Every row keeps its external id, by which a repeated import recognizes it and the API finds its object, so an import can be repeated
or interrupted at any moment. Existing objects are not changed, and deleted ones are not restored. Rows are read in batches in the
order of their key; after each batch, the position is stored in the network. A repeated import of a section that was not finished
begins after the position; one of a finished section reads all rows, or with a watermark only rows that are not older than the
newest imported one.

    source -> batch of rows -> converted, or rejected -> references resolved -> missing objects created -> external ids -> position

No notifications are sent. A row that does not fit is rejected with its key, its column and the reason. A dry run does the same, and
writes nothing: references may then also lead to rows that would have been imported.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import structs

from shoal.admin.contract import AnyNetwork, Operation
from shoal.admin.database_imports.entries import EntryImport
from shoal.admin.database_imports.files import FILES_AT_ONCE, Files
from shoal.admin.database_imports.maps import ImportMap, Section, parse_map, read_map
from shoal.admin.database_imports.members import MemberImport
from shoal.admin.database_imports.positions import is_future, pack, unpack
from shoal.admin.database_imports.relations import RelationImport
from shoal.admin.database_imports.session import ImportOptions, Record, Retry, Session
from shoal.admin.imports.posts import with_own_decoder
from shoal.admin.imports.records import ImportReport, Summary
from shoal.admin.imports.run import begin_index, is_empty
from shoal.admin.report import Progress
from shoal.commands.context import made_once
from shoal.core.errors import InvalidInput
from shoal.core.model import ImportPosition, ImportProgress
from shoal.graph.bulk import Loading
from shoal.graph.changes import change_object
from shoal.graph.contract import find_object
from shoal.graph.schema import EVERYBODY, import_progress_key
from shoal.outgoing import Network, RequestFailed, networks_of, open_pool, request
from shoal.search.indexing import fill

ROWS = 2_000
"""Rows of a batch of posts or comments."""
MANY_ROWS = 20_000
"""Rows of a batch of other kinds. Its follows and likes are committed by member, so a larger batch takes fewer commits."""
_FETCH_SECONDS = 30.0
_MAX_POSITIONS = 200
_PATIENCE_SECONDS = 3_600.0


Handler = Callable[[Section, list[Record]], Awaitable[None]]


class MappedImport:
    """One run of an import."""

    def __init__(self, session: Session, progress: Progress) -> None:
        self._session, self._progress = session, progress

    async def run(self) -> None:
        for section in self._session.map.sections:
            await asyncio.to_thread(self._session.source.check, section)
        await self._begin()
        files = Files(self._session)
        relations, entries = RelationImport(self._session), EntryImport(self._session, files)
        handlers: dict[str, Handler] = {
            "members": MemberImport(self._session, files).run,
            "follows": relations.follows,
            "posts": entries.posts,
            "comments": entries.comments,
            "shares": relations.shares,
            "likes": relations.reactions,
            "bookmarks": relations.reactions,
            "mutes": relations.mutes,
            "blocks": relations.mutes,
        }
        for kind, handle in handlers.items():
            with self._session.summary.timed(kind):
                for section in self._session.map.of(kind):
                    await self._section(section, handle)
        if self._session.options.dry_run:
            return
        with self._session.summary.timed("consequences"):
            await self._session.network.settle(_PATIENCE_SECONDS)
            if self._session.followed or self._session.bulk:
                # As in an import of files, follows emit no events: read timelines again, with the posts of the followees.
                await self._session.network.effects.followers.changed(EVERYBODY)
                await self._session.network.timelines.clear()
        if self._session.bulk:
            with self._session.summary.timed("search"):
                await begin_index(self._session.network)
                effects = self._session.network.effects
                await fill(self._session.network.store, effects.graph, effects.search, self._progress)
            await self._change(lambda before: structs.replace(before, bulk=False))

    async def _begin(self) -> None:
        """Read the stored positions. If all sections are finished, this run is a new one."""
        stored = await self._stored()
        self._positions = {} if self._session.options.full else dict(stored.positions)
        mine = {section.digest for section in self._session.map.sections if section.kind != "media"}
        if all(name in self._positions and self._positions[name].finished for name in mine):
            self._resumed: frozenset[str] = frozenset()
        else:
            self._resumed = frozenset(mine & self._positions.keys())
        if not self._resumed:
            await self._restart(stored)
        store = self._session.network.store
        if self._session.options.dry_run or not (isinstance(store, Loading) and store.loads):
            return
        if stored.bulk or (not stored.id and await is_empty(self._session.network.store)):
            self._session.bulk, self._session.new = store, not stored.bulk
            await self._change(lambda before: structs.replace(before, bulk=True))
            await begin_index(self._session.network)

    async def _restart(self, stored: ImportProgress) -> None:
        """Forget the positions of sections that are read from their beginning.

        After an interruption, the next run would take these sections for ones that this run has finished, and skip them.
        """
        full = self._session.options.full
        read = {section.digest for section in self._session.map.sections if full or not section.watermark}
        if not self._session.options.dry_run and read & stored.positions.keys():

            def change(before: ImportProgress) -> ImportProgress:
                kept = {name: position for name, position in before.positions.items() if name not in read}
                return structs.replace(before, positions=kept)

            await self._change(change)

    async def _stored(self) -> ImportProgress:
        key = import_progress_key(self._session.map.issuer)
        owners = await self._session.writes.graph.key_get((key,))
        return await find_object(self._session.writes.graph, ImportProgress, owners.get(key, 0)) or ImportProgress(id=0)

    async def _section(self, section: Section, handle: Handler) -> None:
        # Without this line, the report lacks a kind without rows.
        self._session.summary[section.kind]
        stored = self._positions.get(section.digest)
        after: list[Any] = []
        inclusive = False
        self._session.early, self._session.newest, self._session.retry = set(), None, None
        if stored is not None and section.digest in self._resumed and not stored.finished:
            after = unpack(stored.values)
            self._session.retry = Retry(-1, stored.retry[0]) if stored.retry else None
        elif stored is not None and section.digest in self._resumed and not section.watermark:
            return
        elif stored is not None and section.watermark and stored.values:
            (self._session.newest,) = unpack(stored.values[:1])
            after, inclusive = unpack(stored.retry or stored.values[:1]), True
        for column, count in (await asyncio.to_thread(self._session.source.without_order, section)).items():
            self._session.refuse_many(section, f"{column}: empty, so the row has no place in the order of rows", count)
        done, total = 0, await asyncio.to_thread(self._session.source.count, section)
        last = settled = stored.values if stored is not None else ()
        size = ROWS if section.kind in ("posts", "comments") else MANY_ROWS
        batches = self._session.source.batches(section, after, size, inclusive=inclusive)
        try:
            while rows := await asyncio.to_thread(next, batches, None):
                await handle(section, list(self._session.records(section, rows, done)))
                last = pack([rows[-1][column] for column in section.order])
                past = next((row for row in reversed(rows) if not is_future(row[section.order[0]])), None)
                settled = pack([past[column] for column in section.order]) if past else settled
                done += len(rows)
                self._progress(section.kind, done, total)
                await self._keep(section, ImportPosition(last, retry=self._to_retry()))
        finally:
            # After an error, the connection would stay open until the garbage collector finds it.
            await asyncio.to_thread(batches.close)
        # A row with a watermark in the future, such as the year 9999, must not hide later rows from the next import.
        await self._keep(section, ImportPosition(settled, finished=True, retry=self._to_retry()))

    def _to_retry(self) -> tuple[tuple[str, str], ...]:
        return (self._session.retry.watermark,) if self._session.retry else ()

    async def _keep(self, section: Section, position: ImportPosition) -> None:
        """Store the position of a section. Positions of other maps are kept, up to a maximum."""
        if self._session.options.dry_run:
            return
        mine = {section.digest for section in self._session.map.sections}

        def change(before: ImportProgress) -> ImportProgress:
            others = {name: kept for name, kept in before.positions.items() if name not in mine}
            kept = dict(list(others.items())[-(_MAX_POSITIONS - len(mine)) :])
            own = {name: kept for name, kept in before.positions.items() if name in mine}
            return structs.replace(before, positions=kept | own | {section.digest: position})

        await self._change(change)

    async def _change(self, change: Callable[[ImportProgress], ImportProgress]) -> None:
        key = import_progress_key(self._session.map.issuer)

        async def read() -> ImportProgress:
            return await made_once(self._session.writes, key, ImportProgress, lambda id_: ImportProgress(id=id_))

        await change_object(self._session.writes.graph, read, change)


@asynccontextmanager
async def _fetching(options: ImportOptions, max_bytes: int) -> AsyncIterator[Callable[[str], Any]]:
    allowed: Sequence[Network] = networks_of(options.networks, "outgoing_networks")
    async with open_pool(allowed, FILES_AT_ONCE) as pool:

        async def fetch(url: str) -> bytes:
            found = await request(pool, "GET", url, seconds=_FETCH_SECONDS, max_bytes=max_bytes)
            if found.status != 200:
                raise RequestFailed(f"the server returned the status {found.status}")
            return found.body

        yield fetch


def _database() -> Any:
    """Return the module of sources, which needs the packages of the extra `import`."""
    try:
        return import_module("shoal.admin.database_imports.source")
    except ModuleNotFoundError as error:
        raise InvalidInput(f"from: {error.name} is not installed: pip install 'shoal[import]'") from error


async def import_mapped(
    network: AnyNetwork, mapped: ImportMap, url: str, summary: Summary, progress: Progress, options: ImportOptions
) -> None:
    """Import the rows of a source. Raises `InvalidInput` for a source that the map does not fit, and `Unavailable`."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-import-")))
        writes = network.writes.trusted()
        if mapped.has_files and not options.dry_run:
            writes = await stack.enter_async_context(with_own_decoder(network))
        fetch = await stack.enter_async_context(_fetching(options, network.media.limits.max_bytes))
        # Opening a folder reads all its files.
        opening = _database().open_source(url, mapped, folder, summary)
        source = await asyncio.to_thread(opening.__enter__)
        stack.push(opening.__exit__)
        session = Session(network, mapped, source, summary, options, writes, fetch)
        await MappedImport(session, progress).run()


class ImportMapped(Operation[ImportReport]):
    """Import a database or a folder by the text of a map. Rejected rows are written to the file `refused`."""

    alone = True
    background = True
    map: str
    source: str
    issuer: str = ""
    options: ImportOptions = ImportOptions()
    refused: Path | None = None

    @classmethod
    def of(cls, map_name: str, source: str, issuer: str, options: ImportOptions, refused: Path | None) -> ImportMapped:
        """Return the import by a ready map or file. Its paths are absolute, because it may run in another process.

        Raises `InvalidInput` for a wrong map and a missing folder of media.
        """
        text = read_map(map_name)
        parse_map(text, issuer)
        if "://" not in source:
            source = str(Path(source).absolute())
        elif source.startswith("sqlite:///"):
            source = f"sqlite:///{Path(source.removeprefix('sqlite:///')).absolute()}"
        if options.media is not None and not options.media.is_dir():
            raise InvalidInput(f"media: {options.media} is not a directory", field="media")
        media = options.media.absolute() if options.media else None
        return cls(text, source, issuer, structs.replace(options, media=media), refused.absolute() if refused else None)

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> ImportReport:
        mapped = parse_map(self.map, self.issuer)
        async with AsyncExitStack() as stack:
            summary = Summary(stack.enter_context(self.refused.open("wb")) if self.refused else None)
            summary.way = "from a database; dry run, nothing was written" if self.options.dry_run else "from a database"
            await import_mapped(network, mapped, self.source, summary, progress, self.options)
            return summary.report()
