"""What a file is, by its first bytes.

Declared types and file names are ignored everywhere: they are whatever the sender wrote. Passing here promises only that the
file begins like a picture; whether it is one, the decoder finds out.
"""

from __future__ import annotations

from typing import Final

from shoal.core.errors import InvalidInput, Unsupported

HEAD = 64
"""Bytes that `sniff` wants to see; more does no harm."""
JPEG: Final = "image/jpeg"
PNG: Final = "image/png"
GIF: Final = "image/gif"
WEBP: Final = "image/webp"
AVIF: Final = "image/avif"
ALLOWED = (JPEG, PNG, GIF, WEBP, AVIF)

_PREFIXES = (
    (b"\xff\xd8\xff", JPEG),
    (b"\x89PNG\r\n\x1a\n", PNG),
    (b"GIF87a", GIF),
    (b"GIF89a", GIF),
)
_AVIF_BRANDS = frozenset({b"avif", b"avis"})


def sniff(head: bytes) -> str:
    """The content type of a file that begins with `head`; `Unsupported` names the kinds taken, `InvalidInput` an empty file."""
    if not head:
        raise InvalidInput("the file is empty: a picture was expected")
    for prefix, content_type in _PREFIXES:
        if head.startswith(prefix):
            return content_type
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return WEBP
    if _is_avif(head):
        return AVIF
    raise Unsupported("this file is none of the kinds taken: JPEG, PNG, GIF, WebP or AVIF")


def _is_avif(head: bytes) -> bool:
    """Whether an ISO base media file names AVIF among its brands (ISO/IEC 14496-12, `ftyp`)."""
    if head[4:8] != b"ftyp":
        return False
    end = min(int.from_bytes(head[:4], "big"), HEAD)
    brands = {head[at : at + 4] for at in (8, *range(16, end - 3, 4))}
    return not _AVIF_BRANDS.isdisjoint(brands)
