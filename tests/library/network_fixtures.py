"""Networks opened as an application opens them: alone, or as a process that calls the owner of the store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shoal import Shoal

SHARED = "shared"
_owners: dict[int, Shoal] = {}
"""The owner of each shared network that a test has opened, by the id of its caller."""
stores = pytest.mark.parametrize("store", ["memory://", "sqlite:///{}/shoal.db", SHARED])


@asynccontextmanager
async def opened(store: str, folder: Path, **settings: Any) -> AsyncIterator[Shoal]:
    """Open a store in a directory. A shared store is opened twice, and the second process calls the first."""
    if store != SHARED:
        async with Shoal.open(store.format(folder), **settings) as shoal:
            yield shoal
        return
    async with owner_and_caller(folder, **settings) as (owner, caller):
        _owners[id(caller)] = owner
        try:
            yield caller
        finally:
            del _owners[id(caller)]


@asynccontextmanager
async def owner_and_caller(folder: Path, **settings: Any) -> AsyncIterator[tuple[Shoal, Shoal]]:
    """Open a store twice. The first process owns it."""
    url = f"sqlite:///{folder / 'shoal.db'}"
    async with (
        Shoal.open(url, shared=True, **settings) as owner,
        Shoal.open(url, shared=True, **settings) as caller,
    ):
        assert has_store(owner)
        assert not has_store(caller)
        yield owner, caller


def has_store(shoal: Any) -> bool:
    """Return whether this object owns the shared network instead of calling its owner."""
    return bool(shoal._session.owner)


def listeners(shoal: Shoal) -> int:
    """Return the number of connections that receive live updates."""
    owner = _owners.get(id(shoal))
    return (shoal if owner is None else uncached(owner)).network.hub.connected


def uncached(shoal: Any) -> Shoal:
    """Return the inner `Shoal` object that the owner of a shared network calls."""
    real: Shoal = shoal._session._side.shoal
    return real
