"""Conversion of audio and video uploads for all browsers, and refusal of damaged, oversized or malicious files."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from PIL import Image

from shoal.core.errors import InvalidInput, TooLarge, Unsupported
from shoal.core.model import MediaKind
from shoal.media.clips import Clips, MadeClip, Programs
from shoal.media.limits import ClipLimits
from shoal.media.sniff import is_animated_gif, sniff_clip
from tests.media.clips import PICTURE, SECRET, TONE, clip, film, moving_gif, needed, silent, tone
from tests.tiers import deep


class Made(NamedTuple):
    """A converted upload and its bytes."""

    clip: MadeClip
    data: bytes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.clip, name)


def made(data: bytes, limits: ClipLimits | None = None) -> Made:
    """Convert an upload."""
    needed()
    programs = Programs.found()
    assert programs is not None
    clips = Clips(programs, limits)

    async def fetch(to: Path) -> None:
        await asyncio.to_thread(to.write_bytes, data)

    async def story() -> Made:
        async with clips.made(fetch) as clip:
            return Made(clip, clip.file.read_bytes())

    return asyncio.run(story())


@pytest.mark.parametrize("suffix", [".mp4", ".webm", *deep(".mkv")])
def test_video_upload_is_converted_to_mp4_with_poster_frame(suffix: str) -> None:
    found = made(film(suffix))
    assert (found.kind, found.content_type) == (MediaKind.VIDEO, "video/mp4")
    assert (found.facts.width, found.facts.height, float(found.facts.frame_rate)) == (160, 90, 30)
    assert found.facts.duration == pytest.approx(1, abs=0.2)
    assert found.facts.sound is not None
    assert found.facts.sound.codec == "aac"
    assert found.poster.startswith(b"\x89PNG")


def test_video_conversion_writes_index_first_and_strips_metadata() -> None:
    data = made(film()).data
    assert 0 < data.index(b"moov") < data.index(b"mdat")
    assert b"secret" in film()
    assert b"secret" not in data
    assert b"+40.7" not in data


def test_video_conversion_is_deterministic() -> None:
    assert made(film()).data == made(film()).data


def test_silent_video_and_animated_gif_become_gifv() -> None:
    assert made(silent()).kind is MediaKind.GIFV
    found = made(moving_gif())
    assert (found.kind, found.facts.width, found.facts.height) == (MediaKind.GIFV, 48, 32)


H264 = ("-c:v", "libx264", "-pix_fmt", "yuv420p", "-profile:v", "high", "-c:a", "aac")
"""Encoder options of a phone camera, without rotation."""


@cache
def packets(data: bytes, stream: str, *bare: str) -> tuple[str, ...]:
    """Return the hash of every packet of a stream, after an optional bitstream filter."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        asked = ("ffmpeg", "-v", "error", "-i", file.name, "-map", f"0:{stream}", "-c", "copy", *bare)
        said = subprocess.run([*asked, "-f", "framehash", "-"], check=True, capture_output=True, text=True).stdout
    return tuple(line.rpartition(",")[2].strip() for line in said.splitlines() if not line.startswith("#"))


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", *deep(".mov")])
def test_video_with_widely_supported_streams_is_copied(suffix: str) -> None:
    source = clip(suffix, *PICTURE, *TONE, *SECRET, *H264, "-b:a", "128k")
    found = made(source)
    bare = ("-bsf:v", "filter_units=remove_types=6")
    assert packets(found.data, "v", *bare) == packets(source, "v", *bare)
    assert found.poster.startswith(b"\x89PNG")
    assert 0 < found.data.index(b"moov") < found.data.index(b"mdat")
    for told in (b"secret", b"x264 - core"):
        assert told in source
        assert told not in found.data
    if suffix != ".mkv":  # Matroska does not store the bit rate of audio
        assert packets(found.data, "a") == packets(source, "a")


@pytest.mark.parametrize(
    "how",
    [
        ("-pix_fmt", "yuv444p", "-c:v", "libx264"),
        (*H264, "-vf", "scale=1400:800", "-t", "0.3"),
        (*H264, "-vf", "setsar=2"),
        (*H264, "-r", "90"),
        (*H264, "-level", "5.1"),
        ("-c:v", "mpeg4", "-c:a", "aac"),
    ],
    ids=["4:4:4", "large", "wide pixels", "fast", "high level", "mpeg4"],
)
def test_video_with_unsupported_format_is_reencoded(how: tuple[str, ...]) -> None:
    source = clip(".mp4", *PICTURE, *TONE, *how)
    found = made(source)
    assert packets(found.data, "v") != packets(source, "v")
    assert found.facts.film_plays
    assert found.facts.sound_plays


