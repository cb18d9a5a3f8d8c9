"""The values of the network: frozen, typed, the same on every backend.

An object is a `Node`: it has an `id` (which says its shard) and a `version` that grows by one with each change. Everything
else between objects is an association (`graph/schema.py`). Moments are Unix milliseconds, UTC.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from shoal.core.ids import milliseconds_of


class Node(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What every object has. `replace` makes the next version of it."""

    id: int
    version: int = 1


class Visibility(StrEnum):
    """Who a post is for. `unlisted` is public but in no public list; `direct` is for those it mentions."""

    PUBLIC = "public"
    UNLISTED = "unlisted"
    FOLLOWERS = "followers"
    DIRECT = "direct"


class MediaKind(StrEnum):
    """What a media file is."""

    IMAGE = "image"


class ProfileField(msgspec.Struct, frozen=True, array_like=True):
    """One row of the table on a member's profile, as typed."""

    name: str
    value: str


class Member(Node, frozen=True, tag="member"):
    """Somebody who posts and follows. `name` is lower-case and never changes; secrets are kept apart, in `Login`."""

    name: str
    display_name: str = ""
    note: str = ""
    fields: tuple[ProfileField, ...] = ()
    avatar: str = ""
    """Key of the picture in the media store, or empty."""
    header: str = ""
    bot: bool = False
    discoverable: bool = True
    default_visibility: Visibility = Visibility.PUBLIC
    default_sensitive: bool = False
    default_language: str = ""
    login_id: int = 0
    suspended: bool = False
    created_at: int = 0
    """When the member joined, where that is not the moment of the id (an import). Use `joined`."""

    @property
    def joined(self) -> int:
        """When the member joined, in Unix milliseconds."""
        return self.created_at or milliseconds_of(self.id)


class Login(Node, frozen=True, tag="login"):
    """What a member logs in with: an e-mail address (may be empty) and an argon2id hash (empty: cannot log in)."""

    member_id: int
    email: str = ""
    password: str = ""


class Place(NamedTuple):
    """Where a post was made: degrees, latitude -90..90, longitude -180..180."""

    latitude: float
    longitude: float


class Mention(NamedTuple):
    """A member named in a text, as resolved when it was written."""

    id: int
    name: str


HIDDEN_BY_MODERATION = 1
HIDDEN_WITH_AUTHOR = 2
"""The author is suspended."""


class Post(Node, frozen=True, tag="post"):
    """A post, or a comment on one when it has a `parent_id`."""

    author_id: int
    text: str = ""
    spoiler: str = ""
    sensitive: bool = False
    visibility: Visibility = Visibility.PUBLIC
    language: str = ""
    media: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    """Canonical (lower-case NFKC) forms, each once, in the order of the text."""
    mentions: tuple[Mention, ...] = ()
    parent_id: int = 0
    parent_author_id: int = 0
    root_id: int = 0
    """The post that the whole thread hangs on; 0 for a post that is not a comment."""
    place: Place | None = None
    data: str = ""
    """An application's own JSON, at most 64 KiB, kept as it came."""
    created_at: int = 0
    """When it was written, where that is not the moment of the id (an import). Use `written`."""
    edited_at: int = 0
    app_id: int = 0
    hidden: int = 0
    """Why it is taken out of sight, and does not count: `HIDDEN_BY_MODERATION`, `HIDDEN_WITH_AUTHOR`, or both (a sum)."""

    @property
    def written(self) -> int:
        """When the post was written, in Unix milliseconds."""
        return self.created_at or milliseconds_of(self.id)


class Revision(Node, frozen=True, tag="revision"):
    """What a post said before an edit."""

    post_id: int
    text: str = ""
    spoiler: str = ""
    sensitive: bool = False
    media: tuple[int, ...] = ()
    written: int = 0
    """When this wording was published, in Unix milliseconds."""


class Share(Node, frozen=True, tag="share"):
    """A member shows somebody's post to their own followers."""

    author_id: int
    post_id: int
    post_author_id: int
    visibility: Visibility = Visibility.PUBLIC


class Media(Node, frozen=True, tag="media"):
    """An uploaded picture, ready: its sizes are stored and its metadata is stripped."""

    owner_id: int
    kind: MediaKind = MediaKind.IMAGE
    content_type: str = "image/jpeg"
    key: str = ""
    """Where the feed size is in the media store."""
    preview_key: str = ""
    width: int = 0
    height: int = 0
    preview_width: int = 0
    preview_height: int = 0
    size: int = 0
    """Bytes of the feed size."""
    blurhash: str = ""
    description: str = ""
    focus: tuple[float, float] = (0.0, 0.0)
    """The point that a crop must keep: x and y in -1..1, y upwards."""


class App(Node, frozen=True, tag="app"):
    """A client program that asks for tokens."""

    name: str
    redirect_uris: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    website: str = ""
    secret_hash: bytes = b""


class Token(Node, frozen=True, tag="token"):
    """A bearer token: of a member, or of an app alone when `member_id` is 0. Only a hash of its secret is kept."""

    app_id: int
    member_id: int = 0
    scopes: tuple[str, ...] = ()
    secret_hash: bytes = b""
