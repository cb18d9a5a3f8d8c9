"""JSON entities of the Mastodon API: statuses, accounts, media attachments, client apps, with all keys.

`None` is null; `UNSET` omits a key. Ids are strings, times are `2026-01-31T12:00:00.000Z`.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType


class Size(msgspec.Struct):
    """Pixels; `size` is `WxH`, `aspect` is width through height."""

    width: int
    height: int
    size: str
    aspect: float


class Original(msgspec.Struct, kw_only=True):
    """Properties of the file at `url`: the size of a picture; for video and sound also how it plays."""

    width: int | UnsetType = UNSET
    height: int | UnsetType = UNSET
    size: str | UnsetType = UNSET
    aspect: float | UnsetType = UNSET
    frame_rate: str | UnsetType = UNSET
    """Frames a second, as a fraction: `30/1`."""
    duration: float | UnsetType = UNSET
    """Seconds."""
    bitrate: int | UnsetType = UNSET
    """Bits a second."""
    audio_encode: str | UnsetType = UNSET
    audio_bitrate: str | UnsetType = UNSET


class Point(msgspec.Struct):
    """x and y in -1..1, y upwards."""

    x: float
    y: float


class Meta(msgspec.Struct, kw_only=True):
    """Measured properties of a file; only the focus while it is being processed."""

    original: Original | UnsetType = UNSET
    small: Size | UnsetType = UNSET
    focus: Point
    length: str | UnsetType = UNSET
    """How long it plays, as `0:01:28.65`."""
    duration: float | UnsetType = UNSET
    fps: int | UnsetType = UNSET
    size: str | UnsetType = UNSET
    width: int | UnsetType = UNSET
    height: int | UnsetType = UNSET
    aspect: float | UnsetType = UNSET
    audio_encode: str | UnsetType = UNSET
    audio_bitrate: str | UnsetType = UNSET
    audio_channels: str | UnsetType = UNSET


class MediaExtras(msgspec.Struct):
    """Facts about a file that Mastodon does not tell."""

    original_url: str
    """A picture in all of the pixels that were uploaded, where the server keeps these."""


class MediaAttachment(msgspec.Struct, kw_only=True):
    """An uploaded picture, video (`gifv` is one without sound) or sound."""

    id: str
    type: str
    url: str | None
    """Null while it is processed."""
    preview_url: str | None
    """A small picture; null where there is none."""
    meta: Meta
    description: str | None
    blurhash: str | None
    remote_url: None = None
    preview_remote_url: None = None
    text_url: None = None
    shoal: MediaExtras | UnsetType = UNSET
    """Only where there is more to say."""


class Application(msgspec.Struct, kw_only=True):
    """A client program, for anybody who has a token of it."""

    id: str
    name: str
    website: str | None
    scopes: list[str]
    redirect_uris: list[str]
    redirect_uri: str
    vapid_key: str = ""


class CredentialApplication(Application, kw_only=True):
    """A client program with its secret, once."""

    client_id: str
    client_secret: str
    client_secret_expires_at: int = 0


class Token(msgspec.Struct):
    """A bearer token; `created_at` in Unix seconds."""

    access_token: str
    token_type: str
    scope: str
    created_at: int


class Field(msgspec.Struct):
    """A row of the table on a profile; `value` is HTML (plain text in a `Source`)."""

    name: str
    value: str
    verified_at: None = None


class AccountRole(msgspec.Struct, kw_only=True):
    """A role as others see it; only moderators and admins have one."""

    id: str
    name: str
    color: str = ""


class Account(msgspec.Struct, kw_only=True):
    """A member, as others see them."""

    id: str
    username: str
    acct: str
    url: str
    uri: str
    display_name: str
    note: str
    avatar: str
    avatar_static: str
    header: str
    header_static: str
    fields: list[Field]
    bot: bool
    discoverable: bool
    indexable: bool
    noindex: bool
    created_at: str
    statuses_count: int
    followers_count: int
    following_count: int
    locked: bool = False
    group: bool = False
    hide_collections: bool = False
    last_status_at: None = None
    emojis: list[Any] = []
    roles: list[AccountRole] = []
    limited: bool | UnsetType = UNSET
    """True for a silenced account; others have no such key."""
    suspended: bool | UnsetType = UNSET
    """True for a suspended account, which only moderators are shown; others have no such key."""


class Source(msgspec.Struct, kw_only=True):
    """A member's profile as it was typed, and their defaults for new statuses."""

    privacy: str
    sensitive: bool
    language: str
    note: str
    fields: list[Field]
    discoverable: bool
    indexable: bool
    follow_requests_count: int = 0
    hide_collections: bool = False
    attribution_domains: list[str]
    quote_policy: str
    """`public`, `followers` or `nobody`; nobody can quote here, whatever it says."""


