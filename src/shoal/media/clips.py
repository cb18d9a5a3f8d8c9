"""Conversion of a video or sound into a form that every browser plays, within limits: H.264 and AAC in MP4, or MP3; and
a picture for it.

A stream that every browser plays already is copied, not encoded again. Metadata, chapters and subtitles are left out.
Equal files give equal bytes, so a second run does no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from shoal.core.errors import InvalidInput
from shoal.core.model import MediaKind
from shoal.media import sniff
from shoal.media.facts import Facts, facts_of
from shoal.media.limits import ClipLimits
from shoal.media.programs import Programs
from shoal.media.sniff import ANIMATION, HEAD, Clip, is_animated_gif, is_gif, sniff_clip

MP4: Final = "video/mp4"
MP3: Final = "audio/mpeg"

_SAME: Final = ("-fflags", "+bitexact", "-flags:v", "+bitexact", "-flags:a", "+bitexact")
_BARE: Final = ("-map_metadata", "-1", "-map_chapters", "-1", "-sn", "-dn")

# Without supplemental messages (H.264, annex D): cameras write places and times into them.
_FILM_AS_IT_IS: Final = ("-c:v", "copy", "-bsf:v", "filter_units=remove_types=6")
_SDR: Final = (
    "zscale=transfer=linear:npl=100,format=gbrpf32le,zscale=primaries=bt709,tonemap=hable:desat=0,"
    "zscale=transfer=bt709:matrix=bt709:range=limited,"
)
"""Filters that map HDR to SDR: to linear light, BT.709 primaries, and the Hable curve."""
_MOST_FRAMES: Final = 60
"""Maximum frames per second of the result."""
_TIMES_BITS: Final = 2
"""A stream is copied when it has at most this many times the bits that our encoding would have."""


class MadeClip(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a conversion, in a temporary file, with its picture, which may be empty."""

    kind: MediaKind
    content_type: str
    file: Path
    facts: Facts
    poster: bytes


class Clips:
    """Makes clips with the programs of this machine."""

    def __init__(self, programs: Programs, limits: ClipLimits | None = None) -> None:
        self._programs = programs
        self.limits = limits or ClipLimits()

    def kind_of(self, data: bytes) -> Clip | None:
        """Return the kind of clip that an upload begins like; None for a picture, and for anything else."""
        return ANIMATION if is_animated_gif(data) else sniff_clip(data[:HEAD])

    @asynccontextmanager
    async def made(self, fetch: Callable[[Path], Awaitable[None]]) -> AsyncIterator[MadeClip]:
        """Convert an upload. The result lasts until the block ends; `fetch` writes the upload to a path.

        Neither of the two is ever in memory as a whole. Raises `InvalidInput` for an upload that cannot be converted;
        the work ends within the limits' seconds.
        """
        with TemporaryDirectory(prefix="shoal-clip-") as folder:
            source = Path(folder) / "source"
            await fetch(source)
            yield await self._made_in_time(Path(folder), source)

    async def _made_in_time(self, folder: Path, source: Path) -> MadeClip:
        clip = await asyncio.to_thread(_kind_of_file, source)
        if clip is None:
            raise InvalidInput("this file is neither a video nor a sound")
        try:
            async with asyncio.timeout(self.limits.seconds):
                facts = await self._checked(source, clip)
                make = self._film if facts.width else self._sound
                return await make(folder, source, clip, facts)
        except TimeoutError as error:
            raise InvalidInput(f"this clip took longer than {self.limits.seconds:g} seconds of work") from error

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
        # What does not say how long it plays is cut off a second past what is taken, and refused then.
        longest = f"{self.limits.max_duration + 1:g}"
        return (
            *("-map", "0:v:0", "-map", "0:a:0?", *_BARE, *_SAME, "-t", longest),
            *(_FILM_AS_IT_IS if self._film_fits(facts) else self._film_anew(facts, animated=animated, mapped=mapped)),
            *(("-c:a", "copy") if self._sound_fits(facts) else self._sound_anew()),
            *("-movflags", "+faststart", "-f", "mp4"),
        )

    def _film_fits(self, facts: Facts) -> bool:
        """Return whether the film can be copied: encoding it again would only take time."""
        return (
            facts.film_plays
            and max(facts.width, facts.height) <= self.limits.edge
            and facts.frame_rate <= _MOST_FRAMES
            and facts.film_bits <= _TIMES_BITS * self.limits.bits
        )

    def _sound_fits(self, facts: Facts) -> bool:
        return facts.sound_plays and 0 < facts.sound_bits <= _TIMES_BITS * self.limits.sound_bits

    def _film_anew(self, facts: Facts, *, animated: bool, mapped: bool) -> tuple[str, ...]:
        limits = self.limits
        bits = min(limits.bits, int(limits.max_made * 8 * 0.8 / (facts.duration or limits.max_duration + 1)))
        fit = f"scale='min({limits.edge},iw)':'min({limits.edge},ih)':force_original_aspect_ratio=decrease"
        rate = ("-fpsmax", str(_MOST_FRAMES)) if facts.frame_rate > _MOST_FRAMES else ()
        # MP4 stores when a frame begins. A constant rate repeats the last frame for as long as an animation shows it.
        ticks = f"fps={min(facts.ticks or _MOST_FRAMES, _MOST_FRAMES)}," if animated else ""
        tones = _SDR if facts.hdr and mapped else ""
        return (
            *("-vf", f"{ticks}{tones}{fit}:force_divisible_by=2,setsar=1,format=yuv420p", *rate),
            *("-c:v", "libx264", "-preset", "veryfast", "-crf", "23", "-profile:v", "main"),
            *("-maxrate", str(bits), "-bufsize", str(2 * bits), "-g", "250"),
        )

    def _sound_anew(self) -> tuple[str, ...]:
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
        # Whether a GIF moves is seen behind its first frame. It is small: it was taken as a picture.
        return ANIMATION if is_gif(head) and is_animated_gif(head + opened.read()) else sniff_clip(head)
