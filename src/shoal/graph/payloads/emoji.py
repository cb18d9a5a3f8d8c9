"""Reactions with an emoji, as associations tell them: the emoji of a post, each at a place, and those of a member.

A place is an id on the post's shard, made when the first member puts this emoji on the post. Members lead to it, so its
count is how many put the emoji there. It has one of a fixed number of keys, so a post never has more emoji than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from shoal.core.ids import shard_of
from shoal.graph.contract import Assoc, Cursor, Reader
from shoal.graph.schema import SHOWS_EMOJI, Key, emoji_place_key

_MANY = 100
"""More places than a post ever has."""


class EmojiPlace(NamedTuple):
    """An emoji of a post, and the id at which it is counted there."""

    id: int
    emoji: str


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[tuple[EmojiPlace, ...]] = msgspec.msgpack.Decoder(tuple[EmojiPlace, ...])


def encode_chosen(places: Iterable[EmojiPlace]) -> bytes:
    """Return the data of a member's association with a post: every emoji that they put on it, at its place."""
    return _encoder.encode(tuple(places))


def chosen_of(assoc: Assoc | None) -> tuple[EmojiPlace, ...]:
    """Decode the emoji that a member put on a post, in the order in which they did."""
    return _decoder.decode(assoc.data) if assoc is not None else ()


def encode_place(number: int, emoji: str) -> bytes:
    """Return the data of a post's association with a place: the number of its key, a byte, and the emoji."""
    return bytes((number,)) + emoji.encode()


def key_of_place(post_id: int, assoc: Assoc) -> Key:
    """Return the key of a place on a post."""
    return emoji_place_key(shard_of(post_id), post_id, assoc.data[0])


async def emoji_places(graph: Reader, post_ids: Sequence[int]) -> dict[int, list[EmojiPlace]]:
    """Return the places of each post, the oldest first; a post without any is left out. One read."""
    found = await graph.assoc_ranges(post_ids, SHOWS_EMOJI, Cursor(limit=_MANY))
    return {
        post: [EmojiPlace(one.id2, one.data[1:].decode()) for one in reversed(listed)] for post, listed in found.items()
    }
