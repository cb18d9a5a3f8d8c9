"""Contract of an administrative operation: the interface of the open network and the base class of operations.

`app.Network` implements `AnyNetwork`. A command runs an operation on a store that it opens itself, or sends it to the
server that has the store open (`admin/control.py`). Both run the same code.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from shoal.admin.report import Progress
from shoal.commands.context import Writes
from shoal.consumers.context import Effects
from shoal.graph.contract import Store
from shoal.media.library import MediaLibrary
from shoal.observability.requests import Recorder
from shoal.outbox.runner import Runner
from shoal.queries.context import Reads
from shoal.tagcloud.contract import CloudStore
from shoal.tagcloud.merger import Amendment
from shoal.timelines.contract import Timelines


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


T = TypeVar("T")


class Operation(msgspec.Struct, Generic[T], tag_field="operation", tag=True, forbid_unknown_fields=True):
    """One thing to do. `T` is what it answers, and `answer` says the same when the program runs."""

    answer: ClassVar[Any] = None
    alone: ClassVar[bool] = False
    """Whether it takes so long, or touches so much, that no second one of its kind runs beside it."""
    background: ClassVar[bool] = False
    """Whether what follows from it is worked off at once where no server runs; otherwise the next server does that."""

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> T:
        """Do it. Raises `ShoalError`, or `OSError` for a file that cannot be read."""
        raise TypeError(f"{type(self).__name__} cannot be carried out")
