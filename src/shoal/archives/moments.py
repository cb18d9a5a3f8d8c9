"""Dates as archives write them, in Unix milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime

_X_FORM = "%a %b %d %H:%M:%S %z %Y"


def iso_moment(text: str) -> int:
    """Return the moment of an ISO 8601 date; UTC where it names no zone. 0 for anything else."""
    try:
        found = datetime.fromisoformat(text.upper())
        return _milliseconds(found if found.tzinfo else found.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return 0


def x_moment(text: str) -> int:
    """Return the moment of a date of X (`Wed Oct 10 20:19:24 +0000 2018`); 0 for anything else."""
    try:
        return _milliseconds(datetime.strptime(text, _X_FORM))  # noqa: DTZ007  # the form has %z
    except (ValueError, OverflowError):
        return 0


def _milliseconds(moment: datetime) -> int:
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return since.days * 86_400_000 + since.seconds * 1_000 + since.microseconds // 1_000
