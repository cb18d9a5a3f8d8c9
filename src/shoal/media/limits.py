"""Limits on the cost of an upload, and the sizes that are produced.

The limits are one frozen value, which is read once from the settings and passed to each child as JSON. `in_words`
describes them for a member whose upload is rejected.
"""

from __future__ import annotations

import msgspec

from shoal.core.errors import TooLarge

MIB = 1024 * 1024


class UploadLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on a picture: the cost of decoding it, and the sizes that are produced."""

    max_bytes: int = 16 * MIB
    max_pixels: int = 40_000_000
    """Maximum width times height. The header's values are checked before decoding."""
    seconds: float = 20.0
    """Maximum seconds to decode a picture and produce all of its sizes. It limits both real time and processor time."""
    memory: int = 1024 * MIB
    """Maximum bytes of address space of the decoding child."""
    feed_edge: int = 2560
    """Pixels of the longer edge of the feed size. Smaller pictures are not enlarged."""
    feed_sizes: tuple[int, ...] = (1280,)
    """Smaller sizes of the feed size, largest first: pixels of the longer edge."""
    keep_originals: bool = False
    """Whether a picture that is larger than the feed size is also stored in full resolution."""
    animated_edge: int = 1280
    """Maximum pixels of the longer edge of an animation."""
    animated_pixels: int = 60_000_000
    """Maximum pixels of all frames of an animation together. A larger animation is scaled down."""
    preview_edge: int = 640
    """Pixels of the longer edge of the preview size."""
    preview_sizes: tuple[int, ...] = (320, 160)
    """Smaller sizes of the preview size, largest first: pixels of the longer edge."""
    quality: int = 82
    """Quality of JPEG and WebP, 1 to 95."""

    def keeping_originals(self) -> UploadLimits:
        """Return these limits with twice the memory and time, which pictures in full resolution need."""
        return msgspec.structs.replace(self, keep_originals=True, memory=2 * self.memory, seconds=2 * self.seconds)

    @property
    def in_words(self) -> str:
        return (
            f"at most {mebibytes(self.max_bytes)}, {self.max_pixels / 1e6:g} million pixels, "
            f"{self.seconds:g} seconds and {mebibytes(self.memory)} of memory"
        )

    def check_size(self, size: int) -> None:
        if size > self.max_bytes:
            raise TooLarge(f"a picture of {mebibytes(size)} is too large: the maximum is {mebibytes(self.max_bytes)}")

    def check_pixels(self, width: int, height: int) -> None:
        if width * height > self.max_pixels:
            most = f"{self.max_pixels / 1e6:g}"
            raise TooLarge(f"a picture of {width} x {height} pixels is too large: the maximum is {most} million pixels")


class ClipLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on a video or sound: the cost of the conversion, and the size of the result."""

    max_bytes: int = 40 * MIB
    max_duration: float = 600.0
    max_pixels: int = 3840 * 2160
    """Maximum width times height of a frame."""
    max_frame_rate: int = 120
    seconds: float = 300.0
    """Maximum real time of a conversion in seconds. A step of it may use as many processor seconds, times `threads`."""
    threads: int = 2
    memory: int = 2048 * MIB
    """Maximum bytes of address space of the converting program."""
    edge: int = 1280
    """Maximum pixels of the longer edge of the result. A smaller video is not enlarged."""
    bits: int = 2_500_000
    """Bits per second of the converted video stream."""
    sound_bits: int = 128_000
    max_made: int = 100 * MIB

    def check_size(self, size: int) -> None:
        if size > self.max_bytes:
            raise TooLarge(f"a clip of {mebibytes(size)} is too large: the maximum is {mebibytes(self.max_bytes)}")


def mebibytes(size: int) -> str:
    """Format a number of bytes in MiB, such as `16 MiB` or `0.5 MiB`."""
    return f"{size / MIB:.4g} MiB"
