"""The data of the association of an album with a photo: the post that shows the photo, and its place among the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from shoal.graph.contract import Assoc

MOST_PHOTOS = 1_000
"""More than an album may have."""


class Collected(NamedTuple):
    """A photo's post, and its place: photos stand in the order of their places, and of their times where two have one."""

    post_id: int
    place: int


_decoder: msgspec.msgpack.Decoder[Collected] = msgspec.msgpack.Decoder(Collected)


def collected_of(assoc: Assoc) -> Collected:
    """Decode a photo of an album from its association."""
    return _decoder.decode(assoc.data)


def encode_collected(photo: Collected) -> bytes:
    """Return a photo of an album as the data of its association."""
    return msgspec.msgpack.encode(photo)


def in_order(held: Iterable[Assoc]) -> list[Assoc]:
    """Return the photos of an album in its order."""
    return sorted(held, key=lambda assoc: (collected_of(assoc).place, assoc.time))
