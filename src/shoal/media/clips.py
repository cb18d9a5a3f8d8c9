"""Conversion of a video or sound into a form that every browser plays (H.264 and AAC in MP4, or MP3), with a poster picture.

A stream that every browser plays is copied without encoding. Metadata, chapters and subtitles are dropped. Converting a
file again gives identical bytes, so a second run is harmless.

ffprobe's report is checked against the limits before anything is decoded. ffmpeg and ffprobe run confined, without a
network, and are killed after a time limit. Each may use only the demuxer of the detected type, the decoders of that
type, and files:
FFmpeg contains hundreds of other decoders, most of them for formats that no browser or phone writes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from fractions import Fraction
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple, Self

import msgspec

from shoal.core.errors import InvalidInput, TooLarge, Unavailable, Unsupported
from shoal.core.model import MediaKind, Sound
from shoal.media import sniff
from shoal.media.limits import ClipLimits, mebibytes
from shoal.media.sniff import ANIMATION, HEAD, Clip, is_animated_gif, is_gif, sniff_clip

_PLAIN_PROFILES = frozenset({"Constrained Baseline", "Baseline", "Main", "High"})
_WHOLE, _SLACK_SECONDS = 0.9, 0.5
"""A conversion may be shorter than its source by a tenth and half a second, because containers round durations and
encoders drop a few frames.
"""
_LEAST_EDGE = 2
"""Minimum width and height in pixels. H.264 in 4:2:0 stores colors in blocks of two by two."""
_HDR = frozenset({"smpte2084", "arib-std-b67"})
"""Transfer characteristics of HDR videos: PQ and HLG (ITU-R BT.2100)."""
_HIGHEST_LEVEL = 42
"""H.264 level 4.2, times ten. Ten-year-old phones can decode it."""


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
        """Whether every browser plays this stream: progressive, upright H.264 in 8 bits of 4:2:0, or AAC-LC in stereo."""
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
    """Properties of a clip (video or sound). Without video, `width` is 0. `cover` means that a sound has a cover picture."""

    duration: float
    """In seconds; 0 if the file does not specify it."""
    bitrate: int
    width: int = 0
    height: int = 0
    frame_rate: Fraction = Fraction(0)
    sound: Sound | None = None
    cover: bool = False
    film_bits: int = 0
    """Bits per second of the video stream. If the file does not specify them, bits per second of the whole file."""
    ticks: Fraction = Fraction(0)
    """The lowest constant frame rate at which the time of each frame of the video stream is exact."""
    hdr: bool = False
    film_plays: bool = False
    """Whether every browser plays the video stream without encoding."""
    sound_bits: int = 0
    sound_plays: bool = False

    def check(self, limits: ClipLimits) -> None:
        """Raise `InvalidInput` or `TooLarge` for a clip outside the limits."""
        if not self.width and self.sound is None:
            raise InvalidInput("this file has neither video nor audio")
        if self.duration > limits.max_duration:
            raise TooLarge(
                f"a clip of {self.duration:.0f} seconds is too long: the maximum is {limits.max_duration:g} seconds"
            )
        if self.width * self.height > limits.max_pixels:
            most = f"{limits.max_pixels / 1e6:.3g}"
            raise TooLarge(
                f"a video of {self.width} x {self.height} pixels is too large: the maximum is {most} million pixels"
            )
        if (
            self.width
            and min(self.width, self.height) * min(1, limits.edge / max(self.width, self.height)) < _LEAST_EDGE
        ):
            raise InvalidInput(
                f"a video of {self.width} x {self.height} pixels is too small: scaled to fit into a square of"
                f" {limits.edge} pixels, it must have at least {_LEAST_EDGE} pixels in each direction"
            )
        if self.frame_rate > limits.max_frame_rate:
            raise TooLarge(
                f"a video of {float(self.frame_rate):.0f} frames per second is too fast:"
                f" the maximum is {limits.max_frame_rate}"
            )

    def check_whole(self, source: Facts) -> None:
        """Raise `InvalidInput` if the source is truncated, so that its conversion is much shorter than its stated duration."""
        if self.duration < _WHOLE * source.duration - _SLACK_SECONDS:
            raise InvalidInput(
                f"this file is incomplete: it ends after {self.duration:.1f} of {source.duration:.1f} seconds"
            )


def facts_of(probed: bytes) -> Facts:
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


_PASSED_ON: Final = frozenset({"PATH", "PYTHONHOME", "PYTHONPATH", "LD_LIBRARY_PATH"})
"""Environment variables that child programs get. Other variables may contain secrets."""
_MAX_OUTPUT_BYTES: Final = 1 << 20
"""Maximum bytes that a program may print."""
_NOT_LISTED: Final = re.compile(rb"Codec \((\w+)\) not on whitelist")
_FILE_TOO_LARGE: Final = b"File too large"
_NO_MEMORY: Final = re.compile(rb"annot allocate memory|failed to map segment|malloc of size")
_OUT_OF_TIME: Final = (-signal.SIGXCPU, -signal.SIGKILL)
_log = logging.getLogger(__name__)


_filters: dict[str, frozenset[str]] = {}
"""Names of the filters of an ffmpeg program, by the path of the program."""


class Programs(NamedTuple):
    ffmpeg: str
    ffprobe: str

    @classmethod
    def found(cls) -> Self | None:
        ffmpeg, ffprobe = shutil.which("ffmpeg"), shutil.which("ffprobe")
        return cls(ffmpeg, ffprobe) if ffmpeg and ffprobe else None

    async def has_filters(self, *names: str) -> bool:
        if self.ffmpeg not in _filters:
            process = await asyncio.create_subprocess_exec(
                *(self.ffmpeg, "-hide_banner", "-filters"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=_environment(),
            )
            output, _ = await process.communicate()
            _filters[self.ffmpeg] = frozenset(
                line.split()[1].decode() for line in output.splitlines() if len(line.split()) > 1
            )
        return _filters[self.ffmpeg].issuperset(names)

    async def probe(self, file: str, clip: Clip, limits: ClipLimits) -> bytes:
        """Return ffprobe's description of a file, as JSON. Raises `InvalidInput` if the file cannot be read."""
        asked = ("-v", "error", "-print_format", "json", "-show_format", "-show_streams")
        return await _run((self.ffprobe, *asked, *_reading(clip), f"file:{file}"), limits)

    async def convert(self, file: str, clip: Clip, limits: ClipLimits, *arguments: str) -> None:
        """Run ffmpeg on a file with additional arguments. Raises `InvalidInput` if it fails."""
        quiet = ("-nostdin", "-hide_banner", "-v", "error", "-threads", str(limits.threads))
        reading = (*_reading(clip), "-i", f"file:{file}")
        await _run((self.ffmpeg, *quiet, *reading, "-threads", str(limits.threads), *arguments), limits)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in _PASSED_ON}


