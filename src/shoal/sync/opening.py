"""Opening a network from code without `await`, and closing it."""

from __future__ import annotations

from functools import partial
from types import TracebackType
from typing import Self, Unpack

from shoal import settings as configuration
from shoal.library import network as awaited
from shoal.library.network import Options
from shoal.library.shared_network import SharedNetwork
from shoal.sync.calling import Calling
from shoal.sync.loop_per_process import LoopPerProcess
from shoal.sync.loop_thread import LoopThread


class Opening(Calling):
    """An open network; it is closed by `close`, by the end of a `with` block, or when the process ends."""

    @classmethod
    def open(
        cls, url: str | dict[str, str] = "sqlite:///shoal.db", *, shared: bool = False, **settings: Unpack[Options]
    ) -> Self:
        """Open (and create, where there is none) the network at a store URL or shard map.

        A `shared` network, in one SQLite file, may be opened by several processes. One of them has it, and answers the others.
        It is opened with the first call, in each process by itself: a process that is forked afterwards may call as well.

        `settings` are those of `shoal.settings.Settings`, by name. Raises `SettingsError` for one that does not exist or a value
        that it does not take, `InvalidInput` for a URL that names no backend, and `Unavailable` when another process has it.
        """
        if shared:
            network = SharedNetwork(configuration.build(store=url, **settings), awaited.Shoal)
            return cls(LoopPerProcess(partial(network.opened, wait=False)), network.shoal)
        loop = LoopThread()
        return cls(loop, loop.open(awaited.Shoal.open(url, **settings)))

    def close(self) -> None:
        """Wait up to ten seconds for calls of other threads, and close the network. Raises nothing when it is closed."""
        self._loop.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
