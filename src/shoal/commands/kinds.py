"""Kinds of posts: declare and change them, and check the data of posts."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from shoal.commands.audit import note
from shoal.commands.context import Writes, add_node
from shoal.core.audit import AuditTarget, AuditVerb, TargetKind
from shoal.core.errors import InvalidInput, NotFound, Unfit
from shoal.core.events import KindChanged
from shoal.core.ids import shard_of
from shoal.core.kinds import MAX_KINDS, KindDraft, PostKind, changed
from shoal.graph.access import count_of
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch, Reader
from shoal.graph.kinds import find_kind
from shoal.graph.schema import EVERYBODY, KINDS, kind_key

_SHARD = shard_of(EVERYBODY)


async def get(graph: Reader, name: str) -> PostKind:
    """Return the kind with this name. Raises `NotFound`."""
    kind = await find_kind(graph, name)
    if kind is None:
        raise NotFound(f"there is no kind {name[:100]!r}")
    return kind


async def declare(writes: Writes, draft: KindDraft) -> PostKind:
    """Create a kind, or change it to its next version. A draft equal to the current version changes nothing.

    Raises `InvalidInput` for an invalid draft, and `Unfit` for a change that is not compatible and for too many kinds.
    """

    async def attempt() -> PostKind:
        kind = await find_kind(writes.graph, draft.name)
        return await (_create(writes, draft) if kind is None else _change(writes, kind, draft))

    return await retry_on_conflict(attempt)


async def _create(writes: Writes, draft: KindDraft) -> PostKind:
    checked = draft.checked(0)
    # Concurrent additions may exceed the limit slightly, which is harmless.
    if await count_of(writes.graph, EVERYBODY, KINDS) >= MAX_KINDS:
        raise Unfit(f"there are {MAX_KINDS} kinds already, which is the maximum")

    def build(id_: int) -> tuple[PostKind, Batch]:
        kind, batch = replace(checked, id=id_), Batch(_SHARD)
        batch.obj_add(kind)
        batch.key_add(kind_key(kind.name), id_)
        batch.assoc_add(EVERYBODY, KINDS, id_, id_)
        _note(writes, batch, kind)
        return kind, batch

    return await add_node(writes, _SHARD, build)


async def _change(writes: Writes, kind: PostKind, draft: KindDraft) -> PostKind:
    after = changed(kind, draft)
    if after == kind:
        return kind
    after = replace(after, version=kind.version + 1)
    batch = Batch(_SHARD)
    batch.obj_set(after)
    if after.building or (after.index, after.pairs) != (kind.index, kind.pairs):
        batch.emit(KindChanged(kind_id=after.id, schema_version=after.schema_version))
    _note(writes, batch, after)
    await writes.graph.commit(batch)
    return after


async def reindex(writes: Writes, name: str) -> None:
    """Index all posts of a kind again, which consumers do page by page. Raises `NotFound`."""
    kind = await get(writes.graph, name)
    batch = Batch(_SHARD)
    batch.emit(KindChanged(kind_id=kind.id, schema_version=kind.schema_version))
    await writes.graph.commit(batch)


def _note(writes: Writes, batch: Batch, kind: PostKind) -> None:
    target = AuditTarget(TargetKind.KIND, kind.id, kind.name)
    note(writes, batch, AuditVerb.KIND_DECLARED, target, version=kind.schema_version)


async def values_of(writes: Writes, name: str, json: str) -> dict[str, Any]:
    """Return the fields of a post of this kind with this data (JSON text).

    Raises `InvalidInput` for an unknown kind, and for data that does not match it.
    """
    kind = await find_kind(writes.graph, name)
    if kind is None:
        raise InvalidInput(f"kind: there is no kind {name[:100]!r}", field="kind")
    data = msgspec.json.decode(json) if json else None
    kind.check(data)
    return {"kind": name, "kind_version": kind.schema_version, "presentation": kind.presented(data)}