def _reading(clip: Clip) -> tuple[str, ...]:
    return (
        *("-protocol_whitelist", "file", "-format_whitelist", clip.demuxer),
        *("-codec_whitelist", ",".join(clip.decoders), "-f", clip.demuxer),
    )


async def _run(command: Sequence[str], limits: ClipLimits) -> bytes:
    """Run a program with limits, and return its output. Raises `InvalidInput` if it fails."""
    confined = (ceil(limits.seconds * limits.threads), limits.memory, limits.max_made)
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "shoal.media.confined", *map(str, confined), *command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=_environment(),
            start_new_session=True,
        )
    except OSError as error:
        raise Unavailable("video and audio cannot be processed right now") from error
    try:
        output, complaint = await process.communicate()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    # If only the end of the output cannot be written, ffmpeg reports the error but exits with 0.
    if process.returncode or len(output) > _MAX_OUTPUT_BYTES or _FILE_TOO_LARGE in complaint:
        _log.info(
            "%s exited with status %s: %s", command[0], process.returncode, complaint[-500:].decode("utf-8", "replace")
        )
        raise _reason(process.returncode or 0, complaint, limits)
    return output


def _reason(status: int, complaint: bytes, limits: ClipLimits) -> InvalidInput:
    """Return the error for a failed program, from its exit status and its error output."""
    if refused := _NOT_LISTED.search(complaint):
        return Unsupported(f"the codec {refused[1].decode()} is not accepted: use H.264 and AAC")
    if _FILE_TOO_LARGE in complaint:
        return TooLarge(f"the converted file would have more than {mebibytes(limits.max_made)}")
    if _NO_MEMORY.search(complaint):
        return InvalidInput(f"converting this file takes more than {mebibytes(limits.memory)} of memory")
    if status in _OUT_OF_TIME or b"received signal 24" in complaint:
        return InvalidInput(f"converting this clip took longer than {limits.seconds:g} seconds")
    return InvalidInput("this file is damaged: it cannot be read")


