"""Objects of the library whose methods are called without `await`, and members to act as."""

from __future__ import annotations

from typing import Any

from shoal.library.acting import Acting as AwaitedActing
from shoal.library.acting import Identity
from shoal.sync.loop_thread import LoopThread


class Calling:
    """An object that calls the methods of an asynchronous one in its loop."""

    def __init__(self, loop: LoopThread, awaited: Any) -> None:
        self._loop = loop
        self._awaited = awaited


class Acting(Calling, Identity):
    """A member to act as. It asks for no password: a caller who holds the network holds its members."""

    def __init__(self, loop: LoopThread, awaited: AwaitedActing) -> None:
        Calling.__init__(self, loop, awaited)
        Identity.__init__(self, awaited.id, awaited.name)
