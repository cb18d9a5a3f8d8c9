"""The changes that uses make to tags: pure arithmetic, with one result in any order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from shoal.graph.schema import tag_id
from shoal.tagcloud.cloud import empty_row
from shoal.tagcloud.contract import AuthorKey, Day, TagRow
from shoal.tagcloud.heat import COLD, Heat, heats_of, joined
from shoal.tagcloud.increment import Use

_MOST_FORMS = 16
"""Spellings of a tag that are told apart; rarer ones are not kept."""
TagDay = tuple[int, int]


class TagTally:
    """Differences that uses make to one tag. Days before the horizon are not told apart."""

    __slots__ = ("days", "forms", "heats", "n", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.n = 0
        self.heats = [COLD, COLD, COLD]
        self.forms: dict[str, int] = {}
        self.days: dict[int, int] = {}


class Tally(NamedTuple):
    """Differences that uses make: by the id of the tag, and how much more members used a tag on a day."""

    tags: dict[int, TagTally]
    authors: dict[AuthorKey, int]


def tally(uses: Iterable[Use], horizon: int) -> Tally:
    """Add up uses. `horizon`: the first day (since 1970-01-01 UTC) whose authors are kept."""
    by_name: dict[str, tuple[int, TagTally]] = {}
    authors: dict[AuthorKey, int] = {}
    for use in uses:
        day, author = use.day, use.author_id
        recent = day >= horizon
        once = heats_of(use.written)
        for name, form, by in use.changes:
            known = by_name.get(name)
            if known is None:
                known = by_name[name] = (tag_id(name), TagTally(name))
            id_, tag = known
            tag.n += by
            tag.forms[form] = tag.forms.get(form, 0) + by
            heats = tag.heats
            # As `joined` adds them, for the many that are of one time.
            for window, (one, held) in enumerate(zip(once, heats, strict=True)):
                if one.step == held.step:
                    heats[window] = Heat(held.value + by * one.value, one.step)
                else:
                    heats[window] = joined(held, Heat(by * one.value, one.step))
            if recent:
                tag.days[day] = tag.days.get(day, 0) + by
                key = (id_, day, author)
                authors[key] = authors.get(key, 0) + by
    return Tally(dict(by_name.values()), authors)


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
    after: Mapping[AuthorKey, int],
    author_counts: Mapping[AuthorKey, int],
    horizon: int,
) -> dict[int, TagRow]:
    """The rows of all tags that the uses touch, as they are now.

    `before` and `after`: the authors that are touched, as they were and as they are; `crowds`: all authors of the days that
    shrink, as they were.
    """
    members: dict[TagDay, int] = {}
    loudest: dict[TagDay, int] = {}
    for key, n in after.items():
        day = key[:2]
        members[day] = members.get(day, 0) + (n > 0) - (before.get(key, 0) > 0)
        if n > loudest.get(day, 0):
            loudest[day] = n
    shrunk = shrinking(found)
    for key, n in author_counts.items():
        if key not in after and n > loudest.get(key[:2], 0):
            loudest[key[:2]] = n

    def moved(id_: int, tag: TagTally, row: TagRow) -> dict[int, Day]:
        days = {day: held for day, held in row.days.items() if day >= horizon}
        for day, by in tag.days.items():
            held = days.pop(day, _QUIET)
            voice = loudest.get((id_, day), 0)
            if (id_, day) not in shrunk:
                voice = max(held.loudest, voice)
            now = Day(held.uses + by, held.members + members.get((id_, day), 0), voice)
            if now != _QUIET:
                days[day] = now
        return days

    return {
        id_: TagRow(
            id_,
            tag.name,
            row.n + tag.n,
            _summed(row.heats, tag.heats),
            _forms(row.forms, tag.forms),
            moved(id_, tag, row),
        )
        for id_, tag in found.tags.items()
        for row in (rows.get(id_) or empty_row(id_, tag.name),)
    }


_QUIET = Day()


def _summed(one: tuple[Heat, Heat, Heat], other: list[Heat]) -> tuple[Heat, Heat, Heat]:
    hour, day, week = map(joined, one, other)
    return hour, day, week


def _forms(held: Mapping[str, int], by: Mapping[str, int]) -> dict[str, int]:
    """The spellings with the most uses; with a use that is not known to have begun yet, too."""
    every = dict(held)
    for form, more in by.items():
        n = every.get(form, 0) + more
        if n:
            every[form] = n
        else:
            every.pop(form, None)
    if len(every) <= _MOST_FORMS:
        return every
    return dict(sorted(every.items(), key=lambda form: (-abs(form[1]), form[0]))[:_MOST_FORMS])
