"""Names from elsewhere that lead to a member: the one rule, for all who change members.

The links and addresses in the rows of a profile say which accounts elsewhere are the member's; nothing proves that they are. The
hash of their e-mail address leads to those alone who said that it may.
"""

from __future__ import annotations

from shoal.core.handles import ForeignHandle, handles_in
from shoal.core.model import Member
from shoal.graph.contract import Batch
from shoal.graph.schema import DECLARES, email_hash_id, handle_id

_MOST = 16
"""Accounts elsewhere that a profile can declare: four a row."""


def declared_handles(member: Member) -> frozenset[ForeignHandle]:
    """Return the accounts elsewhere that a profile names, the first sixteen."""
    found = dict.fromkeys(handle for row in member.fields for handle in handles_in(row.value))
    return frozenset(list(found)[:_MOST])


def declared_ids(member: Member) -> frozenset[int]:
    """Return the ids of all that leads to a member from elsewhere."""
    ids = {handle_id(str(handle)) for handle in declared_handles(member)}
    return frozenset(ids | {email_hash_id(member.email_hash)} if member.findable_by_email else ids)


def redeclare(batch: Batch, before: Member, after: Member, now: int) -> None:
    """Begin and end what leads to a member, in the commit that changes them; `now` is an id of the moment."""
    had, has = declared_ids(before), declared_ids(after)
    for id_ in has - had:
        batch.assoc_add(after.id, DECLARES, id_, now)
    for id_ in had - has:
        batch.assoc_del(after.id, DECLARES, id_, now)
