"""Properties of a clip as ffprobe reports them, checked against the limits before anything is decoded."""

from __future__ import annotations

from fractions import Fraction

import msgspec

from shoal.core.errors import InvalidInput, TooLarge
from shoal.core.model import Sound
from shoal.media.limits import ClipLimits

_PLAIN_PROFILES = frozenset({"Constrained Baseline", "Baseline", "Main", "High"})
_WHOLE, _SLACK_SECONDS = 0.9, 0.5
"""Containers round durations, and encoders pad or drop a few frames."""
_LEAST_EDGE = 2
"""Pixels: H.264 in 4:2:0 stores colours in blocks of two by two."""
_HDR = frozenset({"smpte2084", "arib-std-b67"})
"""Transfer characteristics of HDR: PQ and HLG (ITU-R BT.2100)."""
_HIGHEST_LEVEL = 42
"""H.264 level 4.2, times ten: phones of ten years ago decode it."""


class _Disposition(msgspec.Struct):
    attached_pic: int = 0


class _SideData(msgspec.Struct):
    rotation: float = 0


class _Stream(msgspec.Struct):
    codec_type: str = ""
    codec_name: str = ""
    profile: str = ""
    level: int = 0
    pix_fmt: str = ""
    field_order: str = ""
    color_transfer: str = ""
    sample_aspect_ratio: str = ""
    bit_rate: str = "0"
    width: int = 0
    height: int = 0
    avg_frame_rate: str = "0/0"
    r_frame_rate: str = "0/0"
    duration: str = ""
    sample_rate: str = "0"
    channels: int = 0
    disposition: _Disposition = msgspec.field(default_factory=_Disposition)
    side_data_list: list[_SideData] = []

    @property
    def plays_everywhere(self) -> bool:
        """Whether every browser plays it as it is: H.264 in 8 bits of 4:2:0, whole frames, upright; or AAC-LC in
        stereo.
        """
        if self.codec_type == "audio":
            plain = self.codec_name == "aac" and self.profile == "LC"
            return plain and self.channels <= 2 and _number(self.sample_rate) <= 48_000
        return (
            self.codec_name == "h264"
            and self.profile in _PLAIN_PROFILES
            and 0 < self.level <= _HIGHEST_LEVEL
            and self.pix_fmt == "yuv420p"
            and self.color_transfer not in _HDR
            and self.field_order in {"", "unknown", "progressive"}
            and self.sample_aspect_ratio in {"", "1:1", "0:1"}
            and self.width % 2 == self.height % 2 == 0
            and not any(side.rotation for side in self.side_data_list)
        )


class _Format(msgspec.Struct):
    duration: str = ""
    bit_rate: str = "0"


class _Probed(msgspec.Struct):
    streams: list[_Stream] = []
    format: _Format = msgspec.field(default_factory=_Format)


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of a clip. Without a film `width` is 0; `cover` says whether a still picture comes with a sound."""

    duration: float
    """Seconds; 0 where the file does not say."""
    bitrate: int
    width: int = 0
    height: int = 0
    frame_rate: Fraction = Fraction(0)
    sound: Sound | None = None
    cover: bool = False
    film_bits: int = 0
    """Bits per second of the film, or of everything where the file does not say."""
    ticks: Fraction = Fraction(0)
    """Lowest constant frame rate that represents each timestamp of the film."""
    hdr: bool = False
    film_plays: bool = False
    """Whether every browser plays the film without another encoding."""
    sound_bits: int = 0
    sound_plays: bool = False

    def check(self, limits: ClipLimits) -> None:
        """Raise `InvalidInput` or `TooLarge` for a clip that is not accepted."""
        if not self.width and self.sound is None:
            raise InvalidInput("this file has neither a picture nor a sound")
        if self.duration > limits.max_duration:
            raise TooLarge(
                f"a clip of {self.duration:.0f} seconds is too long: at most {limits.max_duration:g} are taken"
            )
        if self.width * self.height > limits.max_pixels:
            most = f"{limits.max_pixels / 1e6:.3g}"
            raise TooLarge(
                f"a video of {self.width} x {self.height} pixels is too large: at most {most} million pixels are taken"
            )
        if (
            self.width
            and min(self.width, self.height) * min(1, limits.edge / max(self.width, self.height)) < _LEAST_EDGE
        ):
            raise InvalidInput(
                f"a video of {self.width} x {self.height} pixels is too small: it needs at least {_LEAST_EDGE} pixels"
                f" in each direction once it fits into {limits.edge}"
            )
        if self.frame_rate > limits.max_frame_rate:
            raise TooLarge(
                f"a video of {float(self.frame_rate):.0f} frames a second is too fast:"
                f" at most {limits.max_frame_rate} are taken"
            )

    def check_whole(self, source: Facts) -> None:
        """Raise `InvalidInput` if this conversion ends well before its source should: data is missing there."""
        if self.duration < _WHOLE * source.duration - _SLACK_SECONDS:
            raise InvalidInput(
                f"this file is cut short: it ends after {self.duration:.1f} of {source.duration:.1f} seconds"
            )


def facts_of(probed: bytes) -> Facts:
    """Read the facts from the output of ffprobe."""
    try:
        found = msgspec.json.decode(probed, type=_Probed)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidInput("this file is damaged: it cannot be read") from error
    pictures = [stream for stream in found.streams if stream.codec_type == "video"]
    films = [stream for stream in pictures if not stream.disposition.attached_pic]
    sounds = [stream for stream in found.streams if stream.codec_type == "audio"]
    film = films[0] if films else _Stream()
    sound = sounds[0] if sounds else None
    return Facts(
        duration=max(map(_number, (found.format.duration, *(stream.duration for stream in found.streams)))),
        bitrate=int(_number(found.format.bit_rate)),
        width=film.width,
        height=film.height,
        frame_rate=_fraction(film.avg_frame_rate) or _fraction(film.r_frame_rate),
        ticks=_fraction(film.r_frame_rate),
        hdr=film.color_transfer in _HDR,
        sound=Sound(sound.codec_name, int(_number(sound.sample_rate)), sound.channels) if sound else None,
        cover=len(pictures) > len(films),
        film_bits=int(_number(film.bit_rate) or _number(found.format.bit_rate)),
        film_plays=film.plays_everywhere,
        sound_bits=int(_number(sound.bit_rate)) if sound else 0,
        sound_plays=sound is not None and sound.plays_everywhere,
    )


def _number(text: str) -> float:
    try:
        return max(0.0, float(text))
    except ValueError:
        return 0.0


def _fraction(text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        return Fraction(0)
