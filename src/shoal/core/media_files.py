"""Which files belong to an object: the only place that lists them, for those who remove, sweep or check files.

A JPEG may have a smaller copy of the same picture beside it, for clients that can show it. The key says so:
`7-0a1b2c3d.avif.jpg` has `7-0a1b2c3d.avif` beside it, and `7-0a1b2c3d.jpg` has nothing. So no field and no look-up is needed
to find the copy.
"""

from __future__ import annotations

from typing import Final

from shoal.core.model import Media, Member

COPIES: Final = (".avif", ".webp")
"""Suffixes of the smaller copies."""


def copy_of(key: str) -> str:
    """The key of the smaller copy beside a file; empty where there is none."""
    stem = key.rpartition(".")[0]
    return stem if stem.endswith(COPIES) else ""


def with_copies(*keys: str) -> tuple[str, ...]:
    """These keys and those of their copies, without the empty ones."""
    return tuple(filter(None, (each for key in keys for each in (key, copy_of(key)))))


def files_of(media: Media) -> tuple[str, ...]:
    """All keys of a media object's files."""
    return with_copies(media.key, media.preview_key, media.original_key)


def files_of_member(member: Member) -> tuple[str, ...]:
    """All keys of the files of a profile: avatar and header."""
    return with_copies(member.avatar, member.header)
