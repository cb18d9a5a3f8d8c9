"""A file of follows, a block of rows at a time: a row of CSV costs a third of what a record of its own would."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from shoal.ops.transfer.records import UNEVEN, Fields, opened, read_lines, written_as_csv
from shoal.ops.transfer.summary import Summary

_ROWS = 200_000


class FollowBlock(NamedTuple):
    """Rows that name two members each, and the number of each row in the file; rows without two are counted too."""

    followers: Sequence[str]
    followees: Sequence[str]
    moments: Sequence[int]


def follow_blocks(path: Path, named: Mapping[str, str], summary: Summary) -> Iterator[FollowBlock]:
    """The rows as they come; those that cannot be read are refused. Raises as `read_lines`."""
    if written_as_csv(path):
        yield from _of_csv(path, named, summary)
    else:
        yield from _of_lines(path, named, summary)


def _of_csv(path: Path, named: Mapping[str, str], summary: Summary) -> Iterator[FollowBlock]:
    with opened(path) as file:
        reader = csv.reader(file)
        head = next(reader, [])
        number, moment = reader.line_num, 0
        ends: tuple[itemgetter[int], ...] = ()
        while rows := list(islice(reader, _ROWS)):
            after = moment + len(rows)
            moments: Sequence[int] = range(moment, after)
            if set(map(len, rows)) != {len(head)}:
                after = moment + sum(map(bool, rows))
                rows, moments = _even(rows, len(head), number, moment, summary)
            if rows and not ends:
                fields = Fields("follows", dict.fromkeys(head), named)
                # Of columns with the same name the last one counts, as for the other kinds.
                last = {name: at for at, name in enumerate(head)}
                ends = tuple(itemgetter(last[fields.column(field)]) for field in ("follower", "followee"))
            if rows:
                yield FollowBlock(list(map(ends[0], rows)), list(map(ends[1], rows)), moments)
            number, moment = reader.line_num, after


def _even(
    rows: list[list[str]], width: int, number: int, moment: int, summary: Summary
) -> tuple[list[list[str]], Sequence[int]]:
    """The rows of the right width, and their numbers. `number` is of the line before them; empty lines are no rows."""
    even, moments = [], []
    for row in rows:
        number += 1 + sum(cell.count("\n") for cell in row)
        if len(row) == width:
            even.append(row)
            moments.append(moment)
        elif row:
            summary.refuse("follows", f"line {number}", UNEVEN)
        moment += bool(row)
    return even, moments


def _of_lines(path: Path, named: Mapping[str, str], summary: Summary) -> Iterator[FollowBlock]:
    fields: Fields | None = None
    numbered = enumerate(read_lines(path))
    while lines := list(islice(numbered, _ROWS)):
        followers: list[str] = []
        followees: list[str] = []
        moments: list[int] = []
        for moment, line in lines:
            if line.error:
                summary.refuse("follows", f"line {line.number}", line.error)
                continue
            fields = fields or Fields("follows", line.row, named)
            followers.append(fields.text(line.row, "follower"))
            followees.append(fields.text(line.row, "followee"))
            moments.append(moment)
        yield FollowBlock(followers, followees, moments)
