"""Detection of file types by their first bytes.

Declared types and file names are ignored everywhere: the uploader may write anything there. Detection only guarantees
that the file begins like a picture or a clip; the decoder verifies the rest.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final, NamedTuple

from shoal.core.errors import InvalidInput, Unsupported

HEAD = 64
"""Number of bytes at the beginning of a file that `sniff` needs."""
JPEG: Final = "image/jpeg"
PNG: Final = "image/png"
GIF: Final = "image/gif"
WEBP: Final = "image/webp"
AVIF: Final = "image/avif"
HEIC: Final = "image/heic"
_READS_HEIC: Final = find_spec("pillow_heif") is not None
ALLOWED = (JPEG, PNG, GIF, WEBP, AVIF, *((HEIC,) if _READS_HEIC else ()))
PICTURES_IN_WORDS: Final = f"JPEG, PNG, GIF, WebP, AVIF{' or HEIC' if _READS_HEIC else ''}"

_PREFIXES = (
    (b"\xff\xd8\xff", JPEG),
    (b"\x89PNG\r\n\x1a\n", PNG),
    (b"GIF87a", GIF),
    (b"GIF89a", GIF),
)
_MOST_CHUNKS: Final = 64
"""Maximum number of chunks of a WebP that are searched for pixels."""
_AVIF_BRANDS = frozenset({b"avif", b"avis"})
_HEIC_BRANDS = frozenset({b"heic", b"heix", b"heim", b"heis"})


def sniff(head: bytes) -> str:
    """Return the content type of a file that begins with `head`.

    Raises `Unsupported`, whose message names the accepted types, and `InvalidInput` for an empty file.
    """
    if not head:
        raise InvalidInput("the file is empty: a picture was expected")
    for prefix, content_type in _PREFIXES:
        if head.startswith(prefix):
            return content_type
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return WEBP
    brands = _brands(head)
    if not _AVIF_BRANDS.isdisjoint(brands):
        return AVIF
    if _READS_HEIC and not _HEIC_BRANDS.isdisjoint(brands):
        return HEIC
    raise Unsupported(f"the type of this file is not supported: use {PICTURES_IN_WORDS}")


def is_lossless(data: bytes) -> bool:
    """Return whether a picture is stored losslessly: PNG, GIF, or lossless WebP (RFC 9649, 2.3 to 2.7)."""
    kind = sniff(data[:HEAD])
    return kind in {PNG, GIF} or (kind == WEBP and _pixels_of_webp(data) == b"VP8L")


def _pixels_of_webp(data: bytes) -> bytes:
    """Return the name of the first chunk of a WebP that contains pixels. It is `VP8L` if they are lossless."""
    at = 12
    for _ in range(_MOST_CHUNKS):
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        if name in {b"VP8L", b"VP8 ", b""}:
            return name
        # An animation frame begins with a 16-byte header, followed by its chunks.
        at += 8 + (16 if name == b"ANMF" else size + size % 2)
    return b""


def _brands(head: bytes) -> tuple[bytes, ...]:
    """Return the brands of an ISO base media file. The first is the major brand (ISO/IEC 14496-12, `ftyp`)."""
    if head[4:8] != b"ftyp":
        return ()
    end = min(int.from_bytes(head[:4], "big"), HEAD)
    return tuple(head[at : at + 4] for at in (8, *range(16, end - 3, 4)))


class Clip(NamedTuple):
    """A type of video or sound: its content type, demuxer, and allowed decoders."""

    content_type: str
    demuxer: str
    decoders: tuple[str, ...]


_MP3 = ("mp3float", "mp3")
_PCM = tuple(f"pcm_{form}" for form in ("u8", "s16le", "s16be", "s24le", "s24be", "s32le", "s32be", "f32le", "f32be"))
_AV1 = ("libdav1d", "libaom-av1", "av1")
_COVER = ("mjpeg", "png")
_XIPH = ("opus", "libopus", "vorbis", "libvorbis", "flac")
MP4: Final = Clip(
    "video/mp4",
    "mov",
    (
        *("h264", "hevc", *_AV1, "vp9", "libvpx-vp9", "mpeg4", "h263", "prores", *_COVER),
        *("aac", "alac", *_MP3, "ac3", "eac3", "opus", "libopus", "flac", "amrnb", "amrwb", *_PCM),
        "mov_text",
    ),
)
MP3: Final = Clip("audio/mpeg", "mp3", (*_MP3, *_COVER))
_WEBM: Final = Clip(
    "video/webm",
    "matroska",
    (
        *("vp8", "libvpx", "vp9", "libvpx-vp9", *_AV1, "h264", "hevc", "mpeg4", *_COVER),
        *(*_XIPH, "aac", *_MP3, "ac3", "eac3", *_PCM),
        *("ass", "ssa", "subrip", "srt", "webvtt"),
    ),
)
_AAC: Final = Clip("audio/aac", "aac", ("aac", *_COVER))
_CLIPS = (
    (b"\x1aE\xdf\xa3", _WEBM),
    (b"OggS", Clip("audio/ogg", "ogg", (*_XIPH, "theora", *_COVER))),
    (b"fLaC", Clip("audio/flac", "flac", ("flac", *_COVER))),
    (b"ID3", MP3),
    (b"\xff\xf1", _AAC),
    (b"\xff\xf9", _AAC),
    *((bytes((0xFF, second)), MP3) for second in (0xFB, 0xFA, 0xF3, 0xF2, 0xE3)),
)
_ATOMS = frozenset({b"moov", b"mdat", b"wide", b"free", b"skip"})
"""The types of the first atom in old QuickTime files."""
_MP4_BRANDS = frozenset(
    (
        *(b"isom", *(b"iso%d" % version for version in range(2, 10)), b"avc1", b"hvc1", b"av01", b"dash", b"cmfc"),
        *(b"mp41", b"mp42", b"mp71", b"mp4v", b"mmp4", b"MSNV", b"XAVC", b"f4v ", b"F4V ", b"qt  "),
        *(b"M4V ", b"M4VH", b"M4VP", b"M4A ", b"M4B ", b"M4P "),
    )
)
"""Major brands of MP4 and QuickTime files, without the brands of 3GPP, which begin with `3g`.

