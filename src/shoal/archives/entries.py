"""The files of an archive: a ZIP, a tar that is packed anew as one, or a single file.

Nothing is unpacked under a name from the archive: a name is only looked up. An entry is read in pieces, and no more of it than is
allowed, whatever size the archive says it has.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from shoal.core.errors import InvalidInput, TooLarge

MAX_ENTRIES = 100_000
"""Files in one archive."""
MAX_UNPACKED = 16 << 30
"""Bytes of a tar when it is unpacked, and of all documents that are read of one archive."""
_MAX_DIRECTORY = 16 << 20
"""Bytes of the table of contents of a ZIP."""
_MAX_HEADERS = 4 << 20
"""Bytes of a tar between the contents of two files: names, and lists of the holes in a file."""
_MAX_NAME = 4_096
"""Characters of the name of a file in a tar; longer ones are left out."""
_PIECE = 1 << 20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Methods whose output `zipfile` bounds: it decompresses at once all that it has read of the others."""

_DAMAGED = "file: this archive is damaged, or protected by a password: it cannot be read"
_METHOD = "file: this archive is compressed in a way that is not read here: make it a ZIP with Deflate, as usual"
_FAULTS = (
    gzip.BadGzipFile,
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,
    UnicodeDecodeError,
)
"""Errors of a file that is damaged or encrypted, has names that are not UTF-8, or an unknown method (a `RuntimeError`)."""


def _on() -> None:
    """Go on reading."""


class Readable(Protocol):
    """A file that is read from its beginning to its end."""

    def read(self, size: int = -1, /) -> bytes:
        """Return some of the bytes that come next, at most `size`; none at the end."""
        ...


class Root(NamedTuple):
    """A file that tells a format, and the folder in the archive that all its paths begin at."""

    found: str
    prefix: str


class Entries:
    """The files of one archive, by name."""

    def __init__(
        self, path: Path, archive: zipfile.ZipFile | None, most: int = MAX_UNPACKED, going_on: Callable[[], None] = _on
    ) -> None:
        self.path = path
        self._archive = archive
        self._most = self._left = most
        self._going_on = going_on
        self._infos = (
            {info.filename: info for info in archive.infolist() if info.filename and not info.is_dir()}
            if archive
            else {}
        )

    @property
    def single(self) -> bool:
        """Whether it is one file, and no archive of several."""
        return self._archive is None

    @property
    def names(self) -> list[str]:
        """Return the names of all files."""
        return list(self._infos)

    def __contains__(self, name: str) -> bool:
        return name in self._infos

    def root(self, *markers: str) -> Root | None:
        """Find one of these files, in the outermost folder that has it. None if it is not there."""
        found = [
            Root(name, name.removesuffix(marker))
            for marker in markers
            for name in self._infos
            if name == marker or name.endswith(f"/{marker}")
        ]
        return min(found, key=lambda root: (root.prefix.count("/"), root.found), default=None)

    def below(self, folder: str, ending: str = "") -> list[str]:
        """Return the names of the files in a folder, and in folders in it, that end so; in order."""
        return sorted(name for name in self._infos if name.startswith(folder) and name.endswith(ending))

    @contextmanager
    def opened(self, name: str) -> Iterator[Readable]:
        """Open a file to be read from its beginning, as a document. `name` is ignored of a single file.

        Raises `InvalidInput` for one that is damaged, `TooLarge` past what all documents may have together.
        """
        with _faults(), self._open(name) as file:
            counted = _Counted(file, self._left, self._refuse, self._going_on)
            try:
                yield counted
            finally:
                self._left -= counted.count

    def read(self, name: str, most: int) -> bytes:
        """Return a whole file. Raises `TooLarge` for one of more than `most` bytes, `InvalidInput` for one that is damaged."""
        with _faults(), self._open(name) as file:
            data = bytearray()
            while piece := file.read(min(_PIECE, most + 1 - len(data))):
                data += piece
        if len(data) > most:
            raise TooLarge(f"file: {Path(name).name} has more than {most} bytes", field="file")
        return bytes(data)

    def _refuse(self) -> TooLarge:
        return TooLarge(f"file: at most {self._most} bytes of documents in an archive", field="file")

    def _open(self, name: str) -> IO[bytes]:
        if self._archive is None:
            return self.path.open("rb")
        if name not in self._infos:
            raise InvalidInput(f"file: this archive lacks {Path(name).name}", field="file")
        if self._infos[name].compress_type not in _METHODS:
            raise InvalidInput(_METHOD, field="file")
        return self._archive.open(self._infos[name])