def test_video_with_rotation_metadata_is_made_upright() -> None:
    with tempfile.TemporaryDirectory() as folder:
        flat = Path(folder) / "flat.mp4"
        flat.write_bytes(clip(".mp4", *PICTURE, *H264))
        turned = clip(".mp4", "-i", str(flat), "-c", "copy", "-metadata:s:v", "rotate=90")
    assert (made(turned).facts.width, made(turned).facts.height) == (90, 160)


@pytest.mark.parametrize("suffix", [".mp3", ".ogg", *deep(".wav", ".flac", ".m4a", ".aac")])
def test_audio_upload_is_converted_to_mp3(suffix: str) -> None:
    found = made(tone(suffix))
    assert (found.kind, found.content_type, found.poster) == (MediaKind.AUDIO, "audio/mpeg", b"")
    assert found.facts.sound is not None
    assert found.facts.sound.codec == "mp3"
    assert b"secret" not in found.data


def test_audio_cover_image_becomes_poster_of_the_audio() -> None:
    cover = ("-map", "0:a", "-map", "1:v", "-frames:v", "1", "-c:v", "png", "-disposition:v", "attached_pic")
    found = made(clip(".mp3", *TONE, *PICTURE, *cover, "-id3v2_version", "3"))
    assert found.kind is MediaKind.AUDIO
    assert found.poster.startswith(b"\x89PNG")


