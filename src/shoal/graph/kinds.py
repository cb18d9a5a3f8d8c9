"""Kinds as stored: each kind is an object with its name as a key, and one list has all of them."""

from __future__ import annotations

from shoal.core.kinds import MAX_KINDS, PostKind
from shoal.graph.access import objects_of
from shoal.graph.contract import Cursor, Reader, find_object
from shoal.graph.schema import EVERYBODY, KINDS, kind_key


async def find_kind(graph: Reader, name: str) -> PostKind | None:
    """Return the kind with this name; None if there is none."""
    key = kind_key(name)
    return await find_object(graph, PostKind, (await graph.key_get((key,))).get(key, 0))


async def all_kinds(graph: Reader) -> list[PostKind]:
    """Return all kinds, by name."""
    # Concurrent additions may exceed the limit slightly.
    listed = await graph.assoc_range(EVERYBODY, KINDS, Cursor(limit=2 * MAX_KINDS))
    return sorted(await objects_of(graph, PostKind, [entry.id2 for entry in listed]), key=lambda kind: kind.name)
