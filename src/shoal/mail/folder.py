"""Letters as files in a folder, for whoever develops: `0001-ann@example.org.eml` and so on, which mail programs open."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from shoal.core.errors import Unavailable
from shoal.mail.contract import Letter
from shoal.mail.envelopes import message_of

_ODD = re.compile(r"[^A-Za-z0-9@._+-]")
_MOST = 1_000_000


class FolderMailer:
    """Puts letters into a folder, which is made when the first one comes."""

    def __init__(self, folder: Path, sender: str) -> None:
        self._folder = folder
        self._sender = sender

    async def send(self, letter: Letter) -> None:
        """Write a letter, as `Mailer.send`."""
        try:
            await asyncio.to_thread(self._write, letter)
        except OSError as error:
            raise Unavailable(f"mail cannot be written into {self._folder}: {error}") from error

    def _write(self, letter: Letter) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        data = message_of(letter, self._sender).as_bytes()
        held = [int(path.name[:4]) for path in self._folder.glob("[0-9][0-9][0-9][0-9]-*")]
        for number in range(max(held, default=0) + 1, _MOST):
            path = self._folder / f"{number:04}-{_ODD.sub('_', letter.to)[:100]}.eml"
            try:
                # Links in it open accounts: it is for nobody else on this machine.
                path.touch(0o600, exist_ok=False)
            except FileExistsError:
                continue
            path.write_bytes(data)
            return
