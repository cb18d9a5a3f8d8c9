"""Invariants over a scanned store, without I/O. Each function returns the number of checked items, and the findings.

Pairs are matched by sorting: two lists of pairs are concatenated and sorted, so that equal pairs become adjacent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from shoal.admin.consistency.scan import LISTED, Blocks, Column, Counts, Links, Objects, Pairs
from shoal.admin.report import Finding
from shoal.graph.bulk import FIRST
from shoal.graph.schema import (
    ACTIVE,
    ASSOC_TYPES,
    AUDITED,
    CELL_OF,
    COMMENTS_ON,
    DECLARED_BY,
    FOLLOWS_FEED,
    IN_THREAD,
    INDEX_OF,
    MUTES_THREAD,
    PUBLIC_LISTS,
    REMOVED_PICTURES,
    RESTRICTED_COMMENTS_ON,
    SETS_FEED,
    SHOWS_EMOJI,
    TAG_OF,
    AssocType,
)

MOST = 50_000
"""Maximum number of findings that are kept per kind and pass.

Further findings are only counted. The next pass finds them after a repair.
"""


class Found(NamedTuple):
    """The result of a check: the number of checked items, the number of wrong items, and the first findings."""

    checked: int
    wrong: int
    findings: list[Finding]


class Match(NamedTuple):
    first: Column
    second: Column
    both: Pairs


def match(first: Pairs, second: Pairs) -> Match:
    major, minor = np.concatenate((first[0], second[0])), np.concatenate((first[1], second[1]))
    order = np.lexsort((minor, major))
    major, minor = major[order], minor[order]
    equal = np.zeros(len(order) + 1, np.bool_)
    equal[1:-1] = (major[1:] == major[:-1]) & (minor[1:] == minor[:-1])
    # The sort is stable: of two equal pairs, the one from `first` precedes the one from `second`.
    alone = order[~equal[:-1] & ~equal[1:]]
    ends = np.nonzero(equal)[0]
    size = len(first[0])
    return Match(alone[alone < size], alone[alone >= size] - size, (order[ends - 1], order[ends] - size))


def inverses(links: Links) -> Found:
    """Check invariant I3: each association equals its inverse, or both are deleted."""
    checked, wrong, findings = 0, 0, []
    for atype in ASSOC_TYPES.values():
        if atype.inverse > atype.number:
            there, back = links.of(atype.number, alive=False), links.of(atype.inverse, alive=False)
            checked += len(there.id1) + len(back.id1)
            found = list(_disagreeing(atype, there, back))
            wrong += len(found)
            findings += found[:MOST]
    return Found(checked, wrong, findings)


def _disagreeing(atype: AssocType, there: Links, back: Links) -> Iterator[Finding]:
    """Yield the associations that differ from their inverses.

    A tombstone without an inverse is valid, because old tombstones of the two directions are removed one after the
    other.
    """
    one, other = (there.id1, there.id2), (back.id2, back.id1)
    matched = match(one, other)
    name, inverse = _words(atype), _words(ASSOC_TYPES[atype.inverse])

    def found(words: str, ends: Pairs, at: int, *times: int) -> Finding:
        id1, id2 = int(ends[0][at]), int(ends[1][at])
        return Finding(words, (id1, id2), tuple(map(int, times)), agree=(id1, atype.number, id2))

    for at in matched.first[there.alive[matched.first]]:
        yield found(f"{{0}} {name} {{1}}, but the inverse association of {{1}} is missing", one, at, there.time[at])
    for at in matched.second[back.alive[matched.second]]:
        yield found(f"{{1}} {inverse} {{0}}, but the inverse association of {{0}} is missing", other, at, back.time[at])
    here, away = matched.both
    either = there.alive[here] | back.alive[away]
    for words, differ in (
        ("one end is alive and the other dead", there.alive[here] != back.alive[away]),
        ("the two ends tell different times", there.time[here] != back.time[away]),
        ("the two ends tell different data", there.mark[here] != back.mark[away]),
    ):
        for at in np.nonzero(differ & either)[0]:
            times = there.time[here[at]], back.time[away[at]]
            yield found(f"{{0}} {name} {{1}}: {words}", one, here[at], *times)


def counts(links: Links, objects: Objects, stored: Counts) -> Found:
    """Check invariant I2: every count equals the number of live associations, and the totals of an author are correct."""
    id1, atype, n = _live_counts(links, objects)
    matched = match((id1, atype), (stored.id1, stored.atype))
    one, other = matched.both
    differ = np.nonzero(n[one] != stored.n[other])[0]
    wrong = [(int(id1[at]), int(atype[at]), int(n[at]), 0) for at in matched.first]
    wrong += [(int(stored.id1[at]), int(stored.atype[at]), 0, int(stored.n[at])) for at in matched.second]
    wrong += [(int(id1[one[at]]), int(atype[one[at]]), int(n[one[at]]), int(stored.n[other[at]])) for at in differ]
    return Found(len(id1) + len(matched.second), len(wrong), [_miscounted(*row) for row in wrong[:MOST]])


def _miscounted(id1: int, atype: int, live: int, stored: int) -> Finding:
    kind = _words(ASSOC_TYPES[atype]) if atype in ASSOC_TYPES else f"type {atype}"
    words = f"{{0}} has {live} associations '{kind}', but the count says {stored}"
    return Finding(words, (id1,), recount=(id1, atype))


def _live_counts(links: Links, objects: Objects) -> tuple[Column, Column, Column]:
    live = links.only(links.alive & ~np.isin(links.atype, [t.number for t in ASSOC_TYPES.values() if not t.counted]))
    ids, types = [live.id1], [live.atype]
    for atype in ASSOC_TYPES.values():
        if atype.aggregated:
            authors = objects.authors_of(live.of(atype.number).id1)
            authors = authors[authors != 0]
            ids.append(authors)
            types.append(np.full(len(authors), atype.number))
    id1, kind = np.concatenate(ids), np.concatenate(types)
    order = np.lexsort((kind, id1))
    id1, kind = id1[order], kind[order]
    starts = np.ones(len(id1), np.bool_)
    starts[1:] = (id1[1:] != id1[:-1]) | (kind[1:] != kind[:-1])
    at = np.nonzero(starts)[0]
    return id1[at], kind[at], np.diff(np.append(at, len(id1)))


def positions(links: Links, blocks: Blocks) -> Found:
    """Check that `n` of each rank index block is the number of live list entries since the previous block."""
    follows = np.zeros(len(blocks.id1), np.bool_)
    follows[1:] = np.all([part[1:] == part[:-1] for part in blocks[:3]], axis=0)
    since = np.where(follows, np.roll(blocks.upto, 1), FIRST)
    ends = np.concatenate((blocks.upto, since))
    upto, before = np.split(_passed(links, np.tile(blocks.id1, 2), np.tile(blocks.atype, 2), ends), 2)
    has = upto - before
    wrong = np.nonzero(has != blocks.n)[0]
    return Found(len(has), len(wrong), [_misplaced(blocks, at, int(has[at])) for at in wrong[:MOST]])


def _passed(links: Links, id1: Column, atype: Column, time: Column) -> Column:
    """Return, for each position, the number of live entries at or before it in the order of `id1`, `atype` and `time`.

    A position consists of one value of each of these columns.
    """
    live = links.only(links.alive & np.isin(links.atype, [t.number for t in ASSOC_TYPES.values() if t.ranked]))
    id1, atype = np.concatenate((live.id1, id1)), np.concatenate((live.atype, atype))
    time = np.concatenate((live.time, time))
    asked = np.arange(len(id1)) >= len(live.id1)
    order = np.lexsort((asked, time, atype, id1))
    passed = np.empty(len(id1), np.int64)
    passed[order] = np.cumsum(~asked[order])
    return passed[asked]


def _misplaced(blocks: Blocks, at: int, has: int) -> Finding:
    id1, number, level, upto, n = (int(part[at]) for part in blocks)
    words = f"a block of the list '{_words(ASSOC_TYPES[number])}' of {{0}} has {has} entries, but its count is {n}"
    return Finding(words, (id1,), (level, upto), divide=(id1, number))


def tags(links: Links, objects: Objects) -> Found:
    """Check invariant I4: a tag leads to exactly the live posts that have it."""
    return _listed(TAG_OF, links, objects)


def lists(links: Links, objects: Objects) -> Found:
    """Check that each member's lists contain exactly what the member posted, shared and uploaded."""
    parts = [_listed(atype, links, objects) for atype in LISTED]
    return Found(
        sum(part.checked for part in parts),
        sum(part.wrong for part in parts),
        [finding for part in parts for finding in part.findings],
    )


