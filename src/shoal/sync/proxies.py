"""Objects that run the methods of a library object in its event loop and return their results."""

from __future__ import annotations

from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from shoal import settings as configuration
from shoal.core.errors import InvalidInput
from shoal.core.publishing import Check
from shoal.library.acting import Acting, Identity
from shoal.library.network import SHARED_MODERATION, Shoal
from shoal.library.shared_network import SharedNetwork
from shoal.sync.loops import LoopPerProcess, LoopThread

if TYPE_CHECKING:
    from shoal.library._generated import Options


class Proxy:
    """A library object and the event loop that its methods run in."""

    def __init__(self, loop: LoopThread, awaited: Any) -> None:
        self._loop = loop
        self._awaited = awaited


class MemberProxy(Proxy, Identity):
    """A member to act as, without a password: a caller with access to the network may act as any member."""

    def __init__(self, loop: LoopThread, awaited: Acting) -> None:
        Proxy.__init__(self, loop, awaited)
        Identity.__init__(self, awaited.id, awaited.name)


class NetworkProxy(Proxy):
    """An open network, which is closed by `close`, by the end of a `with` block, or when the process exits."""

    @classmethod
    def open(
        cls,
        url: str | dict[str, str] = "sqlite:///shoal.db",
        *,
        shared: bool = False,
        moderation: Check | None = None,
        **settings: Unpack[Options],
    ) -> Self:
        """Open the network at a store URL or shard map, and create it if it does not exist.

        Several processes may open a `shared` network, which is one SQLite file. One of them owns it and serves the others.
        Each process opens the network with its first call, so a process that is forked after `open` may use it too.

        Args:
            url: The URL of the store, or a shard map.
            shared: Whether other processes open this network.
            moderation: A coroutine function that decides about content before it is public, run in the event loop of the network.
            settings: Settings of `shoal.settings.Settings`, by name.

        Raises:
            SettingsError: A setting does not exist or has an invalid value.
            InvalidInput: The URL names no backend, or `moderation` is given for a shared network.
            Unavailable: Another process has the network open.
        """
        if shared and moderation:
            raise InvalidInput(SHARED_MODERATION, field="moderation")
        if shared:
            network = SharedNetwork(configuration.build(store=url, **settings), Shoal)
            return cls(LoopPerProcess(partial(network.opened, wait=False)), network.shoal)
        loop = LoopThread()
        return cls(loop, loop.open(Shoal.open(url, moderation=moderation, **settings)))

    def close(self) -> None:
        """Wait up to ten seconds for calls of other threads, then close the network. Do nothing if it is closed already."""
        self._loop.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
