"""Input files of an import. Spool files keep records on disk between two passes, so that memory is bounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import md5
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from shoal.admin.throttling import PATIENCE_SECONDS
from shoal.core.errors import InvalidInput

_BITS = 40
_SAMPLE_BYTES = 65_536
MATCH, BEST_CONNECTED = "match", "best-connected"
PHOTO_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif"})


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    members: Path | None = None
    """Without a file of members, follows and posts refer to existing members by name."""
    follows: Path | None = None
    mutual: bool = False
    """Whether each row of the file of follows is a follow in both directions."""
    posts: Path | None = None
    authors: str = MATCH
    """`match`: authors are members by id or name.

    `best-connected`: the most active author is the best-connected member, and so on.
    """
    photos: Path | None = None
    """A directory of pictures.

    They are attached to the newest posts in the order of their names, and from the first again after the last.
    """
    photos_newest: int = 500
    bulk: bool | None = None
    """Whether to write rows directly into the store, which requires an empty network. None: whenever that is possible."""
    columns: Mapping[str, str] = {}
    """Names of columns that are not the usual ones, by field, such as `posts.title`."""
    patience: float = PATIENCE_SECONDS
    """Seconds for which an unavailable store is retried before the import fails."""


def in_directory(folder: Path) -> Sources:
    """Return the files of a directory with `graph/nodes.csv`, `graph/edges.csv`, `posts/*.jsonl.gz` and `photos/`.

    Each of them may be missing. Raises `InvalidInput` if the files of members, follows and posts are all missing.
    """
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a directory")
    members, follows, photos = folder / "graph" / "nodes.csv", folder / "graph" / "edges.csv", folder / "photos"
    found = sorted((folder / "posts").glob("*.jsonl*"))
    sources = Sources(
        members=members if members.exists() else None,
        follows=follows if follows.exists() else None,
        mutual=True,
        posts=found[0] if found else None,
        authors=BEST_CONNECTED,
        photos=photos if photos.is_dir() else None,
    )
    if not (sources.members or sources.follows or sources.posts):
        raise InvalidInput(
            f"{folder} has no graph/nodes.csv, graph/edges.csv or posts/*.jsonl.gz: name the files with options"
        )
    return sources


def photos_in(folder: Path) -> list[Path]:
    """Return the pictures of a directory, sorted by name. Raises `InvalidInput` if there are none."""
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in PHOTO_SUFFIXES)
    if not found:
        raise InvalidInput(f"{folder} has no pictures ({', '.join(sorted(PHOTO_SUFFIXES))})")
    return found


R = TypeVar("R")

_AT_ONCE = 1_000


class RecordSpool(Generic[R]):
    """Records of one type, stored in a file in blocks of 1,000. `count` is the number of records."""

    def __init__(self, path: Path, record: type[R]) -> None:
        self.count = 0
        self._path = path
        self._encode = msgspec.msgpack.encode
        self._decoder: msgspec.msgpack.Decoder[list[R]] = msgspec.msgpack.Decoder(list[record])  # type: ignore[valid-type]

    def fill(self, records: Iterable[R]) -> None:
        """Write all records to the file. Call this only once."""
        waiting = iter(records)
        with self._path.open("wb") as file:
            while block := list(islice(waiting, _AT_ONCE)):
                packed = self._encode(block)
                file.write(len(packed).to_bytes(4) + packed)
                self.count += len(block)

    def blocks(self, size: int) -> Iterator[list[R]]:
        """Iterate over the records in order, in blocks. All blocks but the last have at least `size` records."""
        if not self.count:
            return
        block: list[R] = []
        with self._path.open("rb") as file:
            while head := file.read(4):
                block += self._decoder.decode(file.read(int.from_bytes(head)))
                if len(block) >= size:
                    yield block
                    block = []
        if block:
            yield block


def number_of(sources: Sources) -> int:
    """Return a 40-bit fingerprint of an import. It depends on the options, and on the size, beginning and end of each file."""
    digest = md5(usedforsecurity=False)
    inputs = (sources.mutual, sources.authors, sources.photos_newest, sorted(sources.columns.items()))
    digest.update(repr(inputs).encode())
    for path in (sources.members, sources.follows, sources.posts):
        digest.update(_sample(path) if path else b"none")
    return int.from_bytes(digest.digest()[:8]) >> (64 - _BITS)


def _sample(path: Path) -> bytes:
    size = path.stat().st_size
    with path.open("rb") as file:
        first = file.read(_SAMPLE_BYTES)
        file.seek(max(0, size - _SAMPLE_BYTES))
        return b"%d:" % size + first + file.read(_SAMPLE_BYTES)
