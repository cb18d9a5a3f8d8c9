"""What all parts of an import share: the map, the source, the network, the report, and the look-ups of objects by external ids."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from shoal.admin.contract import AnyNetwork
from shoal.admin.database_imports.maps import ImportMap, Rejected, RowError, Section
from shoal.admin.database_imports.positions import is_before, pack
from shoal.admin.imports.records import TICKS, PostRecord, Summary, Wording, ticks_of, worded
from shoal.commands import external_ids
from shoal.commands.context import Writes
from shoal.core.errors import InvalidInput
from shoal.core.external_ids import ExternalId, ExternalKind
from shoal.core.ids import EPOCH_MS
from shoal.core.model import Post, Visibility
from shoal.core.text import as_text, normalized
from shoal.graph.bulk import Loading
from shoal.graph.schema import AnyNode

if TYPE_CHECKING:
    from shoal.admin.database_imports.source import Source

Row = Mapping[str, Any]
T = TypeVar("T")

AT_ONCE = 256
_REMEMBERED = 500_000
"""Maximum number of references that are kept in memory."""
_MAX_REASONS = 100
"""Maximum number of reasons that the report counts separately, for each kind."""
SHOWN = 60
"""Maximum characters of a value in the report."""
_ANOTHER_ROW = "another row has this id"
_CONSECUTIVE = 8
_WIDTHS = 14
NO_MEMBER = "no member has this id"
NO_POST = "no post or comment has this id"


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an import."""

    dry_run: bool = False
    strict: bool = False
    """Whether the first rejected row ends the import."""
    overwrite: bool = False
    """Whether changes of the source replace those that were made here since."""
    full: bool = False
    """Whether to read all rows, whatever the stored positions."""
    media: Path | None = None
    """The folder of the media that have a path."""
    fetch: bool = False
    """Whether to fetch the media that have a URL."""
    networks: tuple[str, ...] = ()
    """Address ranges from which media may be fetched, in addition to public addresses."""
    patience: float = 60.0
    """Seconds for which an unavailable store is retried."""


class Record(NamedTuple):
    """A converted row of a section: its fields, the row, and its number in the order of rows.

    A parent that is read before its turn has the highest number, because the import reads it again.
    """

    fields: dict[str, Any]
    row: Row
    section: Section
    number: int = 0

    @property
    def where(self) -> str:
        """The key of the row, for reports."""
        return self.section.where(self.row)


class Retry(NamedTuple):
    """The first row of a section whose reference led nowhere, although its object may have been created since it was looked for."""

    number: int
    watermark: tuple[str, str]


