"""The files of an archive: a ZIP, a tar that is repacked as a ZIP, or a single file.

Nothing is unpacked under a name from the archive; names are only looked up. Entries are read in pieces, up to the allowed size,
whatever size the archive declares.
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
MAX_UNPACKED = 16 << 30
"""Maximum bytes of an unpacked tar, and of all documents read from an archive."""
_MAX_DIRECTORY = 16 << 20
_MAX_HEADERS = 4 << 20
"""Maximum bytes of a tar between the contents of two files: names, and maps of sparse files."""
_MAX_NAME = 4_096
"""Maximum characters of a file name in a tar; files with longer names are left out."""
_PIECE = 1 << 20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Compression methods for which `zipfile` limits the size of a decompressed piece. With other methods, it has no limit."""

_DAMAGED = "file: this archive is damaged or protected by a password"
_METHOD = "file: this archive uses an unsupported compression: repack it as a ZIP with Deflate"
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
"""Exceptions of a file that is damaged or encrypted, has names that are not UTF-8, or uses an unknown compression method."""


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes, at most `size`; empty at the end of the file."""
        ...


class Root(NamedTuple):
    """The file by which the format of an archive was recognized, and the folder that contains all files of this format."""

    found: str
    prefix: str


class Entries:
    def __init__(self, path: Path, archive: zipfile.ZipFile | None, most: int, going_on: Callable[[], None]) -> None:
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
        return self._archive is None

    @property
    def names(self) -> list[str]:
        return list(self._infos)

    def __contains__(self, name: str) -> bool:
        return name in self._infos

    def root(self, *markers: str) -> Root | None:
        """Return the outermost file whose path equals or ends with one of the `markers`; None without such a file."""
        found = [
            Root(name, name.removesuffix(marker))
            for marker in markers
            for name in self._infos
            if name == marker or name.endswith(f"/{marker}")
        ]
        return min(found, key=lambda root: (root.prefix.count("/"), root.found), default=None)

    def below(self, folder: str, ending: str = "") -> list[str]:
        """Return the sorted names of the files in a folder and its subfolders whose names end with `ending`."""
        return sorted(name for name in self._infos if name.startswith(folder) and name.endswith(ending))

    @contextmanager
    def opened(self, name: str) -> Iterator[Readable]:
        """Open a document for sequential reading. If the archive is a single file, `name` is ignored.

        Raises `InvalidInput` if the document is damaged, and `TooLarge` if the documents read so far exceed their limit
        together.
        """
        with _faults(), self._open(name) as file:
            yield _Document(file, self._count)

    def read(self, name: str, most: int) -> bytes:
        """Return the contents of a file.

        Raises `TooLarge` if it has more than `most` bytes, and `InvalidInput` if it is damaged.
        """
        with _faults(), self._open(name) as file:
            data = bytearray()
            while piece := file.read(min(_PIECE, most + 1 - len(data))):
                data += piece
        if len(data) > most:
            raise TooLarge(f"file: {Path(name).name} has more than {most} bytes", field="file")
        return bytes(data)

    def _count(self, size: int) -> None:
        """Count bytes that were read from documents. Raises `TooLarge` if the total exceeds the limit."""
        self._going_on()
        self._left -= size
        if self._left < 0:
            raise TooLarge(
                f"file: the documents of an archive may have at most {self._most} bytes together", field="file"
            )

    def _open(self, name: str) -> IO[bytes]:
        if self._archive is None:
            return self.path.open("rb")
        if name not in self._infos:
            raise InvalidInput(f"file: this archive lacks {Path(name).name}", field="file")
        if self._infos[name].compress_type not in _METHODS:
            raise InvalidInput(_METHOD, field="file")
        return self._archive.open(self._infos[name])


@contextmanager
def opened(
    path: Path, folder: Path, most: int = MAX_UNPACKED, going_on: Callable[[], None] = lambda: None
) -> Iterator[Entries]:
    """Open an archive. A tar is repacked into `folder`, which the caller removes afterwards.

    `most` limits the bytes of an unpacked tar, and of all documents that are read. `going_on` is called for each piece
    that is read; it may raise an exception to stop the work. Raises `InvalidInput` for a damaged archive, and
    `TooLarge` for an archive with too many files or bytes.
    """
    with _faults(), path.open("rb") as file:
        head = file.read(512)
    packed = path
    zipped = head[:2] == b"\x1f\x8b"
    if zipped or head[257:262] == b"ustar":
        packed = folder / "packed.zip"
        with _faults():
            _convert_to_zip(path, packed, most, going_on, zipped=zipped)
        head = b"PK"
    if head[:2] != b"PK":
        entries = Entries(packed, None, most, going_on)
        yield entries
        return
    with _Directory(packed) as file:
        with _faults():
            # `zipfile` reads the whole central directory at once, in the size that the archive declares. `_Directory`
            # limits this read.
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
    return TooLarge(f"file: an archive may contain at most {MAX_ENTRIES} files", field="file")


class _Directory(io.FileIO):
    """A ZIP file that limits the size of each read, because a hostile archive can declare a huge central directory."""

    def read(self, size: int | None = -1, /) -> bytes:
        left = os.fstat(self.fileno()).st_size - self.tell()
        return super().read(_checked(left if size is None or size < 0 else size)) or b""

    def seek(self, to: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to a position. Raises `BadZipFile` for a position outside the file, which a damaged central directory may have."""
        if whence == os.SEEK_SET and not 0 <= to <= os.fstat(self.fileno()).st_size:
            raise zipfile.BadZipFile
        return super().seek(to, whence)


