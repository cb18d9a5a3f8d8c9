"""JSON entities of the Mastodon API: statuses, accounts, media attachments, client apps, with all keys.

`None` is null; `UNSET` omits a key. Ids are strings, times are `2026-01-31T12:00:00.000Z`.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from shoal.core.licenses import License


class CustomEmoji(msgspec.Struct, kw_only=True):
    """A custom emoji of this server."""

    shortcode: str
    url: str
    static_url: str
    visible_in_picker: bool
    category: str | None


class Size(msgspec.Struct):
    """The dimensions of an image in pixels. `size` is `WxH`; `aspect` is width divided by height."""

    width: int
    height: int
    size: str
    aspect: float


class Original(msgspec.Struct, kw_only=True):
    """Properties of the file at `url`: the dimensions of an image or video, the duration of a video or sound."""

    width: int | UnsetType = UNSET
    height: int | UnsetType = UNSET
    size: str | UnsetType = UNSET
    aspect: float | UnsetType = UNSET
    frame_rate: str | UnsetType = UNSET
    """Frames per second, as a fraction: `30/1`."""
    duration: float | UnsetType = UNSET
    """Duration in seconds."""
    bitrate: int | UnsetType = UNSET
    """Bits per second."""
    audio_encode: str | UnsetType = UNSET
    audio_bitrate: str | UnsetType = UNSET


class Point(msgspec.Struct):
    """A focal point. `x` and `y` are from -1 to 1, and `y` points upwards."""

    x: float
    y: float


class Meta(msgspec.Struct, kw_only=True):
    """Properties of a file. While the file is being processed, only `focus` is present."""

    original: Original | UnsetType = UNSET
    small: Size | UnsetType = UNSET
    focus: Point
    length: str | UnsetType = UNSET
    """Duration as `0:01:28.65`."""
    duration: float | UnsetType = UNSET
    fps: int | UnsetType = UNSET
    size: str | UnsetType = UNSET
    width: int | UnsetType = UNSET
    height: int | UnsetType = UNSET
    aspect: float | UnsetType = UNSET
    audio_encode: str | UnsetType = UNSET
    audio_bitrate: str | UnsetType = UNSET
    audio_channels: str | UnsetType = UNSET


class PhotoDetails(msgspec.Struct, kw_only=True):
    """What the camera stored in a photo; null for an unknown value."""

    camera: str | None
    lens: str | None
    exposure_time: float | None
    """Exposure time in seconds."""
    aperture: float | None
    """The f-number."""
    iso: int | None
    focal_length: float | None
    """Focal length in millimeters."""
    taken_at: str | None
    """Date and time by the clock of the camera, without a time zone: `2026-11-24T18:30:00`."""


class MediaExtras(msgspec.Struct, kw_only=True):
    """Properties of a file that Mastodon does not have."""

    original_url: str | UnsetType = UNSET
    """URL that downloads the largest file of an image, without metadata; present if the author of the status allows downloads."""
    details: PhotoDetails | UnsetType = UNSET
    """Present if the camera stored details and the author shows them."""


class MediaAttachment(msgspec.Struct, kw_only=True):
    """An uploaded image, video (`gifv` if it has no sound) or sound."""

    id: str
    type: str
    url: str | None
    """Null while the file is being processed."""
    preview_url: str | None
    """A small image; null if there is none."""
    meta: Meta
    description: str | None
    blurhash: str | None
    remote_url: None = None
    preview_remote_url: None = None
    text_url: None = None
    shoal: MediaExtras | UnsetType = UNSET
    """Absent if it would be empty."""


class Application(msgspec.Struct, kw_only=True):
    """The app that posted a status."""

    id: str
    name: str
    website: str | None
    scopes: list[str]
    redirect_uris: list[str]
    redirect_uri: str
    vapid_key: str = ""


class CredentialApplication(Application, kw_only=True):
    """A client app with its secret, which is shown once."""

    client_id: str
    client_secret: str
    client_secret_expires_at: int = 0


class Token(msgspec.Struct):
    """A bearer token; `created_at` in Unix seconds."""

    access_token: str
    token_type: str
    scope: str
    created_at: int
    expires_in: int | UnsetType = UNSET
    """Seconds until the token expires; only for a token from a token exchange."""
    issued_token_type: str | UnsetType = UNSET
    """The kind of token (RFC 8693), as for `expires_in`."""


class Field(msgspec.Struct):
    """A row of the table on a profile; `value` is HTML (plain text in a `Source`)."""

    name: str
    value: str
    verified_at: None = None


class AccountRole(msgspec.Struct, kw_only=True):
    """A public role; only moderators and admins have one."""

    id: str
    name: str
    color: str = ""


class Location(msgspec.Struct):
    """Where a member lives, as they state it."""

    country: str
    """Two-letter code of the country (ISO 3166-1)."""
    town: str | None


class AccountExtras(msgspec.Struct, kw_only=True):
    """Properties of an account that Mastodon does not have."""

    location: Location | None


class Account(msgspec.Struct, kw_only=True):
    """An account, as seen by other accounts."""

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
    emojis: list[CustomEmoji] = []
    roles: list[AccountRole] = []
    limited: bool | UnsetType = UNSET
    """True for a silenced account; absent for any other account."""
    suspended: bool | UnsetType = UNSET
    """True for a suspended account, which only moderators can see; absent for any other account."""
    shoal: AccountExtras | UnsetType = UNSET
    """Present if the member shows their location."""


class Source(msgspec.Struct, kw_only=True):
    """The source text of a member's profile, and their defaults for new statuses."""

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
    """`public`, `followers` or `nobody`. It has no effect, because quotes are not supported."""


