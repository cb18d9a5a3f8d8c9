"""The values of the network: frozen, typed, and the same on every backend.

An object is a `Node`: it has an `id`, which contains its shard, and a `version` that each change increments. All other
relations between objects are associations (`graph/schema.py`). Moments are Unix milliseconds, UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, NamedTuple

import msgspec

from shoal.core.ids import milliseconds_of
from shoal.core.places import Place, PlacePrecision
from shoal.core.text import isolated
from shoal.core.tokens import TokenUse


class Treatment(StrEnum):
    """The effect of a rule on the notifications to which it applies."""

    ACCEPT = "accept"
    FILTER = "filter"
    """Hold them back until the member accepts the sender."""
    DROP = "drop"


class NoticePolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rules for the notifications that a member wants to see at once. If several rules apply, the strictest counts."""

    not_following: Treatment = Treatment.ACCEPT
    """For senders whom the member does not follow."""
    not_followers: Treatment = Treatment.ACCEPT
    """For senders who do not follow the member, or have for less than three days."""
    new_accounts: Treatment = Treatment.ACCEPT
    """For senders who joined in the last thirty days, and whom the member does not follow."""
    private_mentions: Treatment = Treatment.ACCEPT
    """For direct posts of senders whom the member does not follow, in threads that the member did not begin."""
    limited_accounts: Treatment = Treatment.ACCEPT
    """For silenced senders whom the member does not follow."""


ACCEPT_ALL = NoticePolicy()


class Review(StrEnum):
    """A post's place in the review that reports of it bring about."""

    NONE = ""
    WAITING = "waiting"
    """Many members reported it, and no moderator has closed a report of it."""
    CLEARED = "cleared"
    """Moderators dismissed a report of it: further reports do not take it out of public lists."""
    UPHELD = "upheld"
    """Moderators found a report of it right."""


HELD = (Review.WAITING, Review.UPHELD)
"""Reviews of posts that are kept out of public lists."""


