"""Reactions that an application declares: declare, change and retire them. All of a network are one object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from msgspec.structs import replace

from shoal.commands.audit import note
from shoal.commands.context import Writes, made_once
from shoal.core.audit import AuditTarget, AuditVerb, TargetKind
from shoal.core.errors import InvalidInput
from shoal.core.reactions import Reaction, StoredReactions, check_drafts
from shoal.graph.access import declared_reactions
from shoal.graph.changes import change_object
from shoal.graph.contract import Batch
from shoal.graph.kinds import find_kind
from shoal.graph.schema import REACTIONS, reactions_key


async def declare(writes: Writes, draft: Reaction) -> Reaction:
    """Create a reaction, change it, or restore a retired one. A draft equal to the stored reaction changes nothing.

    Raises `InvalidInput` for an invalid value and an unknown kind, and `Unfit` for another group and for too many reactions.
    """
    return (await declare_all(writes, (draft,)))[0]


async def declare_all(writes: Writes, drafts: Sequence[Reaction]) -> list[Reaction]:
    """Declare 1 to 20 reactions in one commit. Raises the errors of `declare`, and `InvalidInput` for a repeated name."""
    checked = check_drafts(drafts)
    for kind in sorted({kind for draft in checked for kind in draft.kinds}):
        if await find_kind(writes.graph, kind) is None:
            raise InvalidInput(f"kinds: there is no kind {kind!r}", field="kinds")

    after = await _change(writes, lambda stored: reduce(StoredReactions.with_reaction, checked, stored))
    return [after.get(draft.name) for draft in checked]


async def retire(writes: Writes, name: str) -> Reaction:
    """Stop members from adding a reaction. Existing reactions stay. Idempotent. Raises `NotFound`."""
    (await declared_reactions(writes.graph)).get(name)
    after = await _change(writes, lambda stored: stored.with_reaction(replace(stored.get(name), retired=True)))
    return after.get(name)


async def _change(writes: Writes, change: Callable[[StoredReactions], StoredReactions]) -> StoredReactions:
    async def read() -> StoredReactions:
        return await made_once(writes, reactions_key(), StoredReactions, lambda id_: StoredReactions(id=id_), REACTIONS)

    def extra(batch: Batch, before: StoredReactions, after: StoredReactions) -> None:
        for each in after.reactions:
            if each != before.find(each.name):
                verb = AuditVerb.REACTION_RETIRED if each.retired else AuditVerb.REACTION_DECLARED
                note(writes, batch, verb, AuditTarget(TargetKind.REACTION, after.id, each.name))

    return await change_object(writes.graph, read, change, extra)
