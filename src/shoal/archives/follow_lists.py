"""Follow lists inside archives."""

from __future__ import annotations

from shoal.archives.entries import Entries
from shoal.archives.records import Omission, SkippedRecord
from shoal.core.errors import InvalidInput, TooLarge
from shoal.core.handles import MAX_ARCHIVE_BYTES, FollowList, read_archive

_NOBODY = FollowList((), 0)


def follow_list(entries: Entries, name: str) -> FollowList | SkippedRecord:
    """Return the accounts of a follow list, or that it is left out: it is damaged or too large.

    A list of no known form has no accounts, like that of a member who follows no account.
    """
    try:
        data = entries.read(name, MAX_ARCHIVE_BYTES)
    except TooLarge:
        return SkippedRecord("follows", name, Omission.TOO_MANY)
    except InvalidInput:
        return SkippedRecord("follows", name, Omission.MALFORMED)
    try:
        return read_archive(data)
    except TooLarge:
        return SkippedRecord("follows", name, Omission.TOO_MANY)
    except InvalidInput:
        return _NOBODY
