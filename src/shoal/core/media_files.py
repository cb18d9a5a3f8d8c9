"""The files of each object. No other module lists them; deletion, sweeps and checks use these functions.

A JPEG may have a smaller copy, for clients that support the format of the copy. The key shows it: `7-0a1b2c3d.avif.jpg` has the
copy `7-0a1b2c3d.avif`, and `7-0a1b2c3d.jpg` has none. So the copy is found without a stored field or a look-up.
"""

from __future__ import annotations

from typing import Final

from shoal.core.model import Media, MediaKind, MediaState, Member

MISSING_AVATAR: Final = "/avatars/original/missing.png"
MISSING_HEADER: Final = "/headers/original/missing.png"
"""Paths of the default pictures."""
COPIES: Final = (".avif", ".webp")
"""Suffixes of the smaller copies."""
ANIMATED: Final = ".animated.webp"
"""Suffix of the key of an animated avatar or header. Its first frame is stored under the key without `.animated`."""


def copy_of(key: str) -> str:
    """Return the key of the smaller copy of a media file; empty if there is none."""
    stem = key.rpartition(".")[0]
    return stem if stem.endswith(COPIES) else ""


def still_of(key: str) -> str:
    """Return the key of the first frame of an animated avatar or header; the key itself for any other picture."""
    return f"{key.removesuffix(ANIMATED)}.webp" if key.endswith(ANIMATED) else key


def with_copies(*keys: str) -> tuple[str, ...]:
    return tuple(filter(None, dict.fromkeys(each for key in keys for each in (key, still_of(key), copy_of(key)))))


def files_of(media: Media) -> tuple[str, ...]:
    return with_copies(media.key, media.preview_key, media.original_key)


def files_of_member(member: Member) -> tuple[str, ...]:
    return with_copies(member.avatar, member.header)


def lasting_files_of(media: Media) -> tuple[str, ...]:
    """Return the keys of the files of a media object, except an upload that is deleted after its conversion or failure."""
    if media.state is MediaState.FAILED:
        return with_copies(media.preview_key)
    if media.kind is MediaKind.IMAGE or media.state is MediaState.PROCESSING:
        return files_of(media)
    return with_copies(media.key, media.preview_key)


def files_now(node: object) -> dict[str, bool]:
    """Return the keys of the files that an object refers to, and whether each file must exist.

    A smaller copy is not required: the original picture is served if it is missing.
    """
    match node:
        case Media():
            keys = lasting_files_of(node)
        case Member():
            keys = files_of_member(node)
        case _:
            return {}
    copies = set(map(copy_of, keys))
    return {key: key not in copies for key in keys}


def id_in(key: str) -> int:
    """Return the id at the start of a media file's name; 0 if the name has no id, like the names of avatars."""
    number = key.rpartition("/")[2].partition("-")[0]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 20 else 0
