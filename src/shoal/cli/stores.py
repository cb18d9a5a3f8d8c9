"""Stores as commands find them: there already, or made on the way; held by a server, or free."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from shoal.core.errors import InvalidInput
from shoal.ops.control import NoServer, ask
from shoal.ops.operations import Operation
from shoal.ops.report import Progress, nothing
from shoal.settings import Settings
from shoal.wiring import control_path, open_network, store_files

T = TypeVar("T")


def existing(settings: Settings) -> Settings:
    """The settings, if there is a store where they say; a command that reads makes none by mistake."""
    for path in store_files(settings):
        if not path.exists():
            raise InvalidInput(f"there is no store at {path}: name one with --store, or begin one with `shoal serve`")
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
