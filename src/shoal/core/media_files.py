"""Which files belong to an object: the only place that lists them, for those who remove, sweep or check files.

A JPEG may have a smaller copy of the same picture beside it, for clients that can show it. The key says so:
`7-0a1b2c3d.avif.jpg` has `7-0a1b2c3d.avif` beside it, and `7-0a1b2c3d.jpg` has nothing. So no field and no look-up is needed
to find the copy.
"""

from __future__ import annotations

from typing import Final

from shoal.core.model import Media, MediaKind, MediaState, Member

MISSING_AVATAR: Final = "/avatars/original/missing.png"
MISSING_HEADER: Final = "/headers/original/missing.png"
"""Paths of the pictures of those who have none."""
COPIES: Final = (".avif", ".webp")
"""Suffixes of the smaller copies."""
ANIMATED: Final = ".animated.webp"
"""End of the key of an animated avatar or header. Its first frame is stored under the key without `.animated`."""


def copy_of(key: str) -> str:
    """The key of the smaller copy beside a file; empty where there is none."""
    stem = key.rpartition(".")[0]
    return stem if stem.endswith(COPIES) else ""


def still_of(key: str) -> str:
    """The key of the first frame of an animated avatar or header; the key itself for any other picture."""
    return f"{key.removesuffix(ANIMATED)}.webp" if key.endswith(ANIMATED) else key


def with_copies(*keys: str) -> tuple[str, ...]:
    """These keys, those of their copies and of their first frames, each once and without the empty ones."""
    return tuple(filter(None, dict.fromkeys(each for key in keys for each in (key, still_of(key), copy_of(key)))))


def files_of(media: Media) -> tuple[str, ...]:
    """All keys of a media object's files."""
    return with_copies(media.key, media.preview_key, media.original_key)


def files_of_member(member: Member) -> tuple[str, ...]:
    """All keys of the files of a profile: avatar and header."""
    return with_copies(member.avatar, member.header)


def lasting_files_of(media: Media) -> tuple[str, ...]:
    """All keys of the files that a media object has now: what came in goes once a clip was made of it, or could not be."""
    if media.state is MediaState.FAILED:
        return with_copies(media.preview_key)
    if media.kind is MediaKind.IMAGE or media.state is MediaState.PROCESSING:
        return files_of(media)
    return with_copies(media.key, media.preview_key)


def id_in(key: str) -> int:
    """The id that the name of a file begins with; 0 for an avatar and whatever else has none."""
    number = key.rpartition("/")[2].partition("-")[0]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 20 else 0
