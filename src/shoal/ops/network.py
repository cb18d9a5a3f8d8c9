"""The interface of an open network that operations use: `wiring.Network` is one."""

from __future__ import annotations

from typing import Any, Protocol

from shoal.commands.context import Writes
from shoal.consumers.context import Effects
from shoal.graph.contract import Store
from shoal.media.library import MediaLibrary
from shoal.outbox.runner import Runner
from shoal.queries.context import Reads
from shoal.tagcloud.contract import CloudStore
from shoal.tagcloud.merger import Amendment
from shoal.timelines.contract import Timelines
from shoal.tracing.recorder import Recorder


class AnyNetwork(Protocol):
    """The parts, each whole."""

    @property
    def store(self) -> Store:
        """The graph, its outbox, and reading everything."""
        ...

    @property
    def timelines(self) -> Timelines:
        """Home timelines that are warm."""
        ...

    @property
    def effects(self) -> Effects:
        """The resources that consequences use."""
        ...

    @property
    def reads(self) -> Reads:
        """The resources that feeds are read with."""
        ...

    @property
    def writes(self) -> Writes:
        """The resources that services write with."""
        ...

    @property
    def runner(self) -> Runner[Any]:
        """Runs the consequences of events."""
        ...

    async def settle(self, patience: float = 60.0) -> None:
        """Return when everything that follows from what was done so far has happened."""
        ...

    @property
    def tag_store(self) -> CloudStore:
        """Where tags are counted."""
        ...

    async def amend_tags(self, amendment: Amendment) -> None:
        """Have tags counted, or shown, otherwise."""
        ...

    @property
    def recorder(self) -> Recorder:
        """Remembers slow requests."""
        ...

    @property
    def media(self) -> MediaLibrary:
        """Pictures."""
        ...