class Role(msgspec.Struct, kw_only=True):
    """A member's role. `permissions` are Mastodon's permission bits, as a decimal number in a string."""

    id: str = "-99"
    name: str = ""
    permissions: str = "0"
    color: str = ""
    highlighted: bool = False


class MemberExtras(AccountExtras, kw_only=True):
    """Settings of a member that Mastodon does not have."""

    aggregate_reblogs: bool
    place_precision: str
    """The precision of the places of new statuses: `exact`, `100m`, `1km`, `10km`, `city`, or `none`."""
    shows_location: bool
    """Whether others can see the location."""
    shows_photo_details: bool
    """Whether new images show the details that the camera stored."""
    default_license: License
    allows_downloads: bool
    """Whether the images of new statuses may be downloaded."""


class CredentialAccount(Account, kw_only=True):
    """An account, as seen by its owner."""

    source: Source
    role: Role
    shoal: MemberExtras


class StatusMention(msgspec.Struct):
    """A member mentioned in a status."""

    id: str
    username: str
    url: str
    acct: str


class StatusTag(msgspec.Struct):
    """A tag of a status."""

    name: str
    url: str


class StatusApplication(msgspec.Struct):
    """The app with which a status was written."""

    name: str
    website: str | None


class Place(msgspec.Struct):
    """The place of a status, with coordinates in degrees."""

    latitude: float
    longitude: float
    town: str | UnsetType = UNSET
    """The name of the town, if the server knows the names of places."""
    country: str | UnsetType = UNSET
    """The two-letter code of the town's country (ISO 3166-1)."""


class SharedBy(msgspec.Struct):
    """Other accounts that reblogged a status.

    Their reblogs are omitted from a home timeline or list, because they would be just above this status.
    """

    accounts: list[Account]
    """The first three of these accounts."""
    count: int


class RankingTerm(msgspec.Struct):
    """A reason for the rank of a status: the contribution is the value times the weight."""

    name: str
    value: float
    """From -1 to 1."""
    weight: float
    contribution: float
    words: str


class Ranking(msgspec.Struct):
    """The explanation of a status's rank in a feed ranked by interest. The contributions add up to the score."""

    score: float
    sources: list[str]
    """Names of the candidate sources: `followees`, `friends_liked`, `tags_followed`, `popular` and so on."""
    terms: list[RankingTerm]
    places_lost: int = 0
    """The number of positions that the status lost to a rule; negative if it gained positions."""
    lost_to: str = ""
    """The rule that moved the status: `photos`, `author`, `tag`, `source`, `exploration`."""


class FeedContribution(msgspec.Struct):
    """A summand of the score of a status in a named feed."""

    name: str
    """A term of a recipe, or a summand of the feed's expression as written."""
    contribution: float


class FeedGroup(msgspec.Struct):
    """The statuses that a status represents in an aggregated feed."""

    count: int
    """Number of statuses, with the shown one."""
    status_ids: list[str]
    """Ids of the others, best first, at most 10."""


class FeedExplanation(msgspec.Struct):
    """Why a status is in a named feed, and at its position. The contributions, added in their order, are the score."""

    sources: list[str]
    """The sources of the feed that have the status, such as `tag bread`."""
    score: float | None
    """The score in a ranked feed; null in a feed in the order of time."""
    contributions: list[FeedContribution]
    places_lost: int
    """The number of positions that the status lost to diversity; negative if it gained positions."""
    group: FeedGroup | None
    """The statuses that it represents in an aggregated feed; null in any other feed."""


class Extras(msgspec.Struct, omit_defaults=True):
    """Properties of a status that Mastodon does not have."""

    data: msgspec.Raw | UnsetType = UNSET
    data_bytes: int | UnsetType = UNSET
    """The size of `data` in bytes, if `data` is omitted."""
    kind: str | UnsetType = UNSET
    """The name of the kind whose schema `data` matches; absent for none."""
    kind_version: int | UnsetType = UNSET
    """The version of the kind with which `data` was checked last."""
    place: Place | None = None
    license: License | UnsetType = UNSET
    """The license of the attachments, as an SPDX identifier; absent if all rights are reserved."""
    license_url: str | UnsetType = UNSET
    downloads: bool = False
    """Whether the images may be downloaded. Absent if not."""
    shared_by: SharedBy | UnsetType = UNSET
    ranking: Ranking | UnsetType = UNSET
    """Present in a ranked feed if an explanation was requested."""
    explanation: FeedExplanation | UnsetType = UNSET
    """Present in a named feed."""
    reactions: list[EmojiReaction] | UnsetType = UNSET
    """The declared reactions to the status, in the order of their first use; absent if there are none."""


