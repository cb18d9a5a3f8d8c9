"""The stored objects: frozen, typed, and identical on every backend.

An object is a `Node`: it has an `id`, which contains its shard, and a `version` that each change increments. All other
relations between objects are associations (`graph/schema.py`). Times are Unix milliseconds, UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, NamedTuple

import msgspec

from shoal.core.ids import milliseconds_of
from shoal.core.licenses import License
from shoal.core.photo_details import PhotoDetails
from shoal.core.places import Location, Place, PlacePrecision
from shoal.core.text import isolated
from shoal.core.tokens import TokenLifetime, TokenUse


class Treatment(StrEnum):
    """The treatment of notifications that match a rule of `NoticePolicy`."""

    ACCEPT = "accept"
    FILTER = "filter"
    """Hold the notifications until the member accepts the sender."""
    DROP = "drop"


class NoticePolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """A member's policy for notifications by sender. If several rules match a notification, the strictest applies."""

    not_following: Treatment = Treatment.ACCEPT
    """For senders whom the member does not follow."""
    not_followers: Treatment = Treatment.ACCEPT
    """For senders who do not follow the member, or have followed for less than three days."""
    new_accounts: Treatment = Treatment.ACCEPT
    """For senders who joined in the last thirty days, and whom the member does not follow."""
    private_mentions: Treatment = Treatment.ACCEPT
    """For direct posts by senders whom the member does not follow, in threads that the member did not start."""
    limited_accounts: Treatment = Treatment.ACCEPT
    """For silenced senders whom the member does not follow."""


ACCEPT_ALL = NoticePolicy()


class Review(StrEnum):
    """Whether reports of a post are under review, upheld or dismissed."""

    NONE = ""
    WAITING = "waiting"
    """Many members reported the post, and no moderator has closed a report of it."""
    CLEARED = "cleared"
    """Moderators dismissed a report of the post: further reports do not remove it from public lists."""
    UPHELD = "upheld"
    """Moderators upheld a report of the post."""


HELD = (Review.WAITING, Review.UPHELD)
"""Review states that exclude a post from public lists."""


