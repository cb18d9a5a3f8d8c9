"""What some uses change about tags: pure arithmetic, the same in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from shoal.graph.schema import tag_id
from shoal.tagcloud.cloud import empty_row
from shoal.tagcloud.contract import AuthorKey, Day, TagRow
from shoal.tagcloud.heat import COLD, Heat, heated, joined
from shoal.tagcloud.increment import Use

_MOST_FORMS = 16
"""Spellings of a tag that are told apart; rarer ones are not kept."""
TagDay = tuple[int, int]


class Tally(NamedTuple):
    """Differences that uses make, by tag. Days before the horizon are not told apart."""

    names: dict[int, str]
    n: Counter[int]
    heats: dict[int, list[Heat]]
    forms: dict[int, Counter[str]]
    days: Counter[TagDay]
    authors: Counter[AuthorKey]


def tally(uses: Iterable[Use], horizon: int) -> Tally:
    """Add up uses. `horizon`: the first day (since 1970-01-01 UTC) whose authors are kept."""
    ids: dict[str, int] = {}
    found = Tally({}, Counter(), {}, {}, Counter(), Counter())
    for use in uses:
        day, recent = use.day, use.day >= horizon
        for name, form, by in use.changes:
            id_ = ids.get(name)
            if id_ is None:
                id_ = ids[name] = tag_id(name)
                found.names[id_] = name
                found.heats[id_] = [COLD, COLD, COLD]
                found.forms[id_] = Counter()
            found.n[id_] += by
            found.forms[id_][form] += by
            heats = found.heats[id_]
            for window, heat in enumerate(heats):
                heats[window] = heated(heat, window, use.written, by)
            if recent:
                found.days[id_, day] += by
                found.authors[id_, day, use.author_id] += by
    return found


def shrinking(found: Tally) -> set[TagDay]:
    """The days on which a member's uses became fewer: who was loudest must be looked for anew."""
    return {(tag, day) for (tag, day, _), by in found.authors.items() if by < 0}


def authors_after(found: Tally, before: Mapping[AuthorKey, int]) -> dict[AuthorKey, int]:
    """How often members used tags now."""
    return {key: before.get(key, 0) + by for key, by in found.authors.items() if by}


def rows_after(
    found: Tally,
    rows: Mapping[int, TagRow],
    before: Mapping[AuthorKey, int],
    crowds: Mapping[AuthorKey, int],
    horizon: int,
) -> dict[int, TagRow]:
    """The rows of all tags that the uses touch, as they are now.

    `before`: the authors that are touched, as they were; `crowds`: all authors of the days that shrink, as they were.
    """
    after = authors_after(found, before)
    members: Counter[TagDay] = Counter()
    loudest: dict[TagDay, int] = {}
    for (tag, day, author), n in after.items():
        members[tag, day] += (n > 0) - (before.get((tag, day, author), 0) > 0)
        loudest[tag, day] = max(loudest.get((tag, day), 0), n)
    shrunk = shrinking(found)
    for key, n in crowds.items():
        if key not in after:
            loudest[key[:2]] = max(loudest.get(key[:2], 0), n)
    days_of: dict[int, list[int]] = {}
    for tag, day in found.days:
        days_of.setdefault(tag, []).append(day)

    def moved(tag: int, row: TagRow) -> dict[int, Day]:
        days = {day: held for day, held in row.days.items() if day >= horizon}
        for day in days_of.get(tag, ()):
            held = days.get(day, Day())
            voice = loudest.get((tag, day), 0)
            now = Day(
                held.uses + found.days[tag, day],
                held.members + members[tag, day],
                voice if (tag, day) in shrunk else max(held.loudest, voice),
            )
            days.pop(day, None)
            if now != Day():
                days[day] = now
        return days

    return {
        tag: TagRow(
            tag,
            name,
            row.n + found.n[tag],
            _summed(row.heats, found.heats[tag]),
            _forms(row.forms, found.forms[tag]),
            moved(tag, row),
        )
        for tag, name in found.names.items()
        for row in (rows.get(tag) or empty_row(tag, name),)
    }


def _summed(one: tuple[Heat, Heat, Heat], other: list[Heat]) -> tuple[Heat, Heat, Heat]:
    hour, day, week = map(joined, one, other)
    return hour, day, week


def _forms(held: Mapping[str, int], by: Counter[str]) -> dict[str, int]:
    """The spellings with the most uses; with a use that is not known to have begun yet, too."""
    every = {form: n for form in held.keys() | by.keys() if (n := held.get(form, 0) + by[form])}
    if len(every) <= _MOST_FORMS:
        return every
    return dict(sorted(every.items(), key=lambda form: (-abs(form[1]), form[0]))[:_MOST_FORMS])