class _Tar(io.BufferedIOBase):
    """A tar file that limits how many bytes of headers (`_MAX_HEADERS`) are read between the contents of two files."""

    def __init__(self, file: io.BufferedIOBase) -> None:
        super().__init__()
        self._file = file
        self.since = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = self._file.read(_checked(size))
        self.since += len(data)
        if self.since > _MAX_HEADERS:
            raise _too_many()
        return data

    def seek(self, to: int, whence: int = os.SEEK_SET, /) -> int:
        return self._file.seek(to, whence)

    def tell(self) -> int:
        return self._file.tell()


def _checked(size: int | None) -> int:
    """Return a read size that the archive itself declares. Raises `TooLarge` above 16 MiB."""
    if size is None or not 0 <= size <= _MAX_DIRECTORY:
        raise _too_many()
    return size


class _Document:
    """A file that is read in pieces. `count` is called with the size of each piece."""

    def __init__(self, file: IO[bytes], count: Callable[[int], None]) -> None:
        self._file = file
        self._count = count

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(_PIECE if size < 0 else min(size, _PIECE))
        self._count(len(data))
        return data


def _convert_to_zip(path: Path, to: Path, most: int, going_on: Callable[[], None], *, zipped: bool) -> None:
    """Copy the files of a tar into a ZIP, which has an index. To find a file in a tar, all files before it must be read."""
    try:
        with (
            gzip.open(path) if zipped else path.open("rb") as packed,
            zipfile.ZipFile(to, "w", zipfile.ZIP_STORED) as archive,
        ):
            _copy(_Tar(packed), archive, most, going_on)
    except (ValueError, OverflowError, IndexError) as error:
        # A header contains an invalid number, or points outside the file.
        raise InvalidInput(_DAMAGED, field="file") from error


def _copy(file: _Tar, archive: zipfile.ZipFile, most: int, going_on: Callable[[], None]) -> None:
    left, names, at, number = most, _MAX_DIRECTORY, 0, 0
    with tarfile.open(fileobj=file, mode="r:") as tar:
        while (member := tar.next()) is not None:
            if member.size < 0 or tar.offset <= at:
                # The header points to an earlier position in the file, so reading would never end.
                raise InvalidInput(_DAMAGED, field="file")
            name = _name_of(member)
            at, number = tar.offset, number + 1
            left -= member.size
            names -= len(name)
            if number > MAX_ENTRIES or names < 0:
                raise _too_many()
            if left < 0:
                raise TooLarge(f"file: a tar may contain at most {most} bytes", field="file")
            source = tar.extractfile(member) if name and member.isreg() else None
            file.since = 0
            if source is not None:
                with archive.open(name, "w", force_zip64=True) as target:
                    while piece := source.read(_PIECE):
                        going_on()
                        target.write(piece)
                        file.since = 0
            # `tarfile` would keep all members in memory, and apply the headers of one member to all later ones.
            tar.members = []  # type: ignore[attr-defined]  # public, but missing in the stubs
            tar.pax_headers = {}


def _name_of(member: tarfile.TarInfo) -> str:
    """Return the name of a file in a tar; empty if it is not UTF-8, or too long."""
    name = member.name.removeprefix("./")
    # `tarfile` has decoded bytes that are not UTF-8 to surrogates.
    fits = len(name) <= _MAX_NAME and not any("\ud800" <= letter <= "\udfff" for letter in name)
    return name if fits else ""
