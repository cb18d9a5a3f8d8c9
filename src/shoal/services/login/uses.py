"""Notes when and from where tokens are used, beside the requests: a token once a day, and what fails costs nothing but the figure.

A note also ends those tokens of the same member that nobody has used for too long.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from shoal.core.ids import shard_of
from shoal.core.model import Token
from shoal.core.tokens import Origin, TokenUse
from shoal.graph.contract import Batch, Cursor
from shoal.graph.schema import LOGGED_IN
from shoal.services.login.apps import drop_token
from shoal.services.writes import Writes

_log = logging.getLogger("shoal.logins")

_PAUSE_SECONDS = 1.0
"""Seconds in which uses gather before they are written, so that they go into the store together."""
_WAITING = 10_000
"""Tokens whose use waits to be written; of any further one it is the next request that counts."""
_AT_ONCE = 32
_LOOKED_AT = 20
"""Tokens of the member, the oldest, that are looked at whether they have ended."""


class _Noted(NamedTuple):
    token: Token
    use: TokenUse


class TokenUses:
    """Writes the uses of tokens in the background. It needs no start: whatever is noted begins it.

    In a process that only reads the store, `tell` has another one note them. It may be called for each request with the token until
    that has happened.
    """

    def __init__(self, writes: Writes, tell: Callable[[int, Origin], None] | None = None) -> None:
        self.writes = writes
        self._tell = tell
        self._waiting: dict[int, _Noted] = {}
        self._task: asyncio.Task[None] | None = None

    def note(self, token: Token, origin: Callable[[], Origin]) -> None:
        """Note that a token is used now. It returns at once; of most requests nothing is to be written."""
        now = self.writes.new_id.now()
        if not token.use.is_due(now) or token.id in self._waiting or len(self._waiting) >= _WAITING:
            return
        if self._tell is not None:
            self._tell(token.id, origin())
            return
        self._waiting[token.id] = _Noted(token, origin().after(token.use, now))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="shoal-token-uses")

    async def flush(self) -> None:
        """Write what waits, now."""
        while self._waiting:
            noted = [self._waiting.pop(id_) for id_ in list(self._waiting)[:_AT_ONCE]]
            await asyncio.gather(*map(self._write, noted))

    async def close(self) -> None:
        """Give up what waits: the next request of each token counts."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while self._waiting:
            await asyncio.sleep(_PAUSE_SECONDS)
            await self.flush()

    async def _write(self, noted: _Noted) -> None:
        try:
            await self._store(noted)
        except Exception as error:  # noqa: BLE001 (a token that has ended meanwhile, or a store that is away)
            _log.debug("the use of a token was not written: %s", error)

    async def _store(self, noted: _Noted) -> None:
        token, graph = noted.token, self.writes.graph
        owner = token.member_id or token.app_id
        listed = await graph.assoc_range(owner, LOGGED_IN, Cursor(limit=_LOOKED_AT, oldest_first=True))
        others = await graph.obj_get([one.id2 for one in listed if one.id2 != token.id])
        batch = Batch(shard_of(owner))
        batch.obj_set(replace(token, use=noted.use, version=token.version + 1))
        for other in others.values():
            if isinstance(other, Token) and self.writes.lifetime.is_over(other.use, noted.use.at):
                drop_token(batch, other, self.writes.new_id(batch.shard))
        await graph.commit(batch)
