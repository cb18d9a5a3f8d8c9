"""Connection pools for data that is derived from the graph, in PostgreSQL: the search index and the tag cloud."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import ClassVar, Self

from shoal.core.errors import ShoalError
from shoal.graph.postgres.connections import LONG_PATIENCE, PATIENCE, ConnectionPool
from shoal.graph.postgres.migrations import VersionLedger, check_version, migrate


class DerivedStore:
    """A store of derived data, in the schema `shoal` of the graph's or another database. Create it with `open`.

    It has a schema version independent of the graph's.
    """

    ledger: ClassVar[VersionLedger]
    title: ClassVar[str]
    """Name of the store in error messages."""
    readers: ClassVar[int]
    writers: ClassVar[int]
    """Numbers of connections for reading (`readers`) and for writing (`writers`)."""
    planner: ClassVar[Mapping[str, str]] = {}
    """Settings of the connections for reading."""

    def __init__(self, reading: ConnectionPool, writing: ConnectionPool | None) -> None:
        self._reading = reading
        self._writing = writing

    @classmethod
    async def open(cls, url: str, *, read_only: bool = False, patience: float = PATIENCE) -> Self:
        """Open the store in this database, or create it there; concurrent calls are safe. Raises `Unavailable`."""
        async with AsyncExitStack() as undo:
            settings = {"default_transaction_read_only": "on"} if read_only else {}
            reading = ConnectionPool(url, cls.readers, {**cls.planner, **settings}, patience)
            undo.push_async_callback(reading.close)
            writing = None
            if not read_only:
                writing = ConnectionPool(url, cls.writers, {"synchronous_commit": "on"}, patience)
                undo.push_async_callback(writing.close)
                # Apply the graph's migrations first: they create the schema, under a lock.
                await writing.use(migrate, patience=LONG_PATIENCE)
                await writing.use(partial(migrate, ledger=cls.ledger), patience=LONG_PATIENCE)
            await reading.use(partial(check_version, ledger=cls.ledger))
            undo.pop_all()
        return cls(reading, writing)

    async def close(self) -> None:
        if self._writing is not None:
            await self._writing.close()
        await self._reading.close()

    def _durable(self) -> ConnectionPool:
        if self._writing is None:
            raise ShoalError(f"{self.title} was opened read-only")
        return self._writing