class Node(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """Base class of all objects: immutable values without reference cycles (`gc=False`). Each change increments `version`."""

    id: int
    version: int = 1


class Visibility(StrEnum):
    """The audience of a post. `unlisted` is public but in no public list; `direct` is for the mentioned members."""

    PUBLIC = "public"
    UNLISTED = "unlisted"
    FOLLOWERS = "followers"
    DIRECT = "direct"


OPEN = (Visibility.PUBLIC, Visibility.UNLISTED)
"""Visibilities of posts that everyone may see."""


class MediaKind(StrEnum):
    IMAGE = "image"
    VIDEO = "video"
    GIFV = "gifv"  # a video without sound that loops
    AUDIO = "audio"


class MediaState(StrEnum):
    READY = "ready"
    PROCESSING = "processing"
    """Waiting for its conversion."""
    FAILED = "failed"
    """The conversion failed; the file was deleted."""


class Role(StrEnum):
    """A member's server-wide permissions."""

    NONE = ""
    MODERATOR = "moderator"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        return list(Role).index(self)


QuotePolicy = Literal["public", "followers", "nobody"]
"""Who may quote a member's posts. The value is only passed on to clients, because Shoal has no quotes."""


class ProfileField(msgspec.Struct, frozen=True, array_like=True):
    """A row of the table on a member's profile, as typed."""

    name: str
    value: str


class Member(Node, frozen=True, tag="member"):
    """An account. `name` is lower-case and never changes; secrets are in `Login`."""

    name: str
    display_name: str = ""
    note: str = ""
    fields: tuple[ProfileField, ...] = ()
    mentions: tuple[Mention, ...] = ()
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
    """Whether follows need the member's approval."""
    hides_connections: bool = False
    """Whether the lists of their followers and followees are visible only to themselves."""
    indexable: bool = True
    """Whether other members can find their public posts by full-text search."""
    folds_shares: bool = True
    """Whether a post that was shared several times appears once in their timelines."""
    silenced: bool = False
    """Moderation: their posts appear in no public list, except to their followers."""
    sensitized: bool = False
    """Moderation: the media of all their posts are shown as sensitive."""
    pending: bool = False
    """Whether they wait for approval. Such members are `suspended` too, so that everything hides them."""
    unconfirmed: bool = False
    """Whether they must confirm their email address first. Such members are `pending` too."""
    disabled: bool = False
    """Moderation: they cannot log in; their posts stay."""
    role: Role = Role.NONE
    second_factor: bool = False
    """Whether a login requires a code in addition to the password. `Login.second` has the secret."""
    generation: int = 0
    """A number that each password change increments. Tokens and codes with a lower number are invalid."""
    notices: NoticePolicy = ACCEPT_ALL
    media_bytes: int = 0
    """Bytes of the files of all the member's media, without avatar and header."""
    attribution_domains: tuple[str, ...] = ()
    """Websites that may name the member as an author."""
    quote_policy: QuotePolicy = "nobody"
    place_precision: PlacePrecision = PlacePrecision.KM
    location: Location | None = None
    """Where the member lives, for the ranking of their feed."""
    shows_location: bool = False
    rankable: bool = True
    """Whether their posts may appear in ranked feeds."""
    shows_replies: bool = False
    """Whether Home in the web app contains replies of followees to other people."""
    asks_descriptions: bool = True
    """Whether the web app asks before it posts a picture without a description."""
    shows_photo_details: bool = False
    default_license: License = License.RESERVED
    allows_downloads: bool = False
    """Whether the photos of new posts may be downloaded."""
    departure_id: int = 0
    """The `AccountDeletion` of a member who requested account deletion; 0 for none. Such members are `suspended` too."""
    invited_by: int = 0
    """The member who invited this member; 0 for none."""
    follows_inviter: bool = False
    """Whether they will follow their inviter once admitted."""
    has_held: bool = False
    """Whether any of their content was ever held for approval, so that pages look for it."""
    email_hash: str = ""
    """Hash of the email address by which others may find the member (`core.email`); empty if they may not."""
    dated: int = msgspec.field(default=0, name="created_at")
    """When the member joined, if an import gave the id another time. Use `created_at`."""

    @property
    def created_at(self) -> int:
        return self.dated or milliseconds_of(self.id)

    @property
    def shown_name(self) -> str:
        """The display name or else the user name, in a form that does not change the direction of the surrounding text."""
        return isolated(self.display_name or self.name)

    def unguarded(self, *, required: bool) -> bool:
        """Return whether the member lacks a second factor that the server requires (`required`) for the member's role."""
        return required and self.role is not Role.NONE and not self.second_factor

    @property
    def findable_by_email(self) -> bool:
        return self.email_hash != ""


class Mention(NamedTuple):
    id: int
    name: str


HIDDEN_BY_MODERATION = 1
HIDDEN_WITH_AUTHOR = 2
"""Reason for which a post is hidden: its author is suspended."""


class Presentation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What clients show of a post whose kind they do not support. Empty texts show nothing."""

    title: str = ""
    link: str = ""
    """An http or https URL."""
    image: str = ""
    """The URL of a picture."""


class Post(Node, frozen=True, tag="post"):
    """A post or, if it has a `parent_id`, a comment."""

    author_id: int
    text: str = ""
    spoiler: str = ""
    sensitive: bool = False
    visibility: Visibility = Visibility.PUBLIC
    language: str = ""
    media: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    """Canonical forms (lower-case NFKC) of the tags, without duplicates, in the order of the text."""
    mentions: tuple[Mention, ...] = ()
    parent_id: int = 0
    parent_author_id: int = 0
    root_id: int = 0
    """The root post of the thread; 0 if this is not a comment."""
    place: Place | None = None
    json: str = msgspec.field(default="", name="data")
    """An application's own JSON, at most 64 KiB, as text; empty for none. `data` is the decoded value."""
    dated: int = msgspec.field(default=0, name="created_at")
    """When the post was written, if an import gave the id another time. Use `created_at`."""
    edited_at: int = 0
    app_id: int = 0
    poll_id: int = 0
    license: License = License.RESERVED
    downloads: bool = False
    """Whether the largest files of the photos may be downloaded."""
    hidden: int = 0
    """Why the post is hidden and not counted: `HIDDEN_BY_MODERATION`, `HIDDEN_WITH_AUTHOR`, or both (a sum)."""
    untrendable: bool = False
    """Moderation: the post is excluded from all trends."""
    review: Review = Review.NONE
    kind: str = ""
    """The name of a kind that an application declared, which `data` matches; empty for none. It never changes."""
    kind_version: int = 0
    """The version of the kind with which the data was checked last."""
    presentation: Presentation | None = None
    """What clients show of `data`, by the hints of the kind."""

    @property
    def created_at(self) -> int:
        return self.dated or milliseconds_of(self.id)

    @property
    def data(self) -> Any:
        """The JSON data that an application stored with the post, as a Python value; None if there is none."""
        return msgspec.json.decode(self.json) if self.json else None

    @property
    def shown_text(self) -> str:
        """The text, with the title and the link of its `presentation` that it does not contain."""
        if self.presentation is None:
            return self.text
        title, link = self.presentation.title, self.presentation.link
        before, after = (title if title not in self.text else ""), (link if link not in self.text else "")
        return "\n\n".join(filter(None, (before, self.text, after)))

    @property
    def open(self) -> bool:
        return self.visibility in OPEN and not self.hidden

    @property
    def published(self) -> bool:
        """Whether the post appears in the public timeline: it is public, and not a comment on another member's post."""
        answers_another = self.parent_id and self.parent_author_id != self.author_id
        return self.visibility is Visibility.PUBLIC and not answers_another


class ImportPosition(msgspec.Struct, frozen=True):
    """How far a section of a mapped import has come. `values` are those of its order columns, as pairs of type and text."""

    values: tuple[tuple[str, str], ...]
    finished: bool = False
    retry: tuple[tuple[str, str], ...] = ()
    """The watermark at which the next import begins instead, if a row at it was rejected because of a missing reference."""


class ImportProgress(Node, frozen=True, tag="import_progress"):
    """The progress of the mapped imports from one product: a position for each section, by its digest."""

    positions: dict[str, ImportPosition] = {}
    bulk: bool = False
    """Whether an import into an empty network is unfinished. It writes members as rows, and fills the search index at its end."""


class Revision(Node, frozen=True, tag="revision"):
    """The former content of an edited post."""

    post_id: int
    text: str = ""
    spoiler: str = ""
    sensitive: bool = False
    media: tuple[int, ...] = ()
    descriptions: tuple[str, ...] = ()
    """Descriptions of the media at that time, in order; empty in revisions created before descriptions were stored."""
    options: tuple[str, ...] = ()
    written: int = 0
    """When this content was published, in Unix milliseconds."""


class Share(Node, frozen=True, tag="share"):
    """A post shown by a member to their own followers (a boost)."""

    author_id: int
    post_id: int
    post_author_id: int
    visibility: Visibility = Visibility.PUBLIC


class Sound(NamedTuple):
    codec: str
    rate: int  # samples per second
    channels: int


class Media(Node, frozen=True, tag="media"):
    """An uploaded picture, video or sound. Stored files are re-encoded from the upload, without its metadata.

    `core.media_files` lists all of its files: pictures have copies and smaller sizes.
    """

    owner_id: int
    kind: MediaKind = MediaKind.IMAGE
    state: MediaState = MediaState.READY
    content_type: str = "image/jpeg"
    key: str = ""
    """Key in the media store of the picture in feed size, or of the clip."""
    original_key: str = ""
    """Key of an uploaded video or sound, which is deleted after its conversion or failure.

    For a picture: key of the re-encoded file in full resolution, if kept. It is served while a post allows downloads.
    """
    preview_key: str = ""
    """Key of the small size of a picture, a frame of a video, or the cover of a sound; empty for none."""
    width: int = 0
    height: int = 0
    preview_width: int = 0
    preview_height: int = 0
    size: int = 0
    """Bytes of the file at `key`."""
    duration: float = 0.0  # seconds
    frame_rate: str = ""
    """Frames per second, as a fraction: `30/1`."""
    bitrate: int = 0  # bits per second
    sound: Sound | None = None
    blurhash: str = ""
    description: str = ""
    focus: tuple[float, float] = (0.0, 0.0)
    """The point that a crop must keep: x and y in -1..1, y upwards."""
    file_bytes: int = 0
    """Bytes of all files of the media, except those of the preview."""
    preview_bytes: int = 0
    """Bytes of the preview, its copy and its smaller sizes."""
    unused_since: int = 0
    """When the last post stopped using the media, in Unix milliseconds; 0 while a post or its edit history uses them."""
    details: PhotoDetails | None = None
    """What the camera stored in the file. Nobody but the owner sees it unless `shows_details` is set."""
    shows_details: bool = False
    let_go: bool = False
    """Whether all posts that used the media are deleted. They are not served until another post uses them."""
    held: bool = False
    """Whether a check held the upload. It is not served, and a post with it is held too, until a moderator approves such a post."""
    ticket_id: int = 0
    """Id of the schedule entry for the check whether the media are still unused; 0 if none is scheduled."""
    failure: str = ""
    """Why the conversion failed, as shown to the owner."""

    @property
    def stored(self) -> int:
        return self.file_bytes + self.preview_bytes

    @property
    def shown_details(self) -> PhotoDetails | None:
        return self.details if self.shows_details else None

    @property
    def largest_key(self) -> str:
        """Key of a picture's largest file: the original for downloads or, without one, `key`; empty for other media."""
        return (self.original_key or self.key) if self.kind is MediaKind.IMAGE else ""


class PollOption(NamedTuple):
    """A poll option. Its id is only used as the target of vote associations, and identifies no object."""

    id: int
    title: str


class Poll(Node, frozen=True, tag="poll"):
    """A poll of a post. Votes are associations from the voter to the poll, and to each chosen option."""

    owner_id: int
    post_id: int
    options: tuple[PollOption, ...] = ()
    multiple: bool = False
    hide_totals: bool = False
    """Whether the votes for each option stay hidden until the poll is closed."""
    expires_at: int = 0  # Unix milliseconds
    ticket_id: int = 0
    """Id of the schedule entry of the poll's end; 0 once the poll is closed."""


class ScheduledPost(Node, frozen=True, tag="scheduled_post"):
    owner_id: int
    at: int  # Unix milliseconds
    draft: bytes = b""
    """The draft, as encoded by `commands.scheduled_posts`."""
    app_id: int = 0
    ticket_id: int = 0
    """Id of the schedule entry of the next attempt to publish the post; 0 if there is none."""
    refused: str = ""
    """Why the last attempt to publish it failed, in English; empty if none has failed since `at` was set."""


class App(Node, frozen=True, tag="app"):
    """A client app. The schedule deletes it at a given time, unless a token or code was issued to it, which sets `kept`.

    A server key is an app that no client can authorize: it has no secret of its own, only tokens.
    """

    name: str
    redirect_uris: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    website: str = ""
    secret_hash: bytes = b""
    ticket_id: int = 0
    kept: bool = False
    server_key: bool = False


HALFWAY = "halfway"
"""The only scope of a browser token whose member has given a password, but no second-factor code yet."""


class Token(Node, frozen=True, tag="token"):
    """A bearer token of a member, or of an app alone if `member_id` is 0. Only a hash of its secret is stored.

    A token without an app is a browser session: it gives access only to the pages where apps are authorized.
    """

    app_id: int
    member_id: int = 0
    scopes: tuple[str, ...] = ()
    secret_hash: bytes = b""
    generation: int = 0
    """The member's `generation` at login. The token is invalid if the member has a higher one now."""
    use: TokenUse = TokenUse()

    @property
    def expires_at(self) -> int:
        """When the token expires, used or not, in Unix milliseconds; 0 for never."""
        return 0

    @property
    def server_key(self) -> bool:
        """Whether this is a secret of a server key. It does not expire for lack of use."""
        return False

    def is_expired(self, now: int, lifetime: TokenLifetime) -> bool:
        """Return whether the token has expired by `now` (Unix ms)."""
        unused = not self.server_key and lifetime.is_over(self.use, now)
        return unused or 0 < self.expires_at <= now


class ProductToken(Token, frozen=True, tag="product_token"):
    """A token of another product: a secret of a server key, or a token for which a JWT of the product was exchanged.

    It is a kind of its own, so that an older version that does not know its restrictions cannot accept it.
    """

    expires_at: int = 0
    server_key: bool = False
    link_id: int = 0
    """The link of the external id in the exchanged JWT; 0 for a server key."""


class AuthorizationCode(Node, frozen=True, tag="grant"):
    """An authorization code. It can be exchanged once, but is stored until it expires, to detect a second exchange."""

    app_id: int
    member_id: int
    scopes: tuple[str, ...] = ()
    redirect_uri: str = ""
    challenge: str = ""
    """The PKCE challenge (S256); empty if the client sent none."""
    secret_hash: bytes = b""
    generation: int = 0
    """The member's `generation` at login. The code is invalid if the member has a higher one now."""
    expires_at: int = 0  # Unix milliseconds
    token_id: int = 0
    """The token for which the code was exchanged; 0 before the exchange."""


class Report(Node, frozen=True, tag="report"):
    reporter_id: int
    target_id: int
    post_ids: tuple[int, ...] = ()
    comment: str = ""
    category: str = "other"
    forwarded: bool = False
    rule_ids: tuple[str, ...] = ()
    assigned_to: int = 0
    closed_at: int = 0
    """Unix milliseconds; 0 while the report is open."""
    closed_by: int = 0
    upheld: bool | None = None
    """The moderators' decision; None while the report is open, and if it was closed without a decision."""


class Album(Node, frozen=True, tag="album"):
    """An album. Each photo has the visibility of its post."""

    owner_id: int
    title: str
    description: str = ""

    @property
    def created_at(self) -> int:
        return milliseconds_of(self.id)


class RepliesPolicy(StrEnum):
    """Which comments appear in the timeline of a list."""

    FOLLOWED = "followed"
    """Comments on posts of all members whom the owner follows."""
    LIST = "list"
    """Comments on posts of the members on the list."""
    NONE = "none"


class MemberList(Node, frozen=True, tag="member_list"):
    """A list of members whose posts its owner reads in a separate timeline."""

    owner_id: int
    title: str
    replies: RepliesPolicy = RepliesPolicy.LIST
    exclusive: bool = False
    """Whether posts of the listed members are excluded from the owner's home timeline."""


DAY_MS = 86_400_000
RECEIPT_DAYS = 365


class AccountDeletion(Node, frozen=True, tag="departure"):
    """The deletion of an account. It outlives the member as the receipt, with counts and dates."""

    member_id: int
    name: str
    """The user name, which is never assigned again."""
    asked_at: int
    at: int
    """When the deletion is to begin; until then it can be canceled."""
    ticket_id: int
    secret_hash: bytes
    counts: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Number of objects of each kind when the deletion began, and the bytes of files; empty before that."""
    begun_at: int = 0
    """When the deletion began; 0 if it has not begun, and can be canceled."""
    done_at: int = 0
    """When the deletion finished; 0 if it has not."""
