"""The query language of search: words, phrases in quotation marks, `-` for exclusion, and operators.

    low tide "blue hour" -sunset from:ann has:media before:2026-03-01

`from:me`, `from:name`, `has:media|poll|link`, `is:reply|sensitive`, `language:en`, `kind:recipe`, `before:`, `after:` and `during:`
a day (UTC), `in:library` (the viewer's own posts, and posts that mention them), `in:public`, `in:all`,
`near:latitude,longitude` or `near:latitude,longitude,kilometers`. A word with an unknown operator is text; an operator with an
invalid value finds nothing.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from shoal.core.errors import InvalidInput
from shoal.core.places import Disk, cover, disk
from shoal.core.tokenizer import MAX_CLAUSES, Clause, clause_of
from shoal.graph.contract import MAX_TIME
from shoal.search.contract import Ask, within
from shoal.search.indexing import HAS_LINK, HAS_MEDIA, HAS_POLL, IS_REPLY, IS_SENSITIVE, of_kind, written_in

_PART = re.compile(r'(-?)(?:([a-z]{2,8}):(?=\S))?(?:"([^"]*)"?|(\S+))', re.IGNORECASE)
_HAS = {"media": HAS_MEDIA, "image": HAS_MEDIA, "poll": HAS_POLL, "link": HAS_LINK, "embed": HAS_LINK}
_IS = {"reply": IS_REPLY, "sensitive": IS_SENSITIVE}
_MARKS = {"has": _HAS, "is": _IS}
_OPERATORS = frozenset({"from", "has", "is", "language", "kind", "before", "after", "during", "in", "near"})
_DAY = timedelta(days=1)


class Question(NamedTuple):
    """A parsed query: the part for the index, and the names of required and excluded authors.

    Names in `by` and `not_by` are as typed after `from:`. `nothing` means that nothing can match, `public_only` that the
    viewer's own posts are excluded. The index returns posts from the cells that cover the disks in `near`. The cells extend
    beyond the disks, so the caller must check each post's place.
    """

    ask: Ask
    by: tuple[str, ...]
    not_by: tuple[str, ...]
    nothing: bool
    public_only: bool = False
    near: tuple[Disk, ...] = ()


def read_question(text: str) -> Question:
    return _Reading().read(text)


def misread(text: str) -> list[str]:
    """Return those parts of a query, as typed, whose operator does not accept the value."""
    found = []
    for match in _PART.finditer(text):
        minus, name, quoted, bare = match.groups()
        operator = (name or "").lower()
        if operator in _OPERATORS and not _Reading().takes(
            operator, (bare or quoted or "").lower(), negated=bool(minus)
        ):
            found.append(match[0])
    return found


class _Reading:
    def __init__(self) -> None:
        self._every: list[Clause] = []
        self._none: list[Clause] = []
        self._by: list[str] = []
        self._not_by: list[str] = []
        self._since, self._until = 0, MAX_TIME
        self._scope = "all"
        self._near: list[Disk] = []
        self._asked = False
        self._nothing = False

    def read(self, text: str) -> Question:
        for minus, name, quoted, bare in _PART.findall(text)[:MAX_CLAUSES]:
            operator = name.lower()
            if operator in _OPERATORS:
                self._asked = True
                if not self.takes(operator, (bare or quoted).lower(), negated=bool(minus)):
                    self._nothing = True
            else:
                words = quoted or bare
                clause = clause_of(f"{name}:{words}" if name else words)
                if clause is not None:
                    (self._none if minus else self._every).append(clause)
                    self._asked = True
        ask = Ask(
            every=tuple(self._every),
            none=tuple(self._none),
            some=tuple(tuple(map(within, cover(each))) for each in self._near),
            since=self._since,
            until=self._until,
            public=self._scope != "library",
        )
        nothing, public_only = self._nothing or not self._asked, self._scope == "public"
        return Question(ask, tuple(self._by), tuple(self._not_by), nothing, public_only, tuple(self._near))

    def takes(self, operator: str, value: str, *, negated: bool) -> bool:
        """Apply an operator, and return whether it accepts this value."""
        if operator == "from":
            (self._not_by if negated else self._by).append(value)
            return True
        if operator == "in":
            self._scope = value
            return not negated and value in ("all", "public", "library")
        if operator in ("before", "after", "during"):
            return not negated and self._in_time(operator, value)
        if operator == "near":
            return not negated and self._around(value)
        if operator == "kind":
            mark = of_kind(value)
        else:
            mark = written_in(value) if operator == "language" else _MARKS[operator].get(value, "")
        if mark:
            (self._none if negated else self._every).append(Clause((mark,)))
        return bool(mark)

    def _around(self, value: str) -> bool:
        try:
            self._near.append(disk(*map(float, value.split(","))))
        except (TypeError, ValueError, InvalidInput):
            return False
        return True

    def _in_time(self, operator: str, value: str) -> bool:
        try:
            day = datetime.strptime(value, "%Y-%m-%d").replace(tzinfo=UTC)
        except ValueError:
            return False
        if day.year < 1970 or day.year > 9998:
            return False
        begins, ends = _milliseconds(day), _milliseconds(day + _DAY)
        if operator != "before":
            self._since = max(self._since, ends if operator == "after" else begins)
        if operator != "after":
            self._until = min(self._until, begins if operator == "before" else ends)
        return True


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000
