"""The values of the network: frozen, typed, the same on every backend.

An object is a `Node`: it has an `id` (which says its shard) and a `version` that grows by one with each change. Everything
else between objects is an association (`graph/schema.py`). Moments are Unix milliseconds, UTC.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal, NamedTuple

import msgspec

from shoal.core.ids import milliseconds_of
from shoal.core.notice_policy import ACCEPT_ALL, NoticePolicy


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


OPEN = (Visibility.PUBLIC, Visibility.UNLISTED)
"""Visibilities of posts that everybody may see."""


class MediaKind(StrEnum):
    """What a media file is."""

    IMAGE = "image"
    VIDEO = "video"
    GIFV = "gifv"
    """A video without sound that plays over and over."""
    AUDIO = "audio"


class MediaState(StrEnum):
    """How far a media file is."""

    READY = "ready"
    PROCESSING = "processing"
    """It waits to be made into what is shown."""
    FAILED = "failed"
    """It could not be; its file is gone."""


class Role(StrEnum):
    """What a member may do for the whole network."""

    NONE = ""
    MODERATOR = "moderator"
    """Reads reports, and acts on them."""
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        """A role of a greater rank includes those of lesser ones."""
        return list(Role).index(self)


QuotePolicy = Literal["public", "followers", "nobody"]
"""A member's choice of who may quote their posts, for clients to know: there are no quotes here."""


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
    locked: bool = False
    """Whoever wants to follow asks first."""
    hides_connections: bool = False
    """Whom they follow, and who follows them, is for themselves alone to see in lists."""
    indexable: bool = True
    """Whether others find their public posts by the words in them."""
    folds_shares: bool = True
    """Whether a post stands once in their timelines where it was shared several times."""
    silenced: bool = False
    """Moderation: their posts come to no public list, but for those who follow them."""
    sensitized: bool = False
    """Moderation: the media of all their posts are shown as sensitive."""
    pending: bool = False
    """They signed up and wait for approval. They are `suspended` as well, so all that hides suspended members hides them."""
    disabled: bool = False
    """Moderation: they cannot log in; what they posted stays."""
    role: Role = Role.NONE
    generation: int = 0
    """How often the password was changed: whatever was given to a client before is worth nothing."""
    notices: NoticePolicy = ACCEPT_ALL
    media_bytes: int = 0
    """Bytes of the files of all media of the member's; avatar and header do not count."""
    attribution_domains: tuple[str, ...] = ()
    """Websites that may name the member as an author."""
    quote_policy: QuotePolicy = "nobody"
    dated: int = msgspec.field(default=0, name="created_at")
    """When the member joined, where that is not the moment of the id (an import). Use `created_at`."""

    @property
    def created_at(self) -> int:
        """When the member joined, in Unix milliseconds."""
        return self.dated or milliseconds_of(self.id)


class Login(Node, frozen=True, tag="login"):
    """What a member logs in with: an e-mail address (may be empty) and an argon2id hash (empty: cannot log in)."""

    member_id: int
    email: str = ""
    password: str = ""
    reason: str = ""
    """Why they want to join, as those say who sign up where approval is needed."""
    networks: tuple[bytes, ...] = ()  # hashes of those from which the right password came, newest first


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
    json: str = msgspec.field(default="", name="data")
    """An application's own JSON, at most 64 KiB, as text; empty: there is none. `data` is its value."""
    dated: int = msgspec.field(default=0, name="created_at")
    """When it was written, where that is not the moment of the id (an import). Use `created_at`."""
    edited_at: int = 0
    app_id: int = 0
    poll_id: int = 0
    hidden: int = 0
    """Why it is taken out of sight, and does not count: `HIDDEN_BY_MODERATION`, `HIDDEN_WITH_AUTHOR`, or both (a sum)."""
    untrendable: bool = False
    """Moderation: it is in no list of trends."""

    @property
    def created_at(self) -> int:
        """When the post was written, in Unix milliseconds."""
        return self.dated or milliseconds_of(self.id)

    @property
    def data(self) -> Any:
        """The application's own JSON, as the value that was given; None: there is none."""
        return msgspec.json.decode(self.json) if self.json else None

    @property
    def open(self) -> bool:
        """Whether everybody may find it: it is public or unlisted, and in sight. Only such posts are in public counts."""
        return self.visibility in OPEN and not self.hidden

    @property
    def published(self) -> bool:
        """Whether it stands in the public timeline: it is public, and no comment on somebody else's post."""
        answers_another = self.parent_id and self.parent_author_id != self.author_id
        return self.visibility is Visibility.PUBLIC and not answers_another


class Revision(Node, frozen=True, tag="revision"):
    """What a post said before an edit."""

    post_id: int
    text: str = ""
    spoiler: str = ""
    sensitive: bool = False
    media: tuple[int, ...] = ()
    options: tuple[str, ...] = ()
    """What could be voted for."""
    written: int = 0
    """When this wording was published, in Unix milliseconds."""


