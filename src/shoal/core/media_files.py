"""The files of each object. No other module lists them; deletion, sweeps and checks use these functions.

The key of a picture names its other files, so they are found without a stored field or a look-up. A JPEG may have a copy with fewer
bytes, for clients that support its format: `7-0a1b2c3d.avif.jpg` has the copy `7-0a1b2c3d.avif`, and `7-0a1b2c3d.jpg` has none. A
picture may have smaller sizes: `7-0a1b2c3d_320_160.avif.jpg` has `7-0a1b2c3d-320.avif` and `7-0a1b2c3d-160.avif`.
"""

from __future__ import annotations

from typing import Final

from shoal.core.model import Media, MediaKind, MediaState, Member
from shoal.core.publishing import HeldContent

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


def sizes_of(key: str) -> dict[int, str]:
    """Return the keys of the smaller sizes of a picture, by the pixels of their longer edge.

    They have the format of the picture's copy or, if it has no copy, of the picture. Works for the URL of a picture too.
    """
    folder, slash, name = key.rpartition("/")
    stem, _, kinds = name.partition(".")
    base, *edges = stem.split("_")
    if not edges or not all(map(str.isdecimal, edges)):
        return {}
    kind = kinds.removeprefix("animated.").partition(".")[0]
    return {int(edge): f"{folder}{slash}{base}-{edge}.{kind}" for edge in edges}


def with_sizes(url: str, edge: int) -> dict[int, str]:
    """Return the URLs of a picture and of its smaller sizes, by the pixels of the longer edge, smallest first.

    `edge` is the longer edge of the picture itself. The URL of a size is the picture's URL with a query, so one visibility check
    covers all sizes. The picture itself is served if the file of the size is missing or the client does not support its format.
    Smaller sizes of an animation are stills, and therefore left out.
    """
    if url.endswith(ANIMATED):
        return {edge: url}
    return {size: f"{url}?{size}" for size in sorted(sizes_of(url)) if size < edge} | {edge: url}


def still_of(key: str) -> str:
    """Return the key of the first frame of an animated avatar or header; the key itself for any other picture."""
    return f"{key.removesuffix(ANIMATED)}.webp" if key.endswith(ANIMATED) else key


def with_copies(*keys: str) -> tuple[str, ...]:
    """Return these file keys and those of the files derived from them, without duplicates and empty keys.

    Derived files are copies, smaller sizes and first frames.
    """
    return tuple(filter(None, dict.fromkeys(each for key in keys for each in (key, still_of(key), *_smaller(key)))))


def _smaller(key: str) -> tuple[str, ...]:
    return copy_of(key), *sizes_of(key).values()


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
    """Return the keys of the files that an object refers to, each with whether the file must exist.

    Copies and smaller sizes are not required: the picture itself is served if they are missing.
    """
    match node:
        case Media():
            keys = lasting_files_of(node)
        case Member():
            keys = files_of_member(node)
        case HeldContent():
            keys = with_copies(*node.files)
        case _:
            return {}
    optional = {each for key in keys for each in _smaller(key)}
    return {key: key not in optional for key in keys}


def id_in(key: str) -> int:
    """Return the id at the start of a media file's name; 0 if the name has no id, like the names of avatars."""
    number = key.rpartition("/")[2].partition("-")[0]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 20 else 0
