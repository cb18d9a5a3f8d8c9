"""A plain recount of tag uses, to check merged counts against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from shoal.graph.schema import tag_id
from shoal.tagcloud.cloud import DAYS, ORDERS, ranks
from shoal.tagcloud.contract import DAY_MS, CloudStore, Day, TagRow, Use
from shoal.tagcloud.heat import COLD, Heat, heats_of, joined, warmth

FIRST = -(2**63)


def heated(heat: Heat, window: int, written: int, by: int) -> Heat:
    """Return a heat plus that of `by` uses, which may be negative, in a post written at this time (Unix ms)."""
    one = heats_of(written)[window]
    return joined(heat, Heat(by * one.value, one.step))


def recounted(uses: Iterable[Use], horizon: int) -> dict[int, TagRow]:
    """Return the rows for these uses, each counted once. Days before the horizon are left out."""
    n: Counter[str] = Counter()
    forms: dict[str, Counter[str]] = {}
    heats: dict[str, list[Heat]] = {}
    voices: dict[str, dict[int, Counter[int]]] = {}
    for use in uses:
        for name, form, by in use.changes:
            n[name] += by
            forms.setdefault(name, Counter())[form] += by
            warm = heats.setdefault(name, [COLD, COLD, COLD])
            heats[name] = [heated(heat, window, use.written, by) for window, heat in enumerate(warm)]
            if use.day >= horizon:
                voices.setdefault(name, {}).setdefault(use.day, Counter())[use.author_id] += by
    return {
        tag_id(name): TagRow(
            tag_id(name),
            name,
            count,
            (heats[name][0], heats[name][1], heats[name][2]),
            {form: by for form, by in forms[name].items() if by},
            _days(voices.get(name, {})),
        )
        for name, count in n.items()
    }


def _days(voices: Mapping[int, Counter[int]]) -> dict[int, Day]:
    days = {
        day: Day(sum(by.values()), sum(uses > 0 for uses in by.values()), max(0, *by.values()))
        for day, by in voices.items()
    }
    return {day: held for day, held in days.items() if held != Day()}


async def stored_rows(store: CloudStore, page: int = 1_000) -> dict[int, TagRow]:
    """Return all rows of a store, by id."""
    rows: dict[int, TagRow] = {}
    after = FIRST
    while found := await store.scan(after, page):
        rows.update((row.id, row) for row in found)
        after = found[-1].id
    return rows


def differences(stored: Mapping[int, TagRow], wanted: Mapping[int, TagRow], now: int) -> list[str]:
    """Return a description of each difference."""
    found, horizon = [], horizon_at(now)
    for id_ in stored.keys() | wanted.keys():
        one, other = stored.get(id_), wanted.get(id_)
        if one is None or other is None:
            row = one or other
            assert row is not None
            if row.n or row.days:
                found.append(f"{row.name}: {'missing' if one is None else 'unexpected'}: {row}")
            continue
        kept = {day: held for day, held in one.days.items() if day >= horizon}
        if (one.name, one.n, kept) != (other.name, other.n, other.days):
            found.append(f"{one.name}: {one.n} {kept}, expected {other.n} {other.days}")
        if {form: n for form, n in one.forms.items() if n} != other.forms:
            found.append(f"{one.name}: {one.forms}, expected {other.forms}")
        found += [
            f"{one.name}: heat {mine}, expected {yours}"
            for window, (mine, yours) in enumerate(zip(one.heats, other.heats, strict=True))
            if not _alike(window, mine, yours, now)
        ]
    return found


def _alike(window: int, one: Heat, other: Heat, now: int) -> bool:
    """Return whether two heats differ by far less than one use at `now`, because a heat is a sum of rounded numbers."""
    return abs(warmth(one, window, now) - warmth(other, window, now)) < 1e-9


def first_of(rows: Collection[TagRow], order: str, most: int, now: int) -> list[int]:
    """Return the first tags of an order, ranked from all rows."""
    at = ORDERS.index(order)
    ranked = [(-ranks(row, now)[at], row.id) for row in rows if ranks(row, now)[at] > float("-inf")]
    return [id_ for _, id_ in sorted(ranked)[:most]]


def horizon_at(now: int) -> int:
    """Return the first day whose authors are kept."""
    return now // DAY_MS - DAYS
