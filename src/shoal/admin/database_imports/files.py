"""Files of an import: photos and profile pictures, from the folder of `--media` or from URLs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shoal.admin.database_imports.maps import Rejected, Section
from shoal.admin.database_imports.session import SHOWN, Record, Session
from shoal.core.errors import InvalidInput, ShoalError, TooLarge, Unavailable
from shoal.outgoing import RequestFailed

FILES_AT_ONCE = 8
"""Files that are in memory concurrently."""


class Files:
    def __init__(self, session: Session) -> None:
        self._session = session
        self.limit = asyncio.Semaphore(FILES_AT_ONCE)
        """To be held while a file is in memory."""

    async def located(self, path: str | None) -> Path | None:
        """Return the file at a path. Without a path there is a URL: return None. Raises `InvalidInput` if it cannot be read."""
        local = await asyncio.to_thread(self._inside, path) if path is not None else None
        if local is None and not self._session.options.fetch:
            raise InvalidInput("url: not fetched without --fetch-media")
        return local

    async def read(self, path: Path | None, url: str) -> bytes:
        if path is not None:
            return await asyncio.to_thread(path.read_bytes)
        data: bytes = await self._session.fetch(url)
        return data

    @contextmanager
    def refusing(self, section: Section, record: Record, path: str, url: str, prefix: str = "") -> Iterator[list[str]]:
        """Reject a record whose file cannot be read or is refused. Yield a list to which the reason is then added."""
        reasons: list[str] = []

        def refuse(reason: str, value: Any) -> None:
            reasons.append(reason)
            self._session.refuse(section, record.where, Rejected(f"{prefix}{reason}", value[:SHOWN]))

        try:
            yield reasons
        except Unavailable as error:
            if not isinstance(error, RequestFailed):
                raise
            refuse(f"url: {error}", url)
        except ShoalError as error:
            # For example, no picture, or the member has been suspended here.
            refuse(str(error), path or url)
        except OSError as error:
            refuse(f"path: {error.strerror or 'cannot be read'}", path)

    def _inside(self, name: str) -> Path:
        """Return a file in the folder of media. Raises `InvalidInput` for other places, and for a file that is too large."""
        folder = self._session.options.media
        if folder is None:
            raise InvalidInput("path: name the folder of the files by --media")
        if not name or "\0" in name:
            raise InvalidInput("path: empty")
        # `Path.resolve` raises `RuntimeError` for a loop of links.
        path = Path(os.path.realpath(folder / name))
        if not path.is_relative_to(os.path.realpath(folder)):
            raise InvalidInput("path: outside the folder of --media")
        if not path.is_file():
            raise InvalidInput("path: no such file")
        limits = self._session.network.media.limits
        if path.stat().st_size > limits.max_bytes:
            raise TooLarge(f"path: at most {limits.max_bytes} bytes")
        return path
