"""Contract of an administrative operation: the interface of the open network and the base class of operations.

`app.Network` implements `AnyNetwork`. A command runs an operation on a store that it opens itself, or sends it to the
server that has the store open (`admin/control.py`). Both run this code.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast, get_args

import msgspec

from shoal.admin.report import Progress
from shoal.commands.context import Writes
from shoal.consumers.context import Effects
from shoal.core.errors import NotFound
from shoal.core.model import Member
from shoal.graph.contract import Store
from shoal.graph.member_lookup import member_called
from shoal.media.library import MediaLibrary
from shoal.observability.requests import Recorder
from shoal.outbox.runner import Runner
from shoal.queries.context import Reads
from shoal.tagcloud.contract import CloudStore
from shoal.tagcloud.merger import Amendment
from shoal.timelines.contract import Timelines


class AnyNetwork(Protocol):
    @property
    def store(self) -> Store: ...

    @property
    def timelines(self) -> Timelines: ...

    @property
    def effects(self) -> Effects: ...

    @property
    def reads(self) -> Reads: ...

    @property
    def writes(self) -> Writes: ...

    @property
    def runner(self) -> Runner[Any]: ...

    async def settle(self, patience: float = 60.0) -> None:
        """Wait until all events that exist now are processed, for at most `patience` seconds."""
        ...

    @property
    def tag_store(self) -> CloudStore: ...

    async def amend_tags(self, amendment: Amendment) -> None:
        """Apply an operator's correction of the tag counts or tag rules."""
        ...

    @property
    def recorder(self) -> Recorder: ...

    @property
    def media(self) -> MediaLibrary: ...


T = TypeVar("T")


class Operation(msgspec.Struct, Generic[T], tag_field="operation", tag=True, forbid_unknown_fields=True):
    """An administrative operation. `T` is the type of its result, and the class attribute `answer` is this type at run time."""

    alone: ClassVar[bool] = False
    """Whether the operation takes long. Only one such operation may run at a time."""
    background: ClassVar[bool] = False
    """Whether a command that runs the operation without a server also processes its events.

    If not, the next server processes them.
    """

    @property
    def answer(self) -> Any:
        """The type of the result of this operation."""
        (base,) = cast("Any", type(self)).__orig_bases__
        return get_args(base)[0]

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> T:
        """Run the operation. Raises `ShoalError`, or `OSError` for a file that cannot be read."""
        raise TypeError(f"the operation {type(self).__name__} does not define carry_out")


async def member_named(network: AnyNetwork, name: str) -> Member:
    """Return the member with this user name or e-mail address. Raises `NotFound`."""
    member = await member_called(network.writes.graph, name)
    if member is None:
        raise NotFound(f"no member {name!r}")
    return member
