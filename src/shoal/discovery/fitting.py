"""Whether a row is what is asked for: the rule that every index keeps, in plain Python."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.tokenizer import Clause
from shoal.discovery.contract import Ask, PostRow, by, to


def fits(ask: Ask, row: PostRow, *, shy: bool) -> bool:
    """Whether this post is one that is looked for; `shy` says it of its author."""
    if not (ask.after < row.id < ask.before and ask.since <= row.written < ask.until):
        return False
    return (
        _is_theirs(ask, row, shy=shy)
        and all(_has(row, clause) for clause in ask.every)
        and all(any(mark in row.marks for mark in group) for group in ask.some)
        and not any(_has(row, clause) for clause in ask.none)
    )


def _is_theirs(ask: Ask, row: PostRow, *, shy: bool) -> bool:
    if ask.public and row.public and not shy:
        return True
    return ask.viewer is not None and (by(ask.viewer) in row.marks or to(ask.viewer) in row.marks)


def _has(row: PostRow, clause: Clause) -> bool:
    if len(clause.words) == 1 and clause.words[0] in row.marks:
        return True
    return says(row.words, clause)


def says(words: Sequence[str], clause: Clause) -> bool:
    """Whether these words stand in the text behind each other."""
    wanted, count = clause.words, len(clause.words)
    head, last = wanted[:-1], wanted[-1]
    for at in range(len(words) - count + 1):
        word = words[at + count - 1]
        if (word == last or (clause.open and word.startswith(last))) and tuple(words[at : at + count - 1]) == head:
            return True
    return False
