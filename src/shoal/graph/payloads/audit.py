"""Entries of the audit log: where they stand, and what their data says.

An entry is an association, and stands in the list of its data source, as public posts do: so it commits with the act. The id of
the entry is where the association leads to, and its time. Where somebody acts on their own account, the address lies in a list of
the member's, under the id of the entry, and goes with the member:

    public list of the data source   audited   entry   (verb, actor, target, ..., holder 7)
    member 7                         audited   entry   203.0.113.9
"""

from __future__ import annotations

import msgspec

from shoal.core.audit.entries import AuditEntry
from shoal.graph.contract import Assoc, Batch
from shoal.graph.schema import AUDITED, public_list

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[AuditEntry] = msgspec.msgpack.Decoder(AuditEntry)


def put_entry(batch: Batch, id_: int, entry: AuditEntry, address: str) -> None:
    """Make an entry part of a batch; `address` is for the list of its holder, if it has one.

    The commit fails with `IdTaken` if another entry has the id.
    """
    batch.fresh.add(id_)
    batch.assoc_add(public_list(batch.shard), AUDITED, id_, id_, _encoder.encode(entry))
    if entry.holder_id:
        batch.assoc_add(entry.holder_id, AUDITED, id_, id_, address.encode())


def take_entry(batch: Batch, assoc: Assoc, now: int) -> None:
    """Take an old entry out of the log with a batch, and the address from the list of its holder."""
    batch.assoc_del(public_list(batch.shard), AUDITED, assoc.id2, now)
    if holder := decode_entry(assoc).holder_id:
        batch.assoc_del(holder, AUDITED, assoc.id2, now)


def decode_entry(assoc: Assoc) -> AuditEntry:
    """Return the entry of an association that leads from the list of a data source."""
    return _decoder.decode(assoc.data)
