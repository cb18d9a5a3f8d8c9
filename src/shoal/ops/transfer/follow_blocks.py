"""A file of follows, a block of rows at a time: a row of CSV costs a third of what a record of its own would."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress, islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.errors import InvalidInput
from shoal.ops.transfer.backdated import TICKS, ticks_of
from shoal.ops.transfer.records import UNEVEN, Fields, moment_of, opened, read_lines, written_as_csv
from shoal.ops.transfer.summary import Summary

_ROWS = 200_000


class FollowBlock(NamedTuple):
    """Rows that name two members each, and the moment of each in ticks (`row_moment`); rows without two are counted too."""

    followers: Sequence[str]
    followees: Sequence[str]
    moments: NDArray[np.int64]
    dated: bool = False
    """Whether the file tells dates: two rows may then have the same moment."""


def row_moment(since: str, number: int, latest: int) -> int:
    """Return the moment of the row of that number, in ticks (`backdated`): that of its date, or without one that of its place.

    Rows of one second, as most files tell it, are a tick apart. Raises `InvalidInput` for a date that is none, or later than
    `latest` (Unix milliseconds).
    """
    if not since:
        return (1 + number) * TICKS
    moment = moment_of(since)
    if moment > latest:
        raise InvalidInput("its date is in the future")
    return ticks_of(moment) + number % TICKS


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
        number, place = reader.line_num, 0
        columns: tuple[itemgetter[int], ...] = ()
        while rows := list(islice(reader, _ROWS)):
            after = place + len(rows)
            places: Sequence[int] = range(place, after)
            if set(map(len, rows)) != {len(head)}:
                after = place + sum(map(bool, rows))
                rows, places = _even(rows, len(head), number, place, summary)
            if rows:
                columns = columns or _columns(head, named)
                followers, followees, *dates = (list(map(column, rows)) for column in columns)
                yield _block(followers, followees, places, *dates, summary=summary)
            number, place = reader.line_num, after


def _columns(head: list[str], named: Mapping[str, str]) -> tuple[itemgetter[int], ...]:
    """Return getters of both ends of a row, and of its date if there is one."""
    fields = Fields("follows", dict.fromkeys(head), named)
    # Of columns with the same name the last one counts, as for the other kinds.
    last = {name: at for at, name in enumerate(head)}
    wanted = ("follower", "followee", "since") if fields.has("since") else ("follower", "followee")
    return tuple(itemgetter(last[fields.column(field)]) for field in wanted)


def _block(
    followers: list[str],
    followees: list[str],
    places: Sequence[int],
    dates: list[str] | None = None,
    *,
    summary: Summary,
) -> FollowBlock:
    """Give each row its moment; those whose date is none are refused."""
    if dates is None:
        return FollowBlock(followers, followees, (np.asarray(places, np.int64) + 1) * TICKS)
    latest = time.time_ns() // 1_000_000
    moments: list[int] = []
    good: list[bool] = []
    for follower, followee, place, since in zip(followers, followees, places, dates, strict=True):
        try:
            moments.append(row_moment(since, place, latest))
            good.append(True)
        except InvalidInput as error:
            summary.refuse("follows", f"{follower} -> {followee}", str(error))
            good.append(False)
    return FollowBlock(
        list(compress(followers, good)), list(compress(followees, good)), np.array(moments, np.int64), dated=True
    )


def _even(
    rows: list[list[str]], width: int, number: int, place: int, summary: Summary
) -> tuple[list[list[str]], Sequence[int]]:
    """The rows of the right width, and their numbers. `number` is of the line before them; empty lines are no rows."""
    even, places = [], []
    for row in rows:
        number += 1 + sum(cell.count("\n") for cell in row)
        if len(row) == width:
            even.append(row)
            places.append(place)
        elif row:
            summary.refuse("follows", f"line {number}", UNEVEN)
        place += bool(row)
    return even, places


def _of_lines(path: Path, named: Mapping[str, str], summary: Summary) -> Iterator[FollowBlock]:
    fields: Fields | None = None
    numbered = enumerate(read_lines(path))
    while lines := list(islice(numbered, _ROWS)):
        followers: list[str] = []
        followees: list[str] = []
        dates: list[str] = []
        places: list[int] = []
        for place, line in lines:
            if line.error:
                summary.refuse("follows", f"line {line.number}", line.error)
                continue
            fields = fields or Fields("follows", line.row, named)
            followers.append(fields.text(line.row, "follower"))
            followees.append(fields.text(line.row, "followee"))
            dates.append(fields.text(line.row, "since"))
            places.append(place)
        told = dates if fields is not None and fields.has("since") else None
        yield _block(followers, followees, places, told, summary=summary)
