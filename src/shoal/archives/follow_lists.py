"""Follow lists inside archives."""

from __future__ import annotations

from shoal.archives.entries import Entries
from shoal.core.archives import MAX_ARCHIVE_BYTES, FollowList, read_archive
from shoal.core.errors import InvalidInput

_NOBODY = FollowList((), 0)


def follow_list(entries: Entries, name: str) -> FollowList:
    """Return the accounts of a follow list: nobody for one of no known form, as that of a member who follows nobody.

    Raises `TooLarge` for one of more accounts or bytes than are read.
    """
    data = entries.read(name, MAX_ARCHIVE_BYTES)
    try:
        return read_archive(data)
    except InvalidInput as error:
        if type(error) is not InvalidInput:
            raise
        return _NOBODY