def test_video_of_odd_size_and_high_frame_rate_is_scaled_to_even_size_and_60_fps() -> None:
    fast = clip(".mp4", "-f", "lavfi", "-i", "testsrc=size=161x99:rate=90:duration=0.5", "-pix_fmt", "yuv444p")
    facts = made(fast).facts
    assert (facts.width, facts.height, float(facts.frame_rate)) == (160, 98, 60)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"max_duration": 0.5}, "too long"),
        ({"max_pixels": 160 * 89}, "pixels is too large: the maximum is 0.0142 million"),
        ({"max_frame_rate": 29}, "too fast: the maximum is 29"),
        ({"seconds": 0.05}, "took longer than"),
        ({"max_made": 2_000}, "more than 0.001907 MiB"),
        ({"memory": 40 * 1024 * 1024}, "more than 40 MiB of memory"),
    ],
)
def test_media_conversion_over_resource_limit_is_refused(limits: dict[str, float], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        made(film(), msgspec.convert(limits, ClipLimits))


def test_media_conversion_over_time_limit_is_killed() -> None:
    before = running()
    with pytest.raises(InvalidInput):
        made(film(), ClipLimits(seconds=0.3))
    until = time.monotonic() + 60
    while running() - before and time.monotonic() < until:
        time.sleep(0.05)
    assert not running() - before


def running() -> set[str]:
    """Return the ffmpeg processes started by this process."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = entry.read_text().partition("(")[2].partition(")")
        except OSError:
            continue
        if name in {"ffmpeg", "ffprobe"} and rest.split()[1] == str(os.getpid()):
            found.add(entry.parent.name)
    return found


@pytest.mark.parametrize("suffix", [".mp4", ".ogg", *deep(".webm", ".mp3", ".wav")])
def test_truncated_media_upload_is_converted_or_refused(suffix: str) -> None:
    whole = film(suffix) if suffix in {".mp4", ".webm"} else tone(suffix)
    for part in (64, len(whole) // 3):
        try:
            found = made(whole[:part])
        except InvalidInput:
            continue
        assert found.data


def test_media_upload_of_noise_after_valid_header_is_refused() -> None:
    noise = os.urandom(20_000)
    for head in (b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom", b"\x1aE\xdf\xa3", b"OggS", b"fLaC"):
        with pytest.raises(InvalidInput):
            made(head + noise)


def test_video_header_with_huge_frame_is_refused_before_decoding() -> None:
    huge = clip(".mkv", "-f", "lavfi", "-i", "color=size=8192x8192:rate=1:duration=1", "-c:v", "png")
    began = time.monotonic()
    with pytest.raises(TooLarge):
        made(huge)
    assert time.monotonic() - began < 60


def test_media_playlist_upload_opens_no_other_files() -> None:
    listing = b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n"
    assert sniff_clip(listing) is None
    with pytest.raises(InvalidInput):
        made(b"ID3" + listing)


def test_gif_with_one_frame_is_not_animated() -> None:
    still = clip(".gif", "-f", "lavfi", "-i", "testsrc=size=48x32:rate=1:duration=1")
    assert is_animated_gif(moving_gif())
    assert not is_animated_gif(still)
    assert not is_animated_gif(moving_gif()[:40])
    assert not is_animated_gif(b"GIF89a")


def test_image_upload_is_not_detected_as_video_or_audio() -> None:
    for head in (
        b"\xff\xd8\xff\xe0",
        b"\x89PNG\r\n\x1a\n",
        b"RIFF\0\0\0\0WEBP",
        b"\0\0\0\x1cftypavif",
        b"\0\0\0\x1cftypheic",
        b"",
    ):
        assert sniff_clip(head) is None


@pytest.mark.parametrize(
    "codec", ["magicyuv", "indeo3", *deep("snow", "cinepak", "ffv1", "huffyuv", "rawvideo", "msmpeg4v3")]
)
def test_video_codec_outside_the_allow_list_is_refused_by_name(codec: str) -> None:
    if codec == "indeo3":
        # FFmpeg has no encoder for it, so the codec name in the header of another video is replaced.
        source = clip(".mkv", *PICTURE, "-c:v", "mjpeg").replace(b"V_MJPEG", b"V_MS/VF")
    else:
        picture = ("-f", "lavfi", "-i", "testsrc=size=160x96:rate=10:duration=1")
        source = clip(".mkv", *picture, "-strict", "-2", "-c:v", codec)
    with pytest.raises(InvalidInput) as raised:
        made(source)
    if codec != "indeo3":
        assert isinstance(raised.value, Unsupported)
        assert codec.removesuffix("v3") in str(raised.value)


@pytest.mark.parametrize("codec", ["wmav2", *deep("adpcm_ms", "truehd")])
def test_audio_codec_outside_the_allow_list_is_refused_by_name(codec: str) -> None:
    with pytest.raises(Unsupported, match=codec):
        made(clip(".mkv", *TONE, "-strict", "-2", "-c:a", codec))


@pytest.mark.parametrize(
    ("suffix", "how"),
    [
        (".mp4", ("-c:v", "libx265", "-c:a", "aac")),
        pytest.param(".mp4", ("-c:v", "libaom-av1", "-cpu-used", "8", "-c:a", "libopus"), marks=pytest.mark.deep),
        (".mov", ("-c:v", "prores", "-c:a", "pcm_s16be")),
        pytest.param(".mov", ("-c:v", "mjpeg", "-c:a", "alac"), marks=pytest.mark.deep),
        (".mp4", ("-c:v", "mpeg4", "-c:a", "ac3")),
        pytest.param(".webm", ("-c:v", "libvpx", "-c:a", "libvorbis"), marks=pytest.mark.deep),
        (".webm", ("-c:v", "libvpx-vp9", "-c:a", "libopus")),
        (".mkv", ("-c:v", "libx264", "-c:a", "flac")),
        (".wav", ("-vn", "-c:a", "pcm_s24le")),
        pytest.param(".ogg", ("-vn", "-c:a", "libopus"), marks=pytest.mark.deep),
    ],
    ids=lambda value: value if isinstance(value, str) else value[1] + value[-1],
)
def test_media_upload_in_each_accepted_codec_is_converted(suffix: str, how: tuple[str, ...]) -> None:
    assert made(clip(suffix, *PICTURE, *TONE, *how)).data


def test_video_with_subtitles_is_converted(tmp_path: Path) -> None:
    words = tmp_path / "words.srt"
    words.write_text("1\n00:00:00,000 --> 00:00:01,000\nLow tide\n")
    for suffix, codec in ((".mp4", "mov_text"), (".mkv", "srt"), (".mkv", "ass"), (".webm", "webvtt")):
        assert made(clip(suffix, *PICTURE, "-i", str(words), "-c:s", codec)).data


def gif(*milliseconds: int, size: tuple[int, int] = (80, 40)) -> bytes:
    """Return a GIF with a frame for each of these times."""
    frames = [Image.new("P", size, shade) for shade in range(1, len(milliseconds) + 1)]
    for at, frame in enumerate(frames):
        frame.putpalette([at * 40, 90, 200] * 256)
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], duration=list(milliseconds), loop=0)
    return file.getvalue()


@pytest.mark.parametrize(
    ("milliseconds", "seconds"),
    [((1_000, 1_000), 2.0), ((100, 100, 100, 100, 3_000), 3.4), ((50, 150, 30, 970), 1.2), ((20, 20, 2_000), 2.04)],
)
def test_gif_conversion_keeps_duration_including_last_frame(milliseconds: tuple[int, ...], seconds: float) -> None:
    found = made(gif(*milliseconds))
    assert found.kind is MediaKind.GIFV
    assert found.facts.duration == pytest.approx(seconds, abs=0.05)


@pytest.mark.parametrize("transfer", ["smpte2084", *deep("arib-std-b67")])
def test_hdr_video_is_tone_mapped_to_sdr_with_bright_white(transfer: str) -> None:
    white = ("-f", "lavfi", "-i", "color=white:size=160x96:rate=10:duration=0.5")
    tags = ("-color_primaries", "bt2020", "-color_trc", transfer, "-colorspace", "bt2020nc", "-color_range", "tv")
    hdr = clip(".mp4", *white, "-pix_fmt", "yuv420p10le", "-c:v", "libx265", "-x265-params", "log-level=none", *tags)
    found = made(hdr)
    assert not found.facts.hdr
    with Image.open(io.BytesIO(found.poster)) as shown:
        assert min(low for low, _ in shown.convert("RGB").getextrema()) > 235  # type: ignore[misc]


def test_hdr_8_bit_h264_video_is_reencoded_and_sdr_is_copied() -> None:
    sdr = clip(".mp4", *PICTURE, *H264)
    assert packets(made(sdr).data, "v", "-bsf:v", "filter_units=remove_types=6") == packets(
        sdr, "v", "-bsf:v", "filter_units=remove_types=6"
    )
    tagged = clip(
        ".mp4", *PICTURE, *H264, "-color_trc", "arib-std-b67", "-color_primaries", "bt2020", "-colorspace", "bt2020nc"
    )
    assert not made(tagged).facts.hdr


@pytest.mark.parametrize("suffix", [".mp4", *deep(".mkv")])
def test_incomplete_video_is_refused_with_both_durations(suffix: str) -> None:
    fast = ("-movflags", "+faststart") if suffix == ".mp4" else ()
    whole = clip(suffix, "-f", "lavfi", "-i", "testsrc=size=160x90:rate=30:duration=4", *H264[:4], "-g", "10", *fast)
    with pytest.raises(InvalidInput, match=r"incomplete: it ends after \d\.\d of 4\.0 seconds"):
        made(whole[: len(whole) // 3])
    assert made(whole).facts.duration == pytest.approx(4, abs=0.2)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (lambda: gif(100, 100, size=(1, 1)), "1 x 1 pixels is too small: scaled to fit into"),
        (lambda: gif(100, 100, size=(3_000, 1)), "3000 x 1 pixels is too small"),
        (
            lambda: gif(100, 100, size=(4_000, 2_100)),
            "4000 x 2100 pixels is too large: the maximum is 8.29 million pixels",
        ),
        (
            lambda: clip(".mp4", "-f", "lavfi", "-i", "testsrc=size=160x90:rate=240:duration=1"),
            "240 frames per second is too fast: the maximum is 120",
        ),
    ],
)
def test_media_upload_refusal_states_the_value_and_the_limit(source: Callable[[], bytes], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        made(source())


@pytest.mark.parametrize(
    ("brand", "taken"),
    [
        *((brand, True) for brand in ("isom", "mp42", "M4A ", "qt  ", "3gp5", "3g2a", "XAVC", "avc1", "iso6")),
        *((brand, False) for brand in ("heis", "heim", "miaf", "jxl ", "crx ", "jp2 ", "mif1", "hevx", "cr3 ", "....")),
    ],
)
def test_iso_media_file_is_detected_as_video_by_its_major_brand_alone(brand: str, taken: bool) -> None:
    head = b"\0\0\0\x18ftyp" + brand.encode() + b"\0\0\0\0isommp42"
    assert (sniff_clip(head) is not None) is taken
