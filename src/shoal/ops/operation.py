"""An operation that an operator may ask of a network: a typed value that can be carried out.

A command carries it out on a store that it opens itself, or sends it to the server that has the store open (`ops/control.py`).
Either way the same code runs here.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from shoal.ops.checking.report import Progress
from shoal.ops.network import AnyNetwork

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