def _listed(atype: AssocType, links: Links, objects: Objects) -> Found:
    id1s, id2s = objects.declared[atype.number]
    stored = links.of(atype.number)
    matched = match((id1s, id2s), (stored.id1, stored.id2))
    findings: list[Finding] = []
    for at in matched.first[:MOST]:
        id1, id2 = int(id1s[at]), int(id2s[at])
        words = f"{{0}} '{_words(atype)}' {{1}} is missing, but the object exists"
        findings.append(Finding(words, (id1, id2), begin=((id1, atype.number, id2), _made(atype, id1, id2), b"")))
    for at in matched.second[:MOST]:
        id1, _, id2 = stored.triple(at)
        words = f"{{0}} '{_words(atype)}' {{1}}, but there is no such object"
        findings.append(Finding(words, (id1, id2), end=(id1, atype.number, id2)))
    checked = len(id1s) + len(matched.second)
    return Found(checked, len(matched.first) + len(matched.second), findings)


def _made(atype: AssocType, id1: int, id2: int) -> int:
    """Return the time that an association must have: it equals the id of the object that requires it, which is `id1` or `id2`."""
    return id1 if atype in (COMMENTS_ON, RESTRICTED_COMMENTS_ON, IN_THREAD) else id2


def ends(links: Links, objects: Objects) -> Found:
    """Check that live associations start and end at existing objects. Inverses are not checked separately."""
    # Do not check mutes of threads: the root may be deleted, while its comments, and therefore the mute, remain. The pictures of a
    # removed post remain after its deletion, too, and so do follows and saved values of a named feed.
    other = (*LISTED, MUTES_THREAD, REMOVED_PICTURES, FOLLOWS_FEED, SETS_FEED)
    acting = [t.number for t in ASSOC_TYPES.values() if (not t.inverse or t.number < t.inverse) and t not in other]
    named = (TAG_OF.inverse, CELL_OF.inverse, DECLARED_BY.inverse, INDEX_OF.inverse)
    live = links.only(links.alive & np.isin(links.atype, [number for number in acting if number not in named]))
    # An emoji reaction is not an object. Its id counts as existing while the post refers to it.
    there = objects.exist(live.id2) | np.isin(live.id2, links.of(SHOWS_EMOJI.number).id2)
    # An audit log entry is not an object. Its id counts as existing while one of `PUBLIC_LISTS` contains it.
    audited = links.of(AUDITED.number)
    entries = audited.only(np.isin(audited.id1, PUBLIC_LISTS)).id2
    there |= (live.atype == AUDITED.number) & np.isin(live.id2, entries)
    # The lists of active posts and of the audit log do not belong to an object.
    open_to_all = np.isin(live.atype, (ACTIVE.number, AUDITED.number)) & np.isin(live.id1, PUBLIC_LISTS)
    begins = objects.exist(live.id1) | open_to_all
    loose = np.nonzero(~(begins & there))[0]
    findings = [_loose(live, at) for at in loose[:MOST]]
    return Found(len(live.id1), len(loose), findings)


def _loose(live: Links, at: int) -> Finding:
    id1, atype, id2 = live.triple(at)
    words = f"{{0}} '{_words(ASSOC_TYPES[atype])}' {{1}}, but one of them does not exist"
    return Finding(words, (id1, id2), end=(id1, atype, id2))


def _words(atype: AssocType) -> str:
    return atype.name.replace("_", " ")
