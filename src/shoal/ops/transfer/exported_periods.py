"""When a member followed others and others followed them, in their export: a CSV file each way."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from shoal.graph.access import members_by_id
from shoal.graph.contract import Assoc, AssocRow
from shoal.graph.schema import ASSOC_TYPES, FOLLOWED_BY, FOLLOWS, AssocType
from shoal.ops.transfer import exporting
from shoal.ops.transfer.exporting import Export, iso
from shoal.queries.follows import dated, known_since, told_periods

_BELOW_ALL = -(2**63)
_FILES = {"follow_periods": FOLLOWS, "follower_periods": FOLLOWED_BY}


async def write(export: Export) -> None:
    """Every period that is still remembered, those that go on among them; the other member's name is as it is now."""
    since = await known_since(export.reads)

    async def rows(page: dict[int, list[AssocRow]]) -> list[tuple[str, ...]]:
        return await _rows(export, page, since)

    for noun, atype in _FILES.items():
        await export.paged_table(noun, ("since", "until", "id", "name"), _pages(export, atype), rows)


async def _rows(export: Export, page: dict[int, list[AssocRow]], since: int) -> list[tuple[str, ...]]:
    names = await members_by_id(export.graph, list(page))
    found: list[tuple[str, ...]] = []
    for other, rows in page.items():
        alive = next((Assoc(*row[2:4], row.data) for row in rows if row.alive), None)
        ended = [Assoc(*row[2:4], row.data) for row in rows if not row.alive]
        name = names[other].name if other in names else ""
        found += [
            (iso(period.since or 0), iso(period.until or 0), str(other), name)
            for period in dated(told_periods(alive, ended), since)
        ]
    return found


async def _pages(export: Export, atype: AssocType) -> AsyncGenerator[dict[int, list[AssocRow]], None]:
    """All rows about each of so many others: the association or its tombstone, and what is kept aside while it is alive."""
    aside, after = ASSOC_TYPES[atype.history], _BELOW_ALL
    while True:
        own, kept = [await _part(export, kind, after) for kind in (atype, aside)]
        full = [part[-1].id2 for part in (own, kept) if len(part) == exporting.PAGE]
        upto = min(full) if full else None
        page: dict[int, list[AssocRow]] = {}
        for row in (*own, *kept):
            if upto is None or row.id2 <= upto:
                page.setdefault(row.id2, []).append(row)
        yield page
        if upto is None:
            return
        after = upto


async def _part(export: Export, atype: AssocType, after: int) -> list[AssocRow]:
    id1 = export.member.id
    page = await export.graph.assoc_scan((id1, atype.number, after), exporting.PAGE)
    return [row for row in page if (row.id1, row.atype) == (id1, atype.number)]