MP4: Final = "video/mp4"
MP3: Final = "audio/mpeg"

_SAME: Final = ("-fflags", "+bitexact", "-flags:v", "+bitexact", "-flags:a", "+bitexact")
_BARE: Final = ("-map_metadata", "-1", "-map_chapters", "-1", "-sn", "-dn")

# Remove the supplemental messages (H.264, annex D): cameras write locations and times into them.
_FILM_AS_IT_IS: Final = ("-c:v", "copy", "-bsf:v", "filter_units=remove_types=6")
_SDR: Final = (
    "zscale=transfer=linear:npl=100,format=gbrpf32le,zscale=primaries=bt709,tonemap=hable:desat=0,"
    "zscale=transfer=bt709:matrix=bt709:range=limited,"
)
"""Filters that convert HDR to SDR: linear light, BT.709 primaries, then tone mapping with the Hable curve."""
_MOST_FRAMES: Final = 60
_TIMES_BITS: Final = 2
"""A stream is copied only if it has at most this many times the bits that encoding it would produce."""


class MadeClip(msgspec.Struct, frozen=True, kw_only=True):
    kind: MediaKind
    content_type: str
    file: Path
    facts: Facts
    poster: bytes


class Clips:
    def __init__(self, programs: Programs, limits: ClipLimits | None = None) -> None:
        self._programs = programs
        self.limits = limits or ClipLimits()

    def kind_of(self, data: bytes) -> Clip | None:
        """Return the type of the clip that begins with these bytes; None for pictures and other files."""
        return ANIMATION if is_animated_gif(data) else sniff_clip(data[:HEAD])

    @asynccontextmanager
    async def made(self, fetch: Callable[[Path], Awaitable[None]]) -> AsyncIterator[MadeClip]:
        """Convert an upload, which `fetch` writes to a path. The result is deleted at the end of the block.

        Neither file is ever in memory as a whole. Raises `InvalidInput` for an upload that cannot be converted within
        the time limit.
        """
        with TemporaryDirectory(prefix="shoal-clip-") as folder:
            source = Path(folder) / "source"
            await fetch(source)
            yield await self._made_in_time(Path(folder), source)

    async def _made_in_time(self, folder: Path, source: Path) -> MadeClip:
        clip = await asyncio.to_thread(_kind_of_file, source)
        if clip is None:
            raise InvalidInput("this file is neither video nor audio")
        try:
            async with asyncio.timeout(self.limits.seconds):
                facts = await self._checked(source, clip)
                make = self._film if facts.width else self._sound
                return await make(folder, source, clip, facts)
        except TimeoutError as error:
            raise InvalidInput(f"converting this clip took longer than {self.limits.seconds:g} seconds") from error

    async def _film(self, folder: Path, source: Path, clip: Clip, facts: Facts) -> MadeClip:
        to, poster = folder / "made.mp4", folder / "poster.png"
        as_film = self._as_film(facts, animated=clip == ANIMATION, mapped=await self._maps_tones())
        await self._programs.convert(str(source), clip, self.limits, *as_film, f"file:{to}")
        made = await self._checked(to, sniff.MP4)
        made.check_whole(facts)
        await self._programs.convert(str(to), sniff.MP4, self.limits, "-frames:v", "1", f"file:{poster}")
        return MadeClip(
            kind=MediaKind.VIDEO if made.sound else MediaKind.GIFV,
            content_type=MP4,
            file=to,
            facts=made,
            poster=await asyncio.to_thread(poster.read_bytes),
        )

    async def _sound(self, folder: Path, source: Path, clip: Clip, facts: Facts) -> MadeClip:
        to, poster = folder / "made.mp3", folder / "poster.png"
        await self._programs.convert(str(source), clip, self.limits, *self._as_sound(facts), f"file:{to}")
        made = await self._checked(to, sniff.MP3)
        made.check_whole(facts)
        if facts.cover:
            cover = ("-map", "0:v:0", "-frames:v", "1", f"file:{poster}")
            await self._programs.convert(str(source), clip, self.limits, *cover)
        return MadeClip(
            kind=MediaKind.AUDIO,
            content_type=MP3,
            file=to,
            facts=made,
            poster=await asyncio.to_thread(poster.read_bytes) if facts.cover else b"",
        )

    async def _checked(self, file: Path, clip: Clip) -> Facts:
        facts = facts_of(await self._programs.probe(str(file), clip, self.limits))
        facts.check(self.limits)
        return facts

    async def _maps_tones(self) -> bool:
        return await self._programs.has_filters("zscale", "tonemap")

    def _as_film(self, facts: Facts, *, animated: bool, mapped: bool) -> tuple[str, ...]:
        # If the duration of a file is unknown, cut the file a second after the limit. The result is then rejected as
        # too long.
        longest = f"{self.limits.max_duration + 1:g}"
        return (
            *("-map", "0:v:0", "-map", "0:a:0?", *_BARE, *_SAME, "-t", longest),
            *(
                _FILM_AS_IT_IS
                if self._film_fits(facts)
                else self._transcoded_film(facts, animated=animated, mapped=mapped)
            ),
            *(("-c:a", "copy") if self._sound_fits(facts) else self._transcoded_sound()),
            *("-movflags", "+faststart", "-f", "mp4"),
        )

    def _film_fits(self, facts: Facts) -> bool:
        return (
            facts.film_plays
            and max(facts.width, facts.height) <= self.limits.edge
            and facts.frame_rate <= _MOST_FRAMES
            and facts.film_bits <= _TIMES_BITS * self.limits.bits
        )

    def _sound_fits(self, facts: Facts) -> bool:
        return facts.sound_plays and 0 < facts.sound_bits <= _TIMES_BITS * self.limits.sound_bits

    def _transcoded_film(self, facts: Facts, *, animated: bool, mapped: bool) -> tuple[str, ...]:
        limits = self.limits
        bits = min(limits.bits, int(limits.max_made * 8 * 0.8 / (facts.duration or limits.max_duration + 1)))
        fit = f"scale='min({limits.edge},iw)':'min({limits.edge},ih)':force_original_aspect_ratio=decrease"
        rate = ("-fpsmax", str(_MOST_FRAMES)) if facts.frame_rate > _MOST_FRAMES else ()
        # MP4 stores only the start of each frame, so the duration of an animation's last frame would be lost. At a
        # constant frame rate, the last frame is repeated instead.
        ticks = f"fps={min(facts.ticks or _MOST_FRAMES, _MOST_FRAMES)}," if animated else ""
        tones = _SDR if facts.hdr and mapped else ""
        return (
            *("-vf", f"{ticks}{tones}{fit}:force_divisible_by=2,setsar=1,format=yuv420p", *rate),
            *("-c:v", "libx264", "-preset", "veryfast", "-crf", "23", "-profile:v", "main"),
            *("-maxrate", str(bits), "-bufsize", str(2 * bits), "-g", "250"),
        )

    def _transcoded_sound(self) -> tuple[str, ...]:
        return ("-c:a", "aac", "-b:a", str(self.limits.sound_bits), "-ac", "2")

    def _as_sound(self, facts: Facts) -> tuple[str, ...]:
        longest = f"{self.limits.max_duration + 1:g}"
        is_mp3 = facts.sound is not None and facts.sound.codec == "mp3"
        how = ("copy",) if is_mp3 else ("libmp3lame", "-b:a", str(self.limits.sound_bits), "-ac", "2")
        plain = ("-id3v2_version", "0", "-write_id3v1", "0", "-f", "mp3")
        return ("-map", "0:a:0", "-vn", *_BARE, *_SAME, "-t", longest, "-c:a", *how, *plain)


def _kind_of_file(file: Path) -> Clip | None:
    with file.open("rb") as opened:
        head = opened.read(HEAD)
        # To see whether a GIF has a second frame, read it completely. It is small, because it was accepted as a picture.
        return ANIMATION if is_gif(head) and is_animated_gif(head + opened.read()) else sniff_clip(head)