class Role(msgspec.Struct, kw_only=True):
    """A member's role. `permissions` are Mastodon's permission bits, as a decimal number in a string."""

    id: str = "-99"
    name: str = ""
    permissions: str = "0"
    color: str = ""
    highlighted: bool = False


class MemberExtras(msgspec.Struct):
    """Settings of a member that Shoal has and Mastodon has not."""

    aggregate_reblogs: bool
    place_precision: str
    """How exactly the places of new statuses are stored: `exact`, `100m`, `1km`, `10km`, or `none`."""


class CredentialAccount(Account, kw_only=True):
    """A member, as they see themselves."""

    source: Source
    role: Role
    shoal: MemberExtras


class StatusMention(msgspec.Struct):
    """A member named in a status."""

    id: str
    username: str
    url: str
    acct: str


class StatusTag(msgspec.Struct):
    """A tag of a status."""

    name: str
    url: str


class StatusApplication(msgspec.Struct):
    """The app that a status was written with."""

    name: str
    website: str | None


class Place(msgspec.Struct):
    """Degrees."""

    latitude: float
    longitude: float


class SharedBy(msgspec.Struct):
    """Other accounts that reblogged a status, whose reblogs would stand just above it in a home or list."""

    accounts: list[Account]
    """The first three."""
    count: int


class RankingTerm(msgspec.Struct):
    """One reason for the place of a status: the contribution is the value times the weight."""

    name: str
    value: float
    """-1 to 1."""
    weight: float
    contribution: float
    words: str


class Ranking(msgspec.Struct):
    """Why a status stands where it does in a feed ranked by interest. The contributions add up to the score."""

    score: float
    sources: list[str]
    """Names of the sources that bring it: `followees`, `friends_liked`, `tags_followed`, `popular` and so on."""
    terms: list[RankingTerm]
    places_lost: int = 0
    """Places that it lost to variety; below 0: won."""
    lost_to: str = ""
    """The rule by which it lost them: `author`, `tag`, `source`, `exploration`."""


class Extras(msgspec.Struct, omit_defaults=True):
    """Properties of a status that Shoal has and Mastodon does not."""

    data: msgspec.Raw | UnsetType = UNSET
    data_bytes: int | UnsetType = UNSET
    """How much data there is that is left out here."""
    place: Place | None = None
    shared_by: SharedBy | UnsetType = UNSET
    ranking: Ranking | UnsetType = UNSET
    """In a ranked feed, where an explanation was asked for."""


class StatusContent(msgspec.Struct, kw_only=True):
    """The part of a status that is the same for every viewer until the status is edited; of a share, its own part."""

    id: str
    uri: str
    url: str
    created_at: str
    visibility: str
    edited_at: str | None = None
    content: str = ""
    sensitive: bool = False
    spoiler_text: str = ""
    language: str | None = None
    media_attachments: list[MediaAttachment] = []
    mentions: list[StatusMention] = []
    tags: list[StatusTag] = []
    application: StatusApplication | None = None
    in_reply_to_id: str | None = None
    in_reply_to_account_id: str | None = None
    emojis: list[Any] = []
    card: None = None
    quote: None = None
    quotes_count: int = 0
    shoal: Extras | UnsetType = UNSET


class PollOption(msgspec.Struct):
    """An option of a poll. It has these two keys and no other, as clients compare."""

    title: str
    votes_count: int | None