class Share(Node, frozen=True, tag="share"):
    """A member shows somebody's post to their own followers."""

    author_id: int
    post_id: int
    post_author_id: int
    visibility: Visibility = Visibility.PUBLIC


class Sound(NamedTuple):
    """How a sound is written."""

    codec: str
    rate: int
    """Samples a second."""
    channels: int


class Media(Node, frozen=True, tag="media"):
    """An uploaded picture, video or sound. What is stored is made anew from what came, without its metadata.

    `core.media_files` lists all of its files: some have a smaller copy beside them.
    """

    owner_id: int
    kind: MediaKind = MediaKind.IMAGE
    state: MediaState = MediaState.READY
    content_type: str = "image/jpeg"
    key: str = ""
    """Where the feed size of a picture, or the clip, is in the media store."""
    original_key: str = ""
    """The upload of a video or sound; it is deleted when the clip was made, or could not be. For a picture, the file
    with all of its pixels, if these are kept; made anew like the rest."""
    preview_key: str = ""
    """The small size of a picture, a frame of a video, the cover of a sound; empty: there is none."""
    width: int = 0
    height: int = 0
    preview_width: int = 0
    preview_height: int = 0
    size: int = 0
    """Bytes of what is behind `key`."""
    duration: float = 0.0
    """Seconds."""
    frame_rate: str = ""
    """Frames a second, as a fraction: `30/1`."""
    bitrate: int = 0
    """Bits a second."""
    sound: Sound | None = None
    blurhash: str = ""
    description: str = ""
    focus: tuple[float, float] = (0.0, 0.0)
    """The point that a crop must keep: x and y in -1..1, y upwards."""
    file_bytes: int = 0
    """Bytes of all its files but those of the preview."""
    preview_bytes: int = 0
    """Bytes of the preview, and of the copy beside it."""
    unused_since: int = 0
    """The time since which no post has it, in Unix milliseconds; 0 while a post, or the history of one, has it."""
    let_go: bool = False
    """Every post that had it is deleted. It is not served until another post has it."""
    ticket_id: int = 0
    """The ticket on the agenda to check whether it is still unused; 0 when none is planned."""

    @property
    def stored(self) -> int:
        """Bytes of all its files."""
        return self.file_bytes + self.preview_bytes


class PollOption(NamedTuple):
    """What can be voted for. The id is the object that votes lead to: it has no node."""

    id: int
    title: str


class Poll(Node, frozen=True, tag="poll"):
    """The question of a post. Votes are associations: whoever votes leads to the poll, and to each option they chose."""

    owner_id: int
    post_id: int
    options: tuple[PollOption, ...] = ()
    multiple: bool = False
    hide_totals: bool = False
    """What each option has is shown when the poll is over."""
    expires_at: int = 0
    """Unix milliseconds."""
    ticket_id: int = 0
    """Of its end on the agenda; 0 when that is behind it."""


class ScheduledPost(Node, frozen=True, tag="scheduled_post"):
    """A post that is to be written at a moment to come."""

    owner_id: int
    at: int
    """Unix milliseconds."""
    draft: bytes = b""
    """What it will be made of, as `services` encode it."""
    app_id: int = 0
    ticket_id: int = 0
    """Of its moment on the agenda."""


class RepliesPolicy(StrEnum):
    """Which comments come to the timeline of a list."""

    FOLLOWED = "followed"
    """Those on posts of anybody whom the owner follows."""
    LIST = "list"
    """Those on posts of members of the list."""
    NONE = "none"


class MemberList(Node, frozen=True, tag="member_list"):
    """Members whose posts their owner reads by themselves."""

    owner_id: int
    title: str
    replies: RepliesPolicy = RepliesPolicy.LIST
    exclusive: bool = False
    """Posts of its members do not come to the owner's home."""


class App(Node, frozen=True, tag="app"):
    """A program that asks for tokens. `ticket_id` is of its end on the agenda, until it is `kept`: it gave one, or a code."""

    name: str
    redirect_uris: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    website: str = ""
    secret_hash: bytes = b""
    ticket_id: int = 0
    kept: bool = False


class Token(Node, frozen=True, tag="token"):
    """A bearer token: of a member, or of an app alone when `member_id` is 0. Only a hash of its secret is kept.

    One without an app is the login of a browser: it opens the pages where apps are let in, and nothing else.
    """

    app_id: int
    member_id: int = 0
    scopes: tuple[str, ...] = ()
    secret_hash: bytes = b""
    generation: int = 0
    """That of the member when they said who they are."""


class Grant(Node, frozen=True, tag="grant"):
    """An authorization code on its way to a client: good for one exchange, and there until it ends, so that a second is noticed."""

    app_id: int
    member_id: int
    scopes: tuple[str, ...] = ()
    redirect_uri: str = ""
    challenge: str = ""
    """Of PKCE, S256; empty when the client sent none."""
    secret_hash: bytes = b""
    generation: int = 0
    """That of the member when they said who they are."""
    expires_at: int = 0
    """Unix milliseconds."""
    token_id: int = 0
    """What it was exchanged for; 0 before."""
