"""Access to stores for commands: only to existing stores, and through a running server if it has the store open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar
from urllib.parse import urlsplit

from shoal.admin.contract import Operation
from shoal.admin.control import ask
from shoal.admin.report import Progress, nothing
from shoal.app.backends import SHARED_STORES
from shoal.app.network import Network, open_network
from shoal.app.paths import control_path, readers_path, store_files, store_urls
from shoal.core.errors import InvalidInput
from shoal.graph.shard_map import shown_url
from shoal.multiprocess.link import NotListening
from shoal.settings import Settings

T = TypeVar("T")


def existing(settings: Settings) -> Settings:
    """Return the settings. Raises `InvalidInput` if a store does not exist, because a command must not create one by mistake."""
    for path in store_files(settings):
        if not path.exists():
            raise InvalidInput(f"no store at {path}: name one with --store, or create one with `shoal serve`")
    return settings


def shares_host(settings: Settings) -> bool:
    """Return whether the store has a single owner process, and other processes of the server may read it."""
    return readers_path(settings) is not None and urlsplit(settings.timelines).scheme == "memory"


def _unshared(settings: Settings) -> list[str]:
    return [url for url in store_urls(settings) if urlsplit(url).scheme not in SHARED_STORES]


def is_shared(settings: Settings) -> bool:
    """Return whether several processes can open the store."""
    return not _unshared(settings)


def shared(settings: Settings, who: str) -> Settings:
    """Return the settings if several processes can open the network. If not, raises `InvalidInput` with a message about `who`."""
    if alone := _unshared(settings):
        raise InvalidInput(
            f"{who} need a shared store, but {shown_url(alone[0])} belongs to one process: use `shoal serve` alone, "
            "or set store to postgresql://host/database or dynamodb://table"
        )
    if urlsplit(settings.timelines).scheme == "memory":
        raise InvalidInput(f"{who} need shared timelines: set timelines to redis://host:port (or dynamodb://table)")
    return settings


def perform(settings: Settings, operation: Operation[T], progress: Progress = nothing, *, create: bool = False) -> T:
    """Run an operation in the server that has the store open. If no server is running, run it in this process.

    Raises `InvalidInput` if the store does not exist and `create` is false.
    """
    return asyncio.run(_performed(settings if create else existing(settings), operation, progress))


class Performer:
    """Runs operations in an open `network`; by default in the server with the store open, or in a network that the first opens."""

    def __init__(self, settings: Settings, stack: AsyncExitStack, network: Network | None = None) -> None:
        self._settings = settings
        self._stack = stack
        self._network = network

    @property
    def alone(self) -> bool:
        """Whether no server ran the operations."""
        return self._network is not None

    async def __call__(self, operation: Operation[T], progress: Progress = nothing) -> T:
        if self._network is None:
            path = control_path(self._settings)
            if path is not None:
                try:
                    return await ask(path, operation, progress)
                except NotListening:
                    pass
            opening = open_network(self._settings, background=operation.background)
            self._network = await self._stack.enter_async_context(opening)
        return await operation.carry_out(self._network, progress)


@asynccontextmanager
async def performing(settings: Settings) -> AsyncIterator[Performer]:
    async with AsyncExitStack() as stack:
        yield Performer(settings, stack)


async def _performed(settings: Settings, operation: Operation[T], progress: Progress) -> T:
    async with performing(settings) as run:
        return await run(operation, progress)