@contextmanager
def opened(path: Path, folder: Path, most: int = MAX_UNPACKED, going_on: Callable[[], None] = _on) -> Iterator[Entries]:
    """Open an archive. A tar is packed anew in `folder`, which is to be removed afterwards.

    A tar has `most` bytes when it is unpacked, and so have all documents that are read. `going_on` is called for each piece that is
    read, and raises to end it. Raises `InvalidInput` for one that is damaged, `TooLarge` for one of too many files or bytes.
    """
    with _faults(), path.open("rb") as file:
        head = file.read(512)
    packed = path
    zipped = head[:2] == b"\x1f\x8b"
    if zipped or head[257:262] == b"ustar":
        packed = folder / "packed.zip"
        with _faults():
            _pack_anew(path, packed, most, going_on, zipped=zipped)
        head = b"PK"
    if head[:2] != b"PK":
        entries = Entries(packed, None, most, going_on)
        yield entries
        return
    with _Directory(packed) as file:
        with _faults():
            # Its table of contents is read at once, by the size that it says itself.
            archive = zipfile.ZipFile(file)
        with archive:
            if len(archive.infolist()) > MAX_ENTRIES:
                raise _too_many()
            yield Entries(packed, archive, most, going_on)


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except (*_FAULTS, tarfile.TarError) as error:
        if isinstance(error, RecursionError):
            raise
        raise InvalidInput(_DAMAGED, field="file") from error


def _too_many() -> TooLarge:
    return TooLarge(f"file: at most {MAX_ENTRIES} files in an archive", field="file")


class _Directory(io.FileIO):
    """A file of which nobody reads more at once than a table of contents may have."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read so many bytes, or all that are left."""
        left = os.fstat(self.fileno()).st_size - self.tell()
        return super().read(_checked(left if size is None or size < 0 else size)) or b""

    def seek(self, to: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to a byte. Raises `BadZipFile` for a position outside the file, which a table of contents may have."""
        if whence == os.SEEK_SET and not 0 <= to <= os.fstat(self.fileno()).st_size:
            raise zipfile.BadZipFile
        return super().seek(to, whence)


class _Tar(io.BufferedIOBase):
    """A tar of which nobody reads more between the contents of two files than `_MAX_HEADERS`."""

    def __init__(self, file: io.BufferedIOBase) -> None:
        super().__init__()
        self._file = file
        self.since = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Read so many bytes."""
        data = self._file.read(_checked(size))
        self.since += len(data)
        if self.since > _MAX_HEADERS:
            raise _too_many()
        return data

    def seek(self, to: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to a byte."""
        return self._file.seek(to, whence)

    def tell(self) -> int:
        """Return which byte comes next."""
        return self._file.tell()


def _checked(size: int | None) -> int:
    """Refuse a read of as much as an archive claims to have in its own lists, such as the names of a tar."""
    if size is None or not 0 <= size <= _MAX_DIRECTORY:
        raise _too_many()
    return size


class _Counted:
    """A file that knows how much was read of it, and ends with an error past a maximum."""

    def __init__(
        self, file: IO[bytes], most: int, refuse: Callable[[], TooLarge], going_on: Callable[[], None]
    ) -> None:
        self._file = file
        self._most = most
        self._refuse = refuse
        self._going_on = going_on
        self.count = 0

    def read(self, size: int = -1, /) -> bytes:
        """Read so many bytes, and a piece where no number is given."""
        self._going_on()
        data = self._file.read(_PIECE if size < 0 else min(size, _PIECE))
        self.count += len(data)
        if self.count > self._most:
            raise self._refuse()
        return data


def _pack_anew(path: Path, to: Path, most: int, going_on: Callable[[], None], *, zipped: bool) -> None:
    """Copy the files of a tar into a ZIP: files of a tar are found only by reading all that comes before them."""
    try:
        with (
            gzip.open(path) if zipped else path.open("rb") as packed,
            zipfile.ZipFile(to, "w", zipfile.ZIP_STORED) as archive,
        ):
            _copy(_Tar(packed), archive, most, going_on)
    except (ValueError, OverflowError, IndexError) as error:
        # Of a number in a header that is none, or points to nowhere.
        raise InvalidInput(_DAMAGED, field="file") from error


def _copy(file: _Tar, archive: zipfile.ZipFile, most: int, going_on: Callable[[], None]) -> None:
    left, names, at, number = most, _MAX_DIRECTORY, 0, 0
    with tarfile.open(fileobj=file, mode="r:") as tar:
        while (member := tar.next()) is not None:
            if member.size < 0 or tar.offset <= at:
                # It would be read in a ring.
                raise InvalidInput(_DAMAGED, field="file")
            name = _name_of(member)
            at, number = tar.offset, number + 1
            left -= member.size
            names -= len(name)
            if number > MAX_ENTRIES or names < 0:
                raise _too_many()
            if left < 0:
                raise TooLarge(f"file: at most {most} bytes in a tar", field="file")
            source = tar.extractfile(member) if name and member.isreg() else None
            file.since = 0
            if source is not None:
                with archive.open(name, "w", force_zip64=True) as target:
                    while piece := source.read(_PIECE):
                        going_on()
                        target.write(piece)
                        file.since = 0
            # It would remember all of them, and what the headers of one say of all that follow.
            tar.members = []  # type: ignore[attr-defined]  # of the public class, and missing in its stubs
            tar.pax_headers = {}


def _name_of(member: tarfile.TarInfo) -> str:
    """Return the name of a file in a tar; empty for one that is not UTF-8, or too long."""
    name = member.name.removeprefix("./")
    # What is no UTF-8 has become surrogates.
    fits = len(name) <= _MAX_NAME and not any("\ud800" <= letter <= "\udfff" for letter in name)
    return name if fits else ""
