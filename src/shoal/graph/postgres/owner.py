"""The lock on a PostgreSQL store: one process has it open exclusively, or many share it.

A process that keeps timelines in memory must be the only one, because it does not see the writes of others. The lock lives as long
as the connection that took it; that connection is monitored, and the lock is taken again if it was lost. A process that had the
store exclusively, lost the lock and finds that another process has used the store since refuses all changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets

import asyncpg

from shoal.core.errors import Unavailable
from shoal.graph.connection_errors import address_of
from shoal.graph.failover import Histories
from shoal.graph.postgres import sql
from shoal.graph.postgres.connections import PATIENCE, SESSION_SETTINGS, goodbye
from shoal.graph.postgres.migrations import SESSION_NAME, check_version
from shoal.graph.postgres.primary import LOST, PrimaryConnection, PrimaryFinder, ended_after, lost_if_closed, parse

_log = logging.getLogger(__name__)

_TAKEN = "the store is in use by another process: stop it first, or set shared timelines (redis://) for all processes"
MEANWHILE = "another process used the store while the connection was lost: restart this process"
_WAITING = "reconnecting to the store: try again in a few seconds"
_OPEN_SECONDS = 3.0
"""How long to retry at the start: the server may not have noticed yet that a process with the lock was killed."""
_BEAT_SECONDS = 5.0
_SHARED_BEAT_SECONDS = 15.0
"""A shared lock only keeps out a process that wants the store alone, whose mark the store compares with each commit."""
_RETRY_SECONDS = 0.3
_TAKE_SECONDS = 10.0
"""Time limit of the queries that take the lock. Two of them wait for other sessions, for 4 seconds each."""


class Owner:
    """The lock of a process on a store that it owns. Call `check` before every change."""

    def __init__(self, url: str, *, sole: bool, patience: float = PATIENCE, histories: Histories | None = None) -> None:
        self.id = secrets.randbits(62) + 1
        self.mark = self.id if sole else 0
        """The owner id that every commit must find in the store; 0 if the store is shared."""
        self._address = address_of(url)
        self._finder = PrimaryFinder(parse(url).server, histories or Histories(), url)
        self._sole = sole
        self._patience = patience
        self._connection: PrimaryConnection | None = None
        self._refusal: str | None = _WAITING
        self._watch: asyncio.Task[None] | None = None
        self._closing = False
        # Set to end a pause of the task `_watch` early.
        self._stirred = asyncio.Event()

    async def open(self) -> None:
        deadline = asyncio.get_running_loop().time() + min(_OPEN_SECONDS, self._patience)
        while not await self._take(first=True):
            if asyncio.get_running_loop().time() > deadline:
                raise Unavailable(_TAKEN)
            await asyncio.sleep(_RETRY_SECONDS)
        self._watch = asyncio.create_task(self._keep(), name="shoal-owner")

    def check(self) -> None:
        if self._refusal is not None:
            raise Unavailable(self._refusal)

    async def close(self) -> None:
        self._refusal = "the store is closing"
        self._closing = True
        self._stirred.set()
        if self._watch is not None:
            await self._watch
        # `_lost` may clear the attribute during any await.
        if (connection := self._connection) is not None:
            # Unlock explicitly, because the server may notice the end of the connection late.
            with contextlib.suppress(*LOST, asyncpg.PostgresError, AttributeError):
                await connection.execute(sql.DISOWN, timeout=_RETRY_SECONDS)
            await goodbye(connection)

    async def _take(self, *, first: bool) -> bool:
        named = {**SESSION_SETTINGS, "application_name": SESSION_NAME}
        # Compare all hosts, because another server may accept writes by now.
        self._finder.forget()
        connection = await self._finder.connect(named, self._patience)
        try:
            with ended_after(connection, _TAKE_SECONDS), lost_if_closed(connection):
                taken = await self._asked(connection, first=first)
        except (*LOST, asyncpg.PostgresError) as error:
            connection.terminate()
            raise Unavailable(_WAITING) from error
        except BaseException:
            connection.terminate()
            raise
        if not taken:
            await goodbye(connection)
            return False
        self._connection = connection
        connection.add_termination_listener(self._lost)
        self._refusal = "the store is closing" if self._closing else None
        return True

    async def _asked(self, connection: asyncpg.Connection, *, first: bool) -> bool:
        taken: bool = await connection.fetchval(sql.OWN_ALONE if self._sole else sql.OWN_SHARED)
        if taken and not first:
            await self._check_version(connection)
        if taken and await connection.fetchval(sql.OWNER) != self.mark:
            if self._sole and not first:
                self._refusal = MEANWHILE
                return False
            await self._sign(connection)
        if taken:
            # After a failover, while the server still knows where the timeline began.
            await connection.execute(sql.LOG_HISTORY)
        return taken

    async def _check_version(self, connection: asyncpg.Connection) -> None:
        """Raise `Unavailable` if the store was upgraded beyond this code while the process had no session."""
        try:
            await check_version(connection)
        except Unavailable as error:
            if self._refusal != str(error):
                _log.error("%s: %s", self._address, error)
            self._refusal = str(error)
            raise

    async def _sign(self, connection: asyncpg.Connection) -> None:
        async with connection.transaction():
            # Waits for running commits of a process that has lost the lock without noticing it.
            await connection.execute(sql.OWNER_LOCK)
            await connection.execute(sql.OWNER_SET, self.mark)

    def _lost(self, connection: asyncpg.Connection) -> None:
        if connection is self._connection:
            self._connection = None
            self._refusal = self._refusal or _WAITING
            self._stirred.set()

    async def _keep(self) -> None:
        while not self._closing and self._refusal != MEANWHILE:
            if self._connection is None:
                await self._again()
            else:
                await self._beat(self._connection)

    async def _again(self) -> None:
        try:
            taken = await self._take(first=False)
        except Unavailable:
            taken = False
        if not taken:
            await self._back_off(_RETRY_SECONDS)

    async def _beat(self, connection: PrimaryConnection) -> None:
        """Check that the lock is still held: that the connection is alive, and its server was not replaced."""
        if not self._finder.is_stale(connection) and await self._answers(connection):
            await self._back_off(_BEAT_SECONDS if self._sole else _SHARED_BEAT_SECONDS)
            return
        connection.terminate()
        # Call `_lost` at once: asyncpg calls termination listeners only in a later iteration of the event loop.
        self._lost(connection)

    async def _answers(self, connection: PrimaryConnection) -> bool:
        try:
            with ended_after(connection, _BEAT_SECONDS), lost_if_closed(connection):
                await connection.fetchval("SELECT 1")
        except (*LOST, asyncpg.PostgresError):
            return False
        return True

    async def _back_off(self, seconds: float) -> None:
        self._stirred.clear()
        if not self._closing:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._stirred.wait()
