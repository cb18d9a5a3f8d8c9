"""Files of the web app: styles, scripts, icons. Their address changes whenever one of them does, so browsers keep them for ever.

Style sheets are one file for each part of a page, sent as one; the order of their layers is in `tokens.css`. Scripts are
modules that are fetched when a page has something for them.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from shoal.core.errors import NotFound

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".png": "image/png",
}
_TOKENS = "styles/tokens.css"
SHEET = "styles/app.css"
"""Name of all style sheets together."""


class Asset(NamedTuple):
    """A file: its type, its bytes, and the same compressed (gzip)."""

    content_type: str
    data: bytes
    packed: bytes


class Assets(NamedTuple):
    """All files by name, and a word that is another one whenever one of them changes."""

    version: str
    found: dict[str, Asset]

    def get(self, name: str) -> Asset:
        """Return a file. Raises `NotFound`."""
        if name not in self.found:
            raise NotFound("There is no such file")
        return self.found[name]


@cache
def assets() -> Assets:
    """Return the files, read once in a process."""
    return read_assets(files("shoal.web") / "static")


def read_assets(folder: Traversable) -> Assets:
    """Return the files of a folder."""
    read = dict(sorted(_files(folder, "")))
    sheets = [name for name in read if name.endswith(".css") and name != _TOKENS]
    read[SHEET] = b"\n".join(read.pop(name) for name in (_TOKENS, *sheets))
    digest = sha256()
    for name, data in read.items():
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return Assets(digest.hexdigest()[:12], {name: _asset(name, data) for name, data in read.items()})


def _files(folder: Traversable, before: str) -> Iterator[tuple[str, bytes]]:
    for one in folder.iterdir():
        if one.is_dir():
            yield from _files(one, f"{before}{one.name}/")
        elif f".{one.name.rpartition('.')[2]}" in _TYPES:
            yield before + one.name, one.read_bytes()


def _asset(name: str, data: bytes) -> Asset:
    return Asset(_TYPES[f".{name.rpartition('.')[2]}"], data, gzip.compress(data, 9, mtime=0))