class Poll(msgspec.Struct, kw_only=True):
    """A poll; what only members are told is left out for others."""

    id: str
    expires_at: str | None
    expired: bool
    multiple: bool
    votes_count: int
    voters_count: int | None
    options: list[PollOption]
    emojis: list[Any] = []
    voted: bool | UnsetType = UNSET
    own_votes: list[int] | UnsetType = UNSET


class FilterSummary(msgspec.Struct, kw_only=True):
    """A filter, without what it looks for."""

    id: str
    title: str
    context: list[str]
    expires_at: str | None
    filter_action: str


class FilterResult(msgspec.Struct, kw_only=True):
    """A match of one of the viewer's filters, with the keywords or statuses by which it matches."""

    filter: FilterSummary
    keyword_matches: list[str] | None
    status_matches: list[str] | None


class EmojiReaction(msgspec.Struct):
    """An emoji on a status: how many put it there, and whether the caller did."""

    name: str
    count: int
    me: bool


class EmojiReactors(EmojiReaction):
    """An emoji on a status, with accounts that put it there, newest first."""

    accounts: list[Account]


class PleromaExtras(msgspec.Struct):
    """Keys of a status that clients of Pleroma know."""

    emoji_reactions: list[EmojiReaction]


class Status(StatusContent, kw_only=True):
    """A post, or a share of one, as a viewer sees it. The last keys are there for members only."""

    account: Account
    reblog: Status | None
    poll: Poll | None
    replies_count: int
    reblogs_count: int
    favourites_count: int
    favourited: bool | UnsetType = UNSET
    reblogged: bool | UnsetType = UNSET
    muted: bool | UnsetType = UNSET
    bookmarked: bool | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET
    """On one's own statuses, and always there."""
    filtered: list[FilterResult] | UnsetType = UNSET
    reactions: list[EmojiReaction] | UnsetType = UNSET
    """Emoji on the status, in the order in which they came; there where there are any."""
    pleroma: PleromaExtras | UnsetType = UNSET
    """Once more `reactions`, where clients of Pleroma look for them."""
    text: str | UnsetType = UNSET
    """The text as it was typed; only in the answer to a deletion."""


class ContextExtras(msgspec.Struct):
    """Where the rest of a long thread is."""

    replies: str
    """The address of all replies to the status itself, in pages; each of them has such an address, too."""


class StatusContext(msgspec.Struct):
    """The thread around a status: `ancestors` with the root first, `descendants` in the order of reading."""

    ancestors: list[Status]
    descendants: list[Status]
    shoal: ContextExtras | UnsetType = UNSET
    """Where there are more replies than fit."""


class Likers(msgspec.Struct):
    """How many like a status, and the newest of them."""

    count: int
    newest: list[Account]


class Received(msgspec.Struct):
    """Likes and shares that all posts of an account received together."""

    likes: int
    shares: int


class StatusSource(msgspec.Struct):
    """A status as it was typed, to be edited."""

    id: str
    text: str
    spoiler_text: str


class PollEditOption(msgspec.Struct):
    """An option of a poll as it was before an edit."""

    title: str


class PollEdit(msgspec.Struct):
    """The poll of one version of a status."""

    options: list[PollEditOption]


class StatusEdit(msgspec.Struct, kw_only=True):
    """One wording of a status."""

    content: str
    spoiler_text: str
    sensitive: bool
    created_at: str
    account: Account
    media_attachments: list[MediaAttachment]
    poll: PollEdit | UnsetType = UNSET
    emojis: list[Any] = []


class Relationship(msgspec.Struct, kw_only=True):
    """How the caller stands to an account."""

    id: str
    following: bool
    showing_reblogs: bool
    followed_by: bool
    blocking: bool
    blocked_by: bool
    muting: bool
    muting_notifications: bool
    notifying: bool = False
    languages: list[str] | None = None
    muting_expires_at: str | None = None
    requested: bool = False
    requested_by: bool = False
    domain_blocking: bool = False
    endorsed: bool = False
    note: str = ""
