"""The agenda: a list of tickets, ordered by the moment at which the object of each ticket is due.

A ticket is an id on the shard of its object, so it is added and removed by the commit that changes the object. The first ticket
of an object has the object's own id; a ticket for another moment has a fresh one. No ticket is used twice: a commit that adds a
ticket which the store has already is refused.
"""

from __future__ import annotations

from shoal.core.ids import SEQUENCE_BITS, SHARD_BITS, floor_at
from shoal.graph.contract import Batch
from shoal.graph.schema import AGENDA, DUE_ON

_LOW = (1 << SHARD_BITS + SEQUENCE_BITS) - 1


def put_on(batch: Batch, ticket: int, at: int, id_: int) -> None:
    """Make an object due at a moment (Unix ms). The commit fails with `IdTaken` if the ticket was used before.

    The low bits of the tickets order those of one moment.
    """
    batch.fresh.add(ticket)
    batch.assoc_add(ticket, DUE_ON, AGENDA, floor_at(at) | ticket & _LOW, id_.to_bytes(8))


def take_off(batch: Batch, ticket: int, now: int) -> None:
    """It is done, or is not to be any more; nothing happens when it was taken off before."""
    if ticket:
        batch.assoc_del(ticket, DUE_ON, AGENDA, now)