class Node(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """The base class of all objects: values, of which no cycles are collected. `replace` makes the next version of one."""

    id: int
    version: int = 1


class Visibility(StrEnum):
    """Readers that a post is for. `unlisted` is public but in no public list; `direct` is for the members it mentions."""

    PUBLIC = "public"
    UNLISTED = "unlisted"
    FOLLOWERS = "followers"
    DIRECT = "direct"


OPEN = (Visibility.PUBLIC, Visibility.UNLISTED)
"""Visibilities of posts that everybody may see."""


class MediaKind(StrEnum):
    """The type of a media file."""

    IMAGE = "image"
    VIDEO = "video"
    GIFV = "gifv"  # a video without sound that plays over and over
    AUDIO = "audio"


class MediaState(StrEnum):
    """How far a media file is."""

    READY = "ready"
    PROCESSING = "processing"
    """Waiting to be converted into the form that is shown."""
    FAILED = "failed"
    """The conversion failed; the file was deleted."""


class Role(StrEnum):
    """A member's permissions over the whole network."""

    NONE = ""
    MODERATOR = "moderator"
    """Reads reports, and acts on them."""
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        """Place in the order of roles: a role includes the permissions of those with a lower rank."""
        return list(Role).index(self)


QuotePolicy = Literal["public", "followers", "nobody"]
"""A member's choice of who may quote their posts. It is only passed on to clients: Shoal has no quotes."""


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
    """Whether a follow begins with a request that the member must accept."""
    hides_connections: bool = False
    """Whether the lists of their followers and followees are visible to themselves alone."""
    indexable: bool = True
    """Whether others can find their public posts by the words in them."""
    folds_shares: bool = True
    """Whether a post that was shared several times appears once in their timelines."""
    silenced: bool = False
    """Moderation: their posts appear in no public list, except to their followers."""
    sensitized: bool = False
    """Moderation: the media of all their posts are shown as sensitive."""
    pending: bool = False
    """Whether they wait for approval. They are `suspended` too, so all that hides suspended members hides them."""
    unconfirmed: bool = False
    """Whether they must show first that they read the mail of their address. They are `pending` too."""
    disabled: bool = False
    """Moderation: they cannot log in; their posts stay."""
    role: Role = Role.NONE
    second_factor: bool = False
    """Whether a login asks for a code besides the password. `Login.second` has what it is checked with."""
    generation: int = 0
    """Number of password changes. Tokens and codes of an earlier generation are no longer valid."""
    notices: NoticePolicy = ACCEPT_ALL
    media_bytes: int = 0
    """Bytes of the files of all the member's media; avatar and header do not count."""
    attribution_domains: tuple[str, ...] = ()
    """Websites that may name the member as an author."""
    quote_policy: QuotePolicy = "nobody"
    place_precision: PlacePrecision = PlacePrecision.KM
    rankable: bool = True
    """Whether their posts may appear in feeds that are ranked."""
    asks_descriptions: bool = True
    """Whether the web app asks before it posts a picture without a description."""
    departure_id: int = 0
    """The `Departure` of a member who asked for their account to be deleted; 0: they stay. They are `suspended` too."""
    invited_by: int = 0
    """The member who invited them; 0: nobody did."""
    follows_inviter: bool = False
    """Whether they follow who invited them, once they need not wait for approval any more."""
    email_hash: str = ""
    """Hash of the e-mail address by which others may find the member (`core.email`); empty: they may not."""
    dated: int = msgspec.field(default=0, name="created_at")
    """When the member joined, where that is not the moment of the id (an import). Use `created_at`."""

    @property
    def created_at(self) -> int:
        """When the member joined, in Unix milliseconds."""
        return self.dated or milliseconds_of(self.id)

    @property
    def shown_name(self) -> str:
        """Return the display name, or else the user name, for use within text of either direction."""
        return isolated(self.display_name or self.name)

    def unguarded(self, *, required: bool) -> bool:
        """Return whether they have no second factor although their role asks for one. `required`: the network wants that."""
        return required and self.role is not Role.NONE and not self.second_factor

    @property
    def findable_by_email(self) -> bool:
        """Whether others who know the member's e-mail address can find them by it."""
        return self.email_hash != ""


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
    """The post at the top of the thread; 0 for a post that is not a comment."""
    place: Place | None = None
    json: str = msgspec.field(default="", name="data")
    """An application's own JSON, at most 64 KiB, as text; empty: there is none. `data` is its value."""
    dated: int = msgspec.field(default=0, name="created_at")
    """When it was written, where that is not the moment of the id (an import). Use `created_at`."""
    edited_at: int = 0
    app_id: int = 0
    poll_id: int = 0
    hidden: int = 0
    """Why it is hidden and does not count: `HIDDEN_BY_MODERATION`, `HIDDEN_WITH_AUTHOR`, or both (a sum)."""
    untrendable: bool = False
    """Moderation: it is left out of all trends."""
    review: Review = Review.NONE

    @property
    def created_at(self) -> int:
        """When the post was written, in Unix milliseconds."""
        return self.dated or milliseconds_of(self.id)

    @property
    def data(self) -> Any:
        """The application's own JSON as a Python value; None when there is none."""
        return msgspec.json.decode(self.json) if self.json else None

    @property
    def open(self) -> bool:
        """Whether everybody may find it: it is public or unlisted, and not hidden. Public counts are of such posts."""
        return self.visibility in OPEN and not self.hidden

    @property
    def published(self) -> bool:
        """Whether it appears in the public timeline: it is public, and not a comment on somebody else's post."""
        answers_another = self.parent_id and self.parent_author_id != self.author_id
        return self.visibility is Visibility.PUBLIC and not answers_another


class Revision(Node, frozen=True, tag="revision"):
    """A former wording of an edited post."""

    post_id: int
    text: str = ""
    spoiler: str = ""
    sensitive: bool = False
    media: tuple[int, ...] = ()
    descriptions: tuple[str, ...] = ()
    """Descriptions of the media at that time, in their order; none in revisions from before they were kept."""
    options: tuple[str, ...] = ()
    """Options of the poll at that time."""
    written: int = 0
    """When this wording was published, in Unix milliseconds."""


class Share(Node, frozen=True, tag="share"):
    """A member's act of showing a post to their own followers (a boost)."""

    author_id: int
    post_id: int
    post_author_id: int
    visibility: Visibility = Visibility.PUBLIC


class Sound(NamedTuple):
    """Technical properties of an audio track."""

    codec: str
    rate: int  # samples per second
    channels: int


class Media(Node, frozen=True, tag="media"):
    """An uploaded picture, video or sound. What is stored is encoded anew from the upload, without its metadata.

    `core.media_files` lists all of its files: some have a smaller copy beside them.
    """

    owner_id: int
    kind: MediaKind = MediaKind.IMAGE
    state: MediaState = MediaState.READY
    content_type: str = "image/jpeg"
    key: str = ""
    """Key in the media store of the picture in feed size, or of the clip."""
    original_key: str = ""
    """Key of the upload of a video or sound, which is deleted once the clip was made or has failed.

    For a picture: key of the file in full resolution, if that is kept; encoded anew like the rest.
    """
    preview_key: str = ""
    """Key of the small size of a picture, a frame of a video, or the cover of a sound; empty when there is none."""
    width: int = 0
    height: int = 0
    preview_width: int = 0
    preview_height: int = 0
    size: int = 0
    """Bytes of the file behind `key`."""
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
    """Bytes of all its files except the preview's."""
    preview_bytes: int = 0
    """Bytes of the preview and of the copy beside it."""
    unused_since: int = 0
    """When the last post stopped using it, in Unix milliseconds; 0 while a post, or the history of one, uses it."""
    let_go: bool = False
    """Whether every post that used it is deleted. It is not served until another post uses it."""
    ticket_id: int = 0
    """The ticket on the agenda to check whether it is still unused; 0 when none is planned."""
    failure: str = ""
    """Why the conversion failed, as the owner reads it."""

    @property
    def stored(self) -> int:
        """Bytes of all its files."""
        return self.file_bytes + self.preview_bytes


class PollOption(NamedTuple):
    """One option of a poll. The id is the object that votes lead to: it has no node."""

    id: int
    title: str


class Poll(Node, frozen=True, tag="poll"):
    """The question of a post. Votes are associations from the voter to the poll, and to each option they chose."""

    owner_id: int
    post_id: int
    options: tuple[PollOption, ...] = ()
    multiple: bool = False
    hide_totals: bool = False
    """Whether the votes for each option stay hidden until the poll is over."""
    expires_at: int = 0  # Unix milliseconds
    ticket_id: int = 0
    """The ticket on the agenda for the poll's end; 0 once it is over."""


class ScheduledPost(Node, frozen=True, tag="scheduled_post"):
    """A post that will be published at a later time."""

    owner_id: int
    at: int  # Unix milliseconds
    draft: bytes = b""
    """The draft that the post will be made from, as `commands.scheduled_posts` encodes it."""
    app_id: int = 0
    ticket_id: int = 0
    """The ticket on the agenda for the next attempt to publish it; 0 when there is none."""
    refused: str = ""
    """Why publishing it was refused last, in English; empty if it was not refused since `at` was set."""


class App(Node, frozen=True, tag="app"):
    """A client app. It expires (`ticket_id`) unless it is `kept`, because it was given a token or a code."""

    name: str
    redirect_uris: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    website: str = ""
    secret_hash: bytes = b""
    ticket_id: int = 0
    kept: bool = False


HALFWAY = "halfway"
"""The only scope of a browser's token whose member has shown a password, and no code of the second factor yet."""


class Token(Node, frozen=True, tag="token"):
    """A bearer token: of a member, or of an app alone when `member_id` is 0. Only a hash of its secret is kept.

    A token without an app is a browser session: it opens the pages where apps are authorized, and nothing else.
    """

    app_id: int
    member_id: int = 0
    scopes: tuple[str, ...] = ()
    secret_hash: bytes = b""
    generation: int = 0
    """The member's `generation` when they logged in."""
    use: TokenUse = TokenUse()


class Grant(Node, frozen=True, tag="grant"):
    """An authorization code, valid for one exchange and kept until it expires: so a second exchange is noticed."""

    app_id: int
    member_id: int
    scopes: tuple[str, ...] = ()
    redirect_uri: str = ""
    challenge: str = ""
    """The PKCE challenge (S256); empty when the client sent none."""
    secret_hash: bytes = b""
    generation: int = 0
    """The member's `generation` when they logged in."""
    expires_at: int = 0  # Unix milliseconds
    token_id: int = 0
    """The token that the code was exchanged for; 0 before."""


class Report(Node, frozen=True, tag="report"):
    """A member tells those who look after the network about another."""

    reporter_id: int
    target_id: int
    post_ids: tuple[int, ...] = ()
    comment: str = ""
    category: str = "other"
    forwarded: bool = False
    rule_ids: tuple[str, ...] = ()
    assigned_to: int = 0
    closed_at: int = 0
    """Unix milliseconds; 0 while it is open."""
    closed_by: int = 0
    upheld: bool | None = None
    """Whether moderators found it right; None while it is open, and for one that was closed before they said so."""


class Album(Node, frozen=True, tag="album"):
    """An album. Who may see a photo in it is decided by the photo's post."""

    owner_id: int
    title: str
    description: str = ""

    @property
    def created_at(self) -> int:
        """When the album was made, in Unix milliseconds."""
        return milliseconds_of(self.id)


class RepliesPolicy(StrEnum):
    """Which comments appear in the timeline of a list."""

    FOLLOWED = "followed"
    """Comments on posts of anybody whom the owner follows."""
    LIST = "list"
    """Comments on posts of members of the list."""
    NONE = "none"


class MemberList(Node, frozen=True, tag="member_list"):
    """A list of members whose posts its owner reads in a timeline of their own."""

    owner_id: int
    title: str
    replies: RepliesPolicy = RepliesPolicy.LIST
    exclusive: bool = False
    """Whether posts of its members are left out of the owner's home timeline."""


DAY_MS = 86_400_000
RECEIPT_DAYS = 365
"""Days for which a receipt is kept after everything was deleted."""


class Departure(Node, frozen=True, tag="departure"):
    """A member who leaves. It outlives the member, as the receipt: how much there was of what, and when it was deleted."""

    member_id: int
    name: str
    """The user name, which nobody gets again."""
    asked_at: int
    at: int
    """When everything is to be deleted; until then the member may come back."""
    ticket_id: int
    secret_hash: bytes
    """Hash of the secret in the address of the receipt."""
    counts: Mapping[str, int] = msgspec.field(default_factory=dict)
    """How many of each kind there were when the deletion began, and the bytes of files; empty before."""
    begun_at: int = 0
    """When the deletion began; 0: it has not, and the member may come back."""
    done_at: int = 0
    """When the last of it was deleted; 0: it is not done."""
