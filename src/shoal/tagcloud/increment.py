"""Increments: what changed about the tags of some posts, as an emitter sends it to the collectors.

A `Use` says what one event changed about one post: which tags came and went. It is told apart by the post and its version, so
however often it is sent, and in whichever increments, it can be counted once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

DAY_MS = 86_400_000
BUCKET_BITS = 19
"""Uses are remembered by the 8.7 minutes (2**19 ms) in which they happened, so that a repeat is looked for in one place."""
_VERSION_BITS = 32


class TagChange(NamedTuple):
    """One tag of a post: its canonical name, as the author typed it, and +1 (it came) or -1 (it went)."""

    name: str
    form: str
    by: int


class Use(msgspec.Struct, frozen=True, array_like=True):
    """The change that one event made to the tags of one post."""

    post_id: int
    version: int
    """Version of the post after the change; at most one use of a post has it. 1 to 2**32 - 1."""
    author_id: int
    written: int
    """When the post was written (Unix ms): in which windows its tags count."""
    at: int
    """When the change was made (Unix ms)."""
    changes: tuple[TagChange, ...]

    @property
    def day(self) -> int:
        """The day on which the post was written, in days since 1970-01-01 UTC."""
        return self.written // DAY_MS

    @property
    def bucket(self) -> int:
        """Where the use is remembered."""
        return self.at >> BUCKET_BITS

    @property
    def mark(self) -> int:
        """Post and version in one number of 96 bits."""
        return self.post_id << _VERSION_BITS | self.version


class Increment(msgspec.Struct, frozen=True, array_like=True):
    """Uses that one emitter sends together, under an id of its own (16 bytes)."""

    id: bytes
    emitter: bytes
    through: int
    """Whatever the emitter was given before this moment (Unix ms) is in this or an earlier increment."""
    uses: tuple[Use, ...]

    @property
    def changes(self) -> int:
        """How many tags came or went."""
        return sum(len(use.changes) for use in self.uses)


_MARK_BYTES = 12
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Increment] = msgspec.msgpack.Decoder(Increment)


def encode(increment: Increment) -> bytes:
    """An increment as bytes, for a transport."""
    return _encoder.encode(increment)


def decode(data: bytes) -> Increment:
    """An increment from its bytes. Raises `msgspec.DecodeError`, or `msgspec.ValidationError`, for what is none."""
    return _decoder.decode(data)


def pack_marks(marks: Iterable[int]) -> bytes:
    """Marks of uses as bytes, 12 each."""
    return b"".join(mark.to_bytes(_MARK_BYTES, "big") for mark in sorted(marks))


def unpack_marks(data: bytes) -> set[int]:
    """The marks that `pack_marks` was given."""
    return {int.from_bytes(data[at : at + _MARK_BYTES], "big") for at in range(0, len(data), _MARK_BYTES)}
