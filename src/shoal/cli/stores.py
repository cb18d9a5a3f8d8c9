"""Stores as commands find them: there already, or made on the way; held by a server, or free."""

from __future__ import annotations

import asyncio
from typing import TypeVar
from urllib.parse import urlsplit

from shoal.admin.contract import Operation
from shoal.admin.control import NoServer, ask
from shoal.admin.report import Progress, nothing
from shoal.app.backends import SHARED_STORES
from shoal.app.network import open_network
from shoal.app.paths import control_path, readers_path, store_files, store_urls
from shoal.core.errors import InvalidInput
from shoal.graph.shard_map import shown_url
from shoal.settings import Settings

T = TypeVar("T")


def existing(settings: Settings) -> Settings:
    """The settings, if there is a store where they say; a command that reads makes none by mistake."""
    for path in store_files(settings):
        if not path.exists():
            raise InvalidInput(f"there is no store at {path}: name one with --store, or begin one with `shoal serve`")
    return settings


def read_beside(settings: Settings) -> bool:
    """Whether several processes serve the network by one of them having it open, and the others reading beside it."""
    return readers_path(settings) is not None and urlsplit(settings.timelines).scheme == "memory"


def shared(settings: Settings, who: str) -> Settings:
    """The settings, if several processes may have the network open at once. `who` are those that need it."""
    alone = [url for url in store_urls(settings) if urlsplit(url).scheme not in SHARED_STORES]
    if alone:
        raise InvalidInput(
            f"{who} need a store that processes share, and {shown_url(alone[0])} is one process's own: use `shoal serve` alone, "
            "or set store to postgresql://host/database or dynamodb://table"
        )
    if urlsplit(settings.timelines).scheme == "memory":
        raise InvalidInput(f"{who} need timelines that they share: set timelines to redis://host:port")
    return settings


def perform(settings: Settings, operation: Operation[T], progress: Progress = nothing) -> T:
    """Have an operation carried out, by the server that has the store open, or here where none has."""
    return asyncio.run(_performed(settings, operation, progress))


async def _performed(settings: Settings, operation: Operation[T], progress: Progress) -> T:
    path = control_path(settings)
    if path is not None:
        try:
            return await ask(path, operation, progress)
        except NoServer:
            pass
    async with open_network(settings, background=operation.background) as network:
        return await operation.carry_out(network, progress)