class Session:
    """One run of an import."""

    def __init__(
        self,
        network: AnyNetwork,
        mapped: ImportMap,
        source: Source,
        summary: Summary,
        options: ImportOptions,
        writes: Writes,
        fetch: Callable[[str], Any],
    ) -> None:
        self.network, self.map, self.source = network, mapped, source
        self.summary, self.options = summary, options
        self.writes, self.fetch = writes, fetch
        self.member_ids: dict[str, int] = {}
        self._planned: dict[str, set[int]] = {}
        """In a dry run, hashes of the ids that would be imported."""
        self.planned_narrow: dict[tuple[str, str], tuple[Visibility, str]] = {}
        """In a dry run, the posts that would be imported and not all members could see, with their authors."""
        self.followed = False
        self.early: set[str] = set()
        """Ids of comments of the current section that were imported before their own rows were read, as parents of others."""
        self.newest: Any = None
        """The newest watermark of the current section that an earlier import has read; None if there is none."""
        self.retry: Retry | None = None
        self.bulk: Loading | None = None
        """The store, if rows are written into it directly or in merged commits, because the network was empty."""
        self.new = False
        """Whether this run is the first into an empty network, so that no interrupted one has created objects."""

    def records(self, section: Section, rows: Iterable[Row], first: int = 0) -> Iterator[Record]:
        for number, row in enumerate(rows, first):
            try:
                yield Record(section.converted(row), row, section, number)
            except RowError as error:
                self.refuse(section, section.where(row), error.rejected)

    def refuse(self, section: Section, where: str, rejected: Rejected) -> None:
        value = f": {rejected.value}" if rejected.value else ""
        if self.options.strict:
            raise InvalidInput(f"{section.title}, row {where}: {rejected.reason}{value}")
        reason, known = rejected.reason, self.summary[section.kind].refused
        if reason not in known and len(known) >= _MAX_REASONS:
            # Some reasons contain a value, such as the length of a text.
            reason, value = "other reasons", f": {reason}"
        self.summary.refuse(section.kind, f"row {where}{value}", reason)

    def refuse_reference(self, section: Section, record: Record, field: str, reason: str) -> None:
        """Reject a row whose reference leads nowhere.

        Its object may have been created after the section of that kind was read. With a watermark, the next import therefore
        begins at the first of these rows, unless an earlier import has read it too.
        """
        self.refuse(section, record.where, Rejected(f"{field}: {reason}", record.fields[field]))
        if section.watermark and (self.retry is None or record.number < self.retry.number):
            watermark = record.row[section.watermark]
            if self.newest is None or not is_before(watermark, self.newest):
                self.retry = Retry(record.number, pack([watermark])[0])

    def refuse_many(self, section: Section, reason: str, count: int) -> None:
        if self.options.strict:
            raise InvalidInput(f"{section.title}: {reason} ({count} rows)")
        for _ in range(count):
            self.summary.refuse(section.kind, "", reason)

    def external(self, id_: str) -> ExternalId:
        return ExternalId(self.map.issuer, id_)

    def once(self, section: Section, records: Iterable[Record]) -> dict[str, Record]:
        """Return records by their id. Of several records with one id, the last changed one is kept, and the others are rejected."""
        found: dict[str, Record] = {}
        for record in records:
            id_ = record.fields["id"]
            kept = found.setdefault(id_, record)
            if kept is record:
                continue
            if record.fields.get("updated_at", 0) > kept.fields.get("updated_at", 0):
                found[id_] = record
            other = kept if found[id_] is record else record
            self.refuse(section, other.where, Rejected(f"id: {_ANOTHER_ROW}", id_))
        return found

    def plan(self, kind: str, ids: Iterable[str]) -> None:
        self._planned.setdefault(kind, set()).update(map(hash, ids))

    def is_planned(self, kind: str, id_: str) -> bool:
        return hash(id_) in self._planned.get(kind, ())

    async def members(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the members with these ids in the product. In a dry run, a member who would be imported has the id -1."""
        requested = list(dict.fromkeys(ids))
        if len(self.member_ids) > _REMEMBERED:
            self.member_ids.clear()
        unknown = [id_ for id_ in requested if id_ not in self.member_ids]
        found = await external_ids.members_of(self.writes.graph, map(self.external, unknown))
        self.member_ids |= {external.id: member_id for external, member_id in found.items()}
        known = {id_: self.member_ids[id_] for id_ in requested if id_ in self.member_ids}
        return {id_: -1 for id_ in requested if self.is_planned("members", id_)} | known

    async def objects(self, kind: ExternalKind, ids: Iterable[str]) -> dict[str, int]:
        """Return the objects with these ids in the product, as `_members`."""
        requested = list(dict.fromkeys(ids))
        found = await external_ids.objects_of_kind(self.writes.graph, kind, map(self.external, requested))
        planned = {id_: -1 for id_ in requested if self.is_planned(kind, id_)}
        return planned | {external.id: object_id for external, object_id in found.items()}

    async def posts(self, ids: Collection[int]) -> dict[int, Post]:
        return {id_: node for id_, node in (await self.nodes(ids)).items() if isinstance(node, Post)}

    async def nodes(self, ids: Collection[int]) -> dict[int, AnyNode]:
        requested = [id_ for id_ in ids if id_ > 0]
        nodes: dict[int, AnyNode] = {}
        for part in parts_of(requested, AT_ONCE):
            nodes |= await self.writes.graph.obj_get(part)
        return nodes


def text_of(record: Record, limit: int) -> Wording:
    """Return the text of a post or comment: its title, its text and its tags."""
    fields = record.fields
    return worded(
        PostRecord(
            id=fields["id"],
            author=fields["author"],
            created_at=fields["created_at"],
            title=fields.get("title", ""),
            text=fields.get("text", ""),
            tags=fields.get("tags", ()),
            sensitive=fields.get("sensitive", False),
            language=fields.get("language", ""),
        ),
        limit,
    )


def parts_of(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def spread(moment: int, *of: object) -> int:
    """Return the ticks of a time (Unix ms). Times in whole seconds are spread within their second, and others in their millisecond.

    The position depends on `of` only, so a repeated import has an equal result.
    """
    number = int.from_bytes(blake2b(repr(of).encode(), digest_size=8).digest())
    first = ticks_of(moment)
    if moment < EPOCH_MS:
        return first + number % TICKS
    return first + number % (TICKS * 1_000 if moment % 1_000 == 0 else TICKS)


def candidates(first: int, name: str) -> Iterator[int]:
    """Yield ticks for the id of an object, from `first` on: consecutive ones, then some that are spread over seconds.

    Many old objects can have one time, such as that of a migration.
    """
    yield from range(first, first + _CONSECUTIVE)
    for width in range(1, _WIDTHS):
        yield first + int.from_bytes(blake2b(f"{name} {width}".encode(), digest_size=8).digest()) % (TICKS << width)


def shortened(text: str, limit: int) -> str:
    """Return the first `limit` characters of a text, cleaned as `as_text` does."""
    return normalized("NFC", as_text(text))[:limit]
