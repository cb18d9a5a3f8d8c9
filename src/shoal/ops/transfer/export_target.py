"""Where an export goes: a directory, or one zip file. Either is there whole or not at all."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from shoal import private_files
from shoal.core.errors import InvalidInput

Open = Callable[[str], AbstractContextManager[IO[bytes]]]
"""Begins a file by its name, to be written in one go and closed before the next one begins."""

_STORED = (".jpg", ".png", ".webp", ".gif", ".avif")
"""Suffixes of files that are compressed already."""


@contextmanager
def export_target(to: Path) -> Iterator[Open]:
    """A place for files: a zip when `to` ends in `.zip`, else a directory that is empty or not there yet.

    Raises `InvalidInput` where something is in the way. What was begun is removed when it fails.
    """
    zipped = to.suffix == ".zip"
    if to.exists() and (zipped or not to.is_dir() or any(to.iterdir())):
        raise InvalidInput(f"{to} is there already: name another place, or remove it first")
    begun = to.with_name(f"{to.name}.part")
    with _zip(begun) if zipped else _folder(begun) as opened:
        yield opened
    begun.replace(to)


@contextmanager
def _folder(root: Path) -> Iterator[Open]:
    @contextmanager
    def opened(name: str) -> Iterator[IO[bytes]]:
        path = root / name
        private_files.make_folder(path.parent)
        with os.fdopen(private_files.open_file(path, os.O_WRONLY | os.O_TRUNC), "wb") as file:
            yield file

    # Left behind by an export that was killed.
    shutil.rmtree(root, ignore_errors=True)
    private_files.make_folder(root)
    try:
        yield opened
    except BaseException:
        shutil.rmtree(root)
        raise


@contextmanager
def _zip(path: Path) -> Iterator[Open]:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with (
            os.fdopen(private_files.open_file(path, os.O_RDWR | os.O_TRUNC), "w+b") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            yield partial(entry_of, archive)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@contextmanager
def entry_of(archive: zipfile.ZipFile, name: str) -> Iterator[IO[bytes]]:
    """Begin a file in a zip by its name."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_STORED if name.endswith(_STORED) else zipfile.ZIP_DEFLATED
    with archive.open(entry, "w", force_zip64=True) as file:
        yield file
