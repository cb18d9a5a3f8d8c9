"""What the graph holds: every type of association with its inverse, every space of keys, and how objects become bytes.

A feature such as bookmarks begins with a row here. Numbers are stored: they never change their meaning.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import msgspec

from shoal.core.ids import named
from shoal.core.model import App, Login, Media, Member, Post, Revision, Share, Token
from shoal.core.placement import place


class AssocType(msgspec.Struct, frozen=True, eq=False):
    """One type of association. `inverse` is the number of the type of its other end, 0 for none.

    A `tallied` type is also counted at a third object, the `tally` of the operation: the likes of a post at its author.
    The time of a `placed` type is the place of an entry in a list, not the moment of the act: its tombstones do not tell
    their age, and are kept for good.
    """

    number: int
    name: str
    inverse: int = 0
    tallied: bool = False
    placed: bool = False

    def __repr__(self) -> str:
        return self.name.upper()


FOLLOWS = AssocType(1, "follows", inverse=2)  # member -> member
FOLLOWED_BY = AssocType(2, "followed_by", inverse=1)
BLOCKS = AssocType(3, "blocks", inverse=4)
BLOCKED_BY = AssocType(4, "blocked_by", inverse=3)
MUTES = AssocType(5, "mutes")
LIKES = AssocType(7, "likes", inverse=8)  # member -> post
LIKED_BY = AssocType(8, "liked_by", inverse=7, tallied=True)
SHARES = AssocType(9, "shares", inverse=10)  # member -> post; data: the id of the share, 8 bytes
SHARED_BY = AssocType(10, "shared_by", inverse=9, tallied=True)
BOOKMARKS = AssocType(11, "bookmarks", inverse=12)
BOOKMARKED_BY = AssocType(12, "bookmarked_by", inverse=11)
POSTED = AssocType(13, "posted")  # member -> post or share; time is the id of the entry
COMMENTS_ON = AssocType(14, "comments_on", inverse=15)  # comment -> post
COMMENTED_BY = AssocType(15, "commented_by", inverse=14)
TAGGED = AssocType(16, "tagged", inverse=17, placed=True)  # post -> tag
TAG_OF = AssocType(17, "tag_of", inverse=16, placed=True)
REVISED = AssocType(18, "revised")  # post -> revision
OWNS = AssocType(19, "owns")  # member -> media
LOGGED_IN = AssocType(20, "logged_in")  # member -> token
FOLLOWS_TAG = AssocType(21, "follows_tag", inverse=22)  # member -> tag
TAG_FOLLOWED_BY = AssocType(22, "tag_followed_by", inverse=21)
LOUD = AssocType(23, "loud")  # everybody -> source of posts

ASSOC_TYPES: dict[int, AssocType] = {
    value.number: value for value in list(globals().values()) if isinstance(value, AssocType)
}


EVERYBODY = named("list", "everybody")
"""Where lists begin that concern the whole network."""


@lru_cache(maxsize=32_768)
def tag_id(canonical: str) -> int:
    """The id of a tag, from its canonical form. Two digests: what is used now is soon used again."""
    return named("tag", canonical)


def is_tag(source: int) -> bool:
    """Whether a source of posts is a tag: those have ids made of their names."""
    return source < 0


def following(source: int) -> AssocType:
    """The type that leads from a member to a source they follow."""
    return FOLLOWS_TAG if is_tag(source) else FOLLOWS


def followers(source: int) -> AssocType:
    """The type that leads from a source to its followers."""
    return TAG_FOLLOWED_BY if is_tag(source) else FOLLOWED_BY


def entries(source: int) -> AssocType:
    """The type of the list of entries that a source brings to home timelines."""
    return TAG_OF if is_tag(source) else POSTED


class Key(NamedTuple):
    """A unique name in a space. The shard is where it is kept, and must follow from what a reader knows."""

    shard: int
    space: str
    name: str


def user_name_key(name: str) -> Key:
    """Of a user name: the member's id. It lies on the member's own shard, which the name determines."""
    return Key(place(name).shard, "user_name", name)


def email_key(address: str) -> Key:
    """Of a normalised e-mail address: the member's id."""
    return Key(place(address).shard, "email", address)


def idempotency_key(member_id: int, shard: int, name: str) -> Key:
    """Of a request: the id of what it made."""
    return Key(shard, "idempotency", f"{member_id}:{name}")


def share_key(member_id: int, shard: int, post_id: int) -> Key:
    """Of a member's share of a post, of which there is one at a time: the id of the share."""
    return Key(shard, "share", f"{member_id}:{post_id}")


def import_key(shard: int, source: str) -> Key:
    """Of a record of an import: the id of what it became, so that a second run finds it."""
    return Key(shard, "import", source)


AnyNode = Member | Login | Post | Revision | Share | Media | App | Token

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[AnyNode] = msgspec.msgpack.Decoder(AnyNode)


def encode_node(node: msgspec.Struct) -> bytes:
    """An object as bytes."""
    return _encoder.encode(node)


def decode_node(data: bytes) -> AnyNode:
    """An object from its bytes."""
    return _decoder.decode(data)