Pictures use this container too, with other brands.
"""
CLIPS: Final = (
    "video/mp4",
    "video/quicktime",
    "video/webm",
    "video/x-matroska",
    "audio/mpeg",
    "audio/mp4",
    "audio/x-m4a",
    "audio/aac",
    "audio/ogg",
    "audio/wav",
    "audio/x-wav",
    "audio/flac",
)
"""Content types that are accepted in addition to pictures if ffmpeg is installed."""
CLIPS_IN_WORDS: Final = "MP4, QuickTime, WebM, Matroska, MP3, M4A, AAC, Ogg, FLAC or WAV"


def sniff_clip(head: bytes) -> Clip | None:
    """Return the type of the video or sound that begins with `head`; None for other files."""
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        return Clip("audio/wav", "wav", _PCM)
    if brands := _brands(head):
        return MP4 if brands[0] in _MP4_BRANDS or brands[0].startswith(b"3g") else None
    if head[4:8] in _ATOMS:
        return MP4._replace(content_type="video/quicktime")
    return next((clip for prefix, clip in _CLIPS if head.startswith(prefix)), None)


ANIMATION: Final = Clip("video/mp4", "gif", ("gif",))


def is_gif(head: bytes) -> bool:
    return head[:4] == b"GIF8"


def is_animated_gif(data: bytes) -> bool:
    """Return whether a file is a GIF of more than one frame (GIF89a, sections 18 to 26)."""
    if not is_gif(data) or len(data) < 13:
        return False
    at, frames = 13 + _colors(data[10]), 0
    while at + 10 < len(data):
        if data[at] == 0x2C:
            frames += 1
            if frames > 1:
                return True
            at = _past_blocks(data, at + 11 + _colors(data[at + 9]))
        elif data[at] == 0x21:
            at = _past_blocks(data, at + 2)
        else:
            return False
    return False


def _colors(flags: int) -> int:
    """Return the length in bytes of a GIF's color table, from the flags in its descriptor; 0 if there is none."""
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _past_blocks(data: bytes, at: int) -> int:
    while at < len(data) and data[at]:
        at += data[at] + 1
    return at + 1
