"""The manifest of a generation: all that is in it, with sizes and hashes. A generation without one does not exist."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from shoal.core.errors import InvalidInput

FORMAT = 1
"""Version of everything a backup consists of. Backups of a greater one are refused."""


PUSH_KEY = "push-key"
"""Name and table of the part that holds the key for web push, where that is a file beside the store."""


class DumpPart(msgspec.Struct, frozen=True):
    """One file of rows: its key below the generation, the hash and size of the file as it lies there, and its rows."""

    key: str
    table: str
    size: int
    sha256: str
    rows: int


class KeptTagRule(msgspec.Struct, frozen=True):
    """A rule of an admin on a tag: it is not in the graph, and could not be counted anew."""

    name: str
    denied: bool
    target: str


class MediaTotals(msgspec.Struct, frozen=True):
    """Files of media that a generation names, and those of them that it was the first to bring."""

    files: int = 0
    bytes: int = 0
    new_files: int = 0
    new_bytes: int = 0


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One generation, as it is stored in JSON."""

    format: int
    generation: str
    shoal: str
    """The version of Shoal that wrote it."""
    moment: int
    """The moment that it brings back, in Unix milliseconds."""
    finished: int
    """When it was whole, in Unix milliseconds."""
    held_ms: float
    """How long commits were kept waiting while the stores were opened; 0 where one store is all."""
    stores: Mapping[str, str]
    """Which data sources lay in which store, without users and passwords."""
    parts: tuple[DumpPart, ...]
    tag_rules: tuple[KeptTagRule, ...] = ()
    media: MediaTotals = MediaTotals()
    lacking: tuple[str, ...] = ()
    """Files of media that the rows name and that were deleted before they could be copied; at most a thousand."""
    lacks: int = 0
    """How many these are."""

    def rows(self, table: str) -> int:
        """How many rows of a table there are."""
        return sum(part.rows for part in self.parts if part.table == table)

    @property
    def at(self) -> datetime:
        """The moment, in UTC."""
        return datetime.fromtimestamp(self.moment / 1_000, UTC)

    @property
    def stored(self) -> int:
        """Bytes of all parts, without media."""
        return sum(part.size for part in self.parts)


class _Head(msgspec.Struct):
    format: int


def encode(manifest: Manifest) -> bytes:
    """Return it as JSON that people can read too."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def decode(data: bytes, generation: str) -> Manifest:
    """Return the manifest of a generation. Raises `InvalidInput` for one that is damaged, or of a newer Shoal."""
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.format <= FORMAT:
            manifest = msgspec.json.decode(data, type=Manifest)
            if manifest.generation == generation:
                return manifest
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the manifest of {generation} is damaged: use another generation") from error
    if head.format > FORMAT:
        raise InvalidInput(f"{generation} was written by a newer Shoal: use that one, or a newer one")
    raise InvalidInput(f"the manifest of {generation} is that of another generation: use another one")


def plain(manifest: Manifest) -> dict[str, Any]:
    """Return what lists show of a generation, for programs."""
    return {
        "generation": manifest.generation,
        "moment": manifest.at.isoformat(timespec="milliseconds"),
        "shoal": manifest.shoal,
        "held_ms": manifest.held_ms,
        "rows": sum(part.rows for part in manifest.parts),
        "bytes": manifest.stored,
        "media_files": manifest.media.files,
        "media_bytes": manifest.media.bytes,
        "new_media_files": manifest.media.new_files,
        "new_media_bytes": manifest.media.new_bytes,
        "lacks": manifest.lacks,
    }
