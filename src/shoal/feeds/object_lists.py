"""Pages of a list as it is stored, newest first, where nothing of it has to be left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from shoal.core.model import Node
from shoal.graph.contract import Assoc, Cursor, Reader
from shoal.graph.schema import AssocType

N = TypeVar("N", bound=Node)


async def entries_page(
    graph: Reader, owner: int, atype: AssocType, cursor: Cursor
) -> tuple[Sequence[Assoc], int | None]:
    """A page of the entries of a list, and the `before` of the page that follows; None at the end."""
    found = await graph.assoc_range(owner, atype, cursor.of(cursor.limit + 1))
    page = found[: cursor.limit]
    if cursor.oldest_first:
        return page[::-1], page[0].time if page else None
    return page, page[-1].time if len(found) > len(page) else None


async def objects_page(
    graph: Reader, owner: int, atype: AssocType, kind: type[N], cursor: Cursor
) -> tuple[list[N], int | None]:
    """A page of the objects of one kind that a list leads to, and the `before` of the page that follows; None at the end."""
    page, after = await entries_page(graph, owner, atype, cursor)
    nodes = await graph.obj_get([entry.id2 for entry in page])
    return [node for entry in page if isinstance(node := nodes.get(entry.id2), kind)], after
