"""The agenda: what is to be done at a moment to come. Each thing has a ticket, and tickets stand in one list by their moments.

A ticket is an id without an object, on the shard of what is due, so it begins and ends with the commit that changes that. It
is used once: what is put off gets another.
"""

from __future__ import annotations

from shoal.core.ids import SEQUENCE_BITS, SHARD_BITS, floor_at
from shoal.graph.contract import Batch
from shoal.graph.schema import AGENDA, DUE_ON

_LOW = (1 << SHARD_BITS + SEQUENCE_BITS) - 1


def put_on(batch: Batch, ticket: int, at: int, id_: int) -> None:
    """The object is due at a moment (Unix ms). Those of one moment stand apart by the low bits of their tickets."""
    batch.assoc_add(ticket, DUE_ON, AGENDA, floor_at(at) | ticket & _LOW, id_.to_bytes(8))


def take_off(batch: Batch, ticket: int, now: int) -> None:
    """It is done, or is not to be any more; nothing happens when it was taken off before."""
    if ticket:
        batch.assoc_del(ticket, DUE_ON, AGENDA, now)