class PreviewCard(msgspec.Struct, kw_only=True):
    """The link of a status of a kind, with a title and a picture, for clients that do not know the kind."""

    url: str
    title: str
    description: str = ""
    type: str = "link"
    author_name: str = ""
    author_url: str = ""
    provider_name: str = ""
    provider_url: str = ""
    html: str = ""
    width: int = 0
    height: int = 0
    image: str | None
    embed_url: str = ""
    blurhash: str | None = None


class StatusContent(msgspec.Struct, kw_only=True):
    """The keys of a status that are identical for all viewers and change only with an edit.

    For a share, they belong to the share itself; `reblog` contains the keys of the shared status.
    """

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
    emojis: list[CustomEmoji] = []
    card: PreviewCard | None = None
    """Present on a status of a kind whose data has a link."""
    quote: None = None
    quotes_count: int = 0
    shoal: Extras | UnsetType = UNSET


class PollOption(msgspec.Struct):
    """An option of a poll. It has exactly these keys, because clients compare options as a whole."""

    title: str
    votes_count: int | None


class Poll(msgspec.Struct, kw_only=True):
    """A poll. `voted` and `own_votes` are absent for anonymous callers."""

    id: str
    expires_at: str | None
    expired: bool
    multiple: bool
    votes_count: int
    voters_count: int | None
    options: list[PollOption]
    emojis: list[CustomEmoji] = []
    voted: bool | UnsetType = UNSET
    own_votes: list[int] | UnsetType = UNSET


class FilterSummary(msgspec.Struct, kw_only=True):
    """A filter without its keywords and statuses."""

    id: str
    title: str
    context: list[str]
    expires_at: str | None
    filter_action: str


class FilterResult(msgspec.Struct, kw_only=True):
    """A match of one of the viewer's filters, with the matching keywords or statuses."""

    filter: FilterSummary
    keyword_matches: list[str] | None
    status_matches: list[str] | None


class EmojiReaction(msgspec.Struct):
    """An emoji or declared reaction on a status: its count, and whether the caller added it."""

    name: str
    count: int
    me: bool


class EmojiReactors(EmojiReaction):
    """An emoji on a status, with the accounts that added it, newest first."""

    accounts: list[Account]


class PleromaExtras(msgspec.Struct):
    """Keys of a status for Pleroma clients."""

    emoji_reactions: list[EmojiReaction]


class Status(StatusContent, kw_only=True):
    """A post or share. Keys about the viewer, such as `favourited`, are absent for anonymous callers."""

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
    """Present on the viewer's own statuses."""
    filtered: list[FilterResult] | UnsetType = UNSET
    reactions: list[EmojiReaction] | UnsetType = UNSET
    """Emoji on the status, oldest first; absent if there are none. Declared reactions are in `shoal`."""
    pleroma: PleromaExtras | UnsetType = UNSET
    """Equal to `reactions`, for Pleroma clients."""
    text: str | UnsetType = UNSET
    """The source text; only in the response to a deletion."""


class ContextExtras(msgspec.Struct):
    """How to read the rest of a long thread."""

    replies: str
    """The URL of all direct replies to the status, in pages. Every status has such a URL."""


class StatusContext(msgspec.Struct):
    """The thread of a status: `ancestors` with the root first, `descendants` in reading order."""

    ancestors: list[Status]
    descendants: list[Status]
    shoal: ContextExtras | UnsetType = UNSET
    """Present if the thread has more replies than `descendants` can hold."""


class Likers(msgspec.Struct):
    """The number of accounts that like a status, and the newest of them."""

    count: int
    newest: list[Account]


class Received(msgspec.Struct):
    """Numbers of likes and shares of all posts of an account."""

    likes: int
    shares: int


class StatusSource(msgspec.Struct):
    """The source text of a status, for editing."""

    id: str
    text: str
    spoiler_text: str


class PollEditOption(msgspec.Struct):
    """A poll option in a revision."""

    title: str


class PollEdit(msgspec.Struct):
    """The poll in a revision."""

    options: list[PollEditOption]


class StatusEdit(msgspec.Struct, kw_only=True):
    """A revision of a status."""

    content: str
    spoiler_text: str
    sensitive: bool
    created_at: str
    account: Account
    media_attachments: list[MediaAttachment]
    poll: PollEdit | UnsetType = UNSET
    emojis: list[CustomEmoji] = []


class Relationship(msgspec.Struct, kw_only=True):
    """The caller's relationship to an account."""

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
