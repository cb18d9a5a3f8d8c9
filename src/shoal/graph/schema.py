"""The schema of the graph: association types with their inverses, key spaces, and the encoding of objects.

A feature such as bookmarks starts with a row here. Type numbers are stored and never change their meaning.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import msgspec

from shoal.core.blocklists import CanonicalEmailBlock, EmailDomainBlock, IpBlock, NameBlock
from shoal.core.bulk_moderation import BulkAction
from shoal.core.credentials import ChallengeKey, Login
from shoal.core.email import ContactSalt, EmailToken
from shoal.core.errors import NewerNeeded
from shoal.core.external_ids import ExternalId, ExternalLink, ExternalObject
from shoal.core.feeds.declarations import NamedFeed
from shoal.core.filters import Filter
from shoal.core.ids import SEQUENCE_BITS, named, shard_of
from shoal.core.kinds import PostKind
from shoal.core.model import (
    AccountDeletion,
    Album,
    App,
    AuthorizationCode,
    ImportProgress,
    Media,
    Member,
    MemberList,
    Poll,
    Post,
    ProductToken,
    Report,
    Revision,
    ScheduledPost,
    Share,
    Token,
)
from shoal.core.moderation_rules import StoredRules
from shoal.core.placement import DATA_SOURCES, SHARDS_PER_SOURCE, place, source_of
from shoal.core.publishing import HeldContent
from shoal.core.ranking.preferences import FeedPreferences, SeenPosts
from shoal.core.reactions import StoredReactions
from shoal.core.signup import Invitation
from shoal.core.webhooks import Webhook, WebhookLog


class AssocType(msgspec.Struct, frozen=True, eq=False):
    """One type of association.

    - `inverse`: number of the type of the other direction, 0 for none.
    - `aggregated`: also counted at a third object, the `aggregate_id` of the operation, e.g. the likes of a post at its author.
    - `positional`: the time of an association is its position in a list, not the time of the act. Tombstones therefore do not show
      their age and are kept permanently.
    - `counted`: false for lists that commits of all members change, because every commit would wait for the row of the count.
    - `ranked`: stores keep an index that finds the rank of an entry in O(log n).
    - `history`: number of a type, or 0. The time of every begin and end is recorded (`payloads/follows`): in the tombstone or,
      while the association is alive, in a tombstone of that other type. Both kinds of tombstones are kept longer than others.
    - `ended_listed`: tombstones can be listed by the time of the deletion, as live associations can by their time.
    - `versioned`: the data of an association is a version. An operation that is not later than the stored association has no
      effect, because its version is outdated; for other types, its time is raised.
    - `covered`: lists are long, or many are read at once, and no entry has more than 2,000 bytes of data. PostgreSQL keeps the
      data in the index of the list too, and reads only the index.
    """

    number: int
    name: str
    inverse: int = 0
    aggregated: bool = False
    positional: bool = False
    counted: bool = True
    ranked: bool = False
    history: int = 0
    ended_listed: bool = False
    covered: bool = False
    versioned: bool = False

    def __repr__(self) -> str:
        return self.name.upper()


FOLLOWS = AssocType(1, "follows", inverse=2, history=92, covered=True)  # member -> member
FOLLOWED_BY = AssocType(2, "followed_by", inverse=1, history=93, ended_listed=True, covered=True)
BLOCKS = AssocType(3, "blocks", inverse=4)
BLOCKED_BY = AssocType(4, "blocked_by", inverse=3)
MUTES = AssocType(5, "mutes")
LIKES = AssocType(7, "likes", inverse=8, covered=True)  # member -> post
LIKED_BY = AssocType(8, "liked_by", inverse=7, aggregated=True, covered=True)
SHARES = AssocType(9, "shares", inverse=10)  # member -> post; data: the id of the share, 8 bytes
SHARED_BY = AssocType(10, "shared_by", inverse=9, aggregated=True)
BOOKMARKS = AssocType(11, "bookmarks", inverse=12)
BOOKMARKED_BY = AssocType(12, "bookmarked_by", inverse=11)
POSTED = AssocType(13, "posted", ranked=True, covered=True)  # member -> post or share; time: id of the entry
COMMENTS_ON = AssocType(14, "comments_on", inverse=15)  # comment -> post
COMMENTED_BY = AssocType(15, "commented_by", inverse=14, covered=True)
TAGGED = AssocType(16, "tagged", inverse=17, positional=True)  # post -> tag
TAG_OF = AssocType(17, "tag_of", inverse=16, positional=True, ranked=True, covered=True)
REVISED = AssocType(18, "revised")  # post -> revision
OWNS = AssocType(19, "owns")  # member -> media
LOGGED_IN = AssocType(20, "logged_in")  # member -> token
FOLLOWS_TAG = AssocType(21, "follows_tag", inverse=22)  # member -> tag
TAG_FOLLOWED_BY = AssocType(22, "tag_followed_by", inverse=21, covered=True)
HIGH_FAN_OUT = AssocType(23, "loud")  # `EVERYBODY` -> high-fan-out source of posts
REQUESTS = AssocType(24, "requests", inverse=25)  # member -> locked member: a follow request
REQUESTED_BY = AssocType(25, "requested_by", inverse=24)
NOTES = AssocType(26, "notes")  # member -> member; data: a private note
ENDORSES = AssocType(27, "endorses")  # member -> member, shown on the profile
WATCHES = AssocType(28, "watches", inverse=29)  # member -> member: is notified of what they post
WATCHED_BY = AssocType(29, "watched_by", inverse=28)
DISMISSES = AssocType(30, "dismisses")  # member -> member: dismissed suggestion
FEATURES_TAG = AssocType(31, "features_tag")  # member -> tag, shown on the profile; data: its name
PINS = AssocType(32, "pins")  # member -> own post
MUTES_THREAD = AssocType(33, "mutes_thread")  # member -> root of a thread
VOTES = AssocType(34, "votes", inverse=35)  # member -> poll; data: the chosen options, a byte each
VOTED_BY = AssocType(35, "voted_by", inverse=34)
CHOOSES = AssocType(36, "chooses", inverse=37)  # member -> option of a poll
CHOSEN_BY = AssocType(37, "chosen_by", inverse=36)
SCHEDULES = AssocType(38, "schedules")  # member -> scheduled post
DUE_ON = AssocType(39, "due_on", inverse=40, counted=False)  # ticket -> agenda; time: when it is due; data: due object
DUE = AssocType(40, "due", inverse=39, counted=False)  # agenda -> ticket
OWNS_LIST = AssocType(41, "owns_list")  # member -> list
LISTS = AssocType(42, "lists", inverse=43)  # list -> member
LISTED_IN = AssocType(43, "listed_in", inverse=42)
OWNS_FILTER = AssocType(44, "owns_filter")  # member -> filter
NOTIFIED = AssocType(45, "notified")  # member -> notification (id made of its name); data: kind, actor, object
CONVERSES = AssocType(46, "converses")  # member -> thread of direct posts (id made of its root); time: newest post
MARKED = AssocType(47, "marked")  # member -> timeline (id made of its name); data: last read id, version
PUBLISHED = AssocType(
    48, "published", counted=False, covered=True
)  # public list of a data source -> public post that is no comment
FILED = AssocType(49, "filed", inverse=50)  # report -> `EVERYBODY`
REPORTED = AssocType(50, "reported", inverse=49)
SERVES = AssocType(51, "serves", inverse=52)  # member with a role -> `EVERYBODY`
STAFF = AssocType(52, "staff", inverse=51)
EXPIRING = AssocType(53, "expiring")  # member -> expiring object: authorization code, browser login
ATTACHED = AssocType(54, "attached")  # media -> post it was attached to; the post says whether it still is
RESTRICTED_COMMENTS_ON = AssocType(55, "comments_aside_on", inverse=56)  # comment that not everyone may see -> post
RESTRICTED_COMMENTED_BY = AssocType(56, "commented_aside_by", inverse=55)
POSTED_TO_FOLLOWERS = AssocType(57, "posted_to_followers")  # member -> own followers-only post or share
IN_THREAD = AssocType(59, "in_thread", inverse=60, counted=False)  # comment -> thread root; data: parent, author
THREAD = AssocType(60, "thread", inverse=59, counted=False)
POSTED_RESTRICTED = AssocType(58, "posted_aside")  # member -> own direct or hidden post
HELD = AssocType(64, "held")  # member -> notification held back by their policy; data as of `NOTIFIED`
ACCEPTS_NOTICES = AssocType(65, "accepts_notices")  # member -> member exempt from their notification policy
BLOCKS_EMAIL_DOMAIN = AssocType(70, "blocks_email_domain")  # `EVERYBODY` -> e-mail domain block
BLOCKS_EMAIL = AssocType(71, "blocks_email")  # `EVERYBODY` -> canonical e-mail block
BLOCKS_IP = AssocType(72, "blocks_ip")  # `EVERYBODY` -> IP block
IP_BLOCKS_CHANGED = AssocType(73, "ip_blocks_changed")  # `EVERYBODY` -> `EVERYBODY`; time: last change of any IP block
REACTS = AssocType(74, "reacts", inverse=75)  # member -> post; data: their emoji on it, each with its position
REACTED_BY = AssocType(75, "reacted_by", inverse=74)
SHOWS_EMOJI = AssocType(76, "shows_emoji")  # post -> emoji position (an id); data: its number, emoji
PUTS_EMOJI = AssocType(77, "puts_emoji", inverse=78)  # member -> emoji position; data: the id of the post, 8 bytes
EMOJI_PUT_BY = AssocType(78, "emoji_put_by", inverse=77)
REPORTS_POST = AssocType(79, "reports_post", inverse=80)  # member -> post; data: ids of their reports, 8 bytes each
POST_REPORTED_BY = AssocType(80, "post_reported_by", inverse=79)
REPORT_UPHELD = AssocType(81, "report_upheld")  # member -> own report that was upheld
REPORT_DISMISSED = AssocType(82, "report_dismissed")  # member -> own report that was dismissed
ACTIVE = AssocType(83, "active", counted=False)  # public list -> post; time: minute of the newest reaction
PLACED_IN = AssocType(85, "placed_in", inverse=86, positional=True, counted=False)  # public post -> map cell
CELL_OF = AssocType(86, "cell_of", inverse=85, positional=True, counted=False)
DECLARES = AssocType(90, "declares", inverse=91, counted=False)  # member -> their handle elsewhere, or email hash
DECLARED_BY = AssocType(91, "declared_by", inverse=90, counted=False)
FOLLOW_TIMES = AssocType(92, "follow_times", inverse=93, counted=False)  # member -> member; data: times of (un)follows
FOLLOWER_TIMES = AssocType(93, "follower_times", inverse=92, counted=False, ended_listed=True)
HISTORY_START = AssocType(94, "history_kept", counted=False)  # `EVERYBODY` -> `EVERYBODY`; time: start of follow times
BLOCKS_NAME = AssocType(97, "blocks_name")  # `EVERYBODY` -> name block
OWNS_ALBUM = AssocType(98, "owns_album")  # member -> album
COLLECTS = AssocType(99, "collects", inverse=100)  # album -> own media; data: the post that shows it, its position
COLLECTED_IN = AssocType(100, "collected_in", inverse=99)
PUSHES = AssocType(101, "pushes")  # member -> session token; data: push endpoint and keys
OWNS_INVITATION = AssocType(102, "owns_invitation")  # member -> invitation
EXTERNAL_IDS = AssocType(115, "external_ids")  # member -> link of an external id
SERVER_KEYS = AssocType(114, "server_keys")  # `EVERYBODY` -> app of a server key
TOKEN_USE_START = AssocType(104, "token_uses_kept", counted=False)  # `EVERYBODY` -> `EVERYBODY`; time: start of records
BULK_ACTIONS = AssocType(140, "bulk_actions")  # `EVERYBODY` -> bulk action
BULK_CHANGED = AssocType(141, "bulk_changed")  # post -> bulk action that changed it; data: the action, as text
REMOVED_PICTURES = AssocType(
    142, "removed_pictures", counted=False
)  # public list -> post hidden by moderators; data: blurhashes
WEBHOOKS = AssocType(120, "webhooks")  # `EVERYBODY` -> webhook
PARKED_EVENTS = AssocType(121, "parked_events")  # webhook -> parked event (an id made of its id); data: the event
HOLDS = AssocType(130, "holds")  # member -> own held content
QUEUED = AssocType(131, "queued", inverse=132, counted=False)  # held content that waits for a decision -> `EVERYBODY`
QUEUE = AssocType(132, "queue", inverse=131)
INDEXED = AssocType(
    161, "indexed", inverse=162, positional=True, counted=False, versioned=True
)  # post of a kind -> list of the index of its kind (an id made of the list's name)
INDEX_OF = AssocType(162, "index_of", inverse=161, positional=True, counted=False, versioned=True)
KINDS = AssocType(160, "kinds")  # `EVERYBODY` -> kind
REACTIONS = AssocType(175, "reactions")  # `EVERYBODY` -> the object with all declared reactions
OWNS_FEED = AssocType(165, "owns_feed")  # member, or `EVERYBODY` -> named feed
FOLLOWS_FEED = AssocType(166, "follows_feed")  # member -> named feed, which may be deleted
SETS_FEED = AssocType(167, "sets_feed", counted=False)  # the same; data: values of its parameters, as JSON
AUDITED = AssocType(103, "audited", counted=False)  # public list or member -> audit entry; data: entry or IP address

LEADING_TO_LOGINS = (LOGGED_IN, EXPIRING, PUSHES)
"""Types that lead from a member to a token or an authorization code, and are deleted with it."""


def by_number(types: Iterable[AssocType]) -> dict[int, AssocType]:
    """Index association types by number. Raises `ValueError` if two types have one number, because stores would confuse them."""
    found: dict[int, AssocType] = {}
    for atype in types:
        if found.setdefault(atype.number, atype) is not atype:
            raise ValueError(
                f"association types {found[atype.number]!r} and {atype!r} both have the number {atype.number}"
            )
    return found


ASSOC_TYPES = by_number(value for value in list(globals().values()) if isinstance(value, AssocType))


class PostMark(msgspec.Struct, frozen=True):
    """A private mark that members put on posts they may see, such as a bookmark. It is deleted with the post and with the member.

    A row of `POST_MARKS` declares a mark. Commands, viewer state, cleanup, account deletion, export, API routes and the state in a
    status follow from it; docs/new-feature.md lists the rest. Append new rows at the end: waiting jobs that clean up deleted posts
    store how many of their steps are done.
    """

    verb: str
    """Name of the API routes that set (`bookmark`) and remove (`unbookmark`) the mark."""
    state: str
    """Field of a status that states whether the viewer marked it."""
    noun: str
    """Plural: name of the API list, of the OAuth scopes, of the file in an export and of the count of an account deletion."""
    atype: AssocType
    """Association from the member to the post."""
    inverse: AssocType


BOOKMARK = PostMark("bookmark", "bookmarked", "bookmarks", BOOKMARKS, BOOKMARKED_BY)
POST_MARKS = (BOOKMARK,)
"""The position of a mark is the number of its bit in `Entry.marks` of `queries/hydration.py`. It is not stored."""


POST_COUNTS = (LIKED_BY, SHARED_BY, COMMENTED_BY, REACTED_BY)
"""Types whose counts are shown with a post."""
MEMBER_COUNTS = (FOLLOWED_BY, FOLLOWS, POSTED, POSTED_RESTRICTED, POSTED_TO_FOLLOWERS)
"""Types whose counts are shown with a member."""
VIEWER_LISTS = (
    *(BLOCKS, BLOCKED_BY, MUTES, LIKES, SHARES, MUTES_THREAD, REPORTS_POST, BOOKMARKS, PINS, VOTES, REACTS),
    *(FOLLOWS_TAG, OWNS_LIST, OWNS_FILTER),
)
"""Types of a viewer's lists that decide how pages look to them. Most of these lists are empty, which their counts tell."""

WITH_HISTORY = frozenset((FOLLOWS.number, FOLLOWED_BY.number, FOLLOWS.history, FOLLOWED_BY.history))
"""Numbers of the types whose tombstones are kept longer, because they contain a history."""
UNSWEPT = WITH_HISTORY | {atype.number for atype in ASSOC_TYPES.values() if atype.positional}
"""Numbers of the types whose tombstones `sweep` keeps. Tombstones of `positional` types are kept permanently."""


EVERYBODY = named("list", "everybody")
"""The `id1` of the lists that belong to the whole network."""
AGENDA = named("list", "agenda")
"""The `id1` of the list of due objects."""


def public_list(shard: int) -> int:
    """Return the id of the public list for posts on this shard. Each data source has one such list.

    A post and this list are in one data source, so the commit of the post can add it to the list.
    """
    return _first_id(source_of(shard))


def _first_id(source: int) -> int:
    """Return an id of the first millisecond, on the first shard of a data source. No id generator returns it."""
    return source * SHARDS_PER_SOURCE << SEQUENCE_BITS | 1


PUBLIC_LISTS = tuple(_first_id(source) for source in range(DATA_SOURCES))
"""The lists that together are the public timeline."""


@lru_cache(maxsize=32_768)
def tag_id(canonical: str) -> int:
    """Return the id of a tag, from its canonical form. Cached, because it takes two hashes, and the same tags occur often."""
    return named("tag", canonical)


@lru_cache(maxsize=32_768)
def cell_id(cell: str) -> int:
    return named("cell", cell)


def index_id(name: str) -> int:
    """Return the id of a list of the index of a kind, from its name (`core.kind_index`)."""
    return named("index", name)


def feed_name_id(name: str) -> int:
    """Return the id of the event (`NamedFeedChanged`) for a new feed of the server with this name."""
    return named("feed_name", name)


def user_name_id(name: str) -> int:
    """Return the id of the event for the registration of this user name, which readers of named feeds receive."""
    return named("user_name", name)


def feeds_of_id(owner_id: int) -> int:
    """Return the id of the event for the suspension or restoration of a member, which readers of their feeds receive."""
    return named("feeds_of", str(owner_id))


def feed_access_id(member_id: int, other_id: int) -> int:
    """Return the id of the event for a block between two members, who may read each other's feeds."""
    return named("feed_access", f"{min(member_id, other_id)}:{max(member_id, other_id)}")


def handle_id(handle: str) -> int:
    return named("handle", handle)


def email_hash_id(digest: str) -> int:
    return named("email_hash", digest)


def is_tag(source: int) -> bool:
    """Return whether a source of posts is a tag: tag ids are hashes of names, and negative."""
    return source < 0


def following(source: int) -> AssocType:
    return FOLLOWS_TAG if is_tag(source) else FOLLOWS


def followers(source: int) -> AssocType:
    return TAG_FOLLOWED_BY if is_tag(source) else FOLLOWED_BY


def entries(source: int) -> AssocType:
    return TAG_OF if is_tag(source) else POSTED


class Key(NamedTuple):
    """A unique name in a namespace. Its shard must be derivable from what readers know, such as the name."""

    shard: int
    space: str
    name: str


USER_NAME = "user_name"


def user_name_key(name: str) -> Key:
    return Key(place(name).shard, USER_NAME, name)


def email_key(address: str) -> Key:
    return Key(place(address).shard, "email", address)


def email_domain_block_key(domain: str) -> Key:
    return Key(shard_of(EVERYBODY), "email_domain_block", domain)


def email_block_key(digest: str) -> Key:
    return Key(shard_of(EVERYBODY), "email_block", digest)


def name_block_key(text: str) -> Key:
    """Return the key of a block of user names, given its identifying text (`core.blocklists.key_text`)."""
    return Key(shard_of(EVERYBODY), "name_block", text)


def contact_salt_key() -> Key:
    return Key(shard_of(EVERYBODY), "contact_salt", "")


def challenge_key_key() -> Key:
    return Key(shard_of(EVERYBODY), "challenge_key", "")


def used_challenge_key(shard: int, challenge: bytes) -> Key:
    """Return the key that makes a challenge single-use: the first use reserves the key, so that a second use fails."""
    return Key(shard, "challenge", challenge.hex())


def ip_block_key(network: str) -> Key:
    return Key(shard_of(EVERYBODY), "ip_block", network)


def server_key_key(name: str) -> Key:
    return Key(shard_of(EVERYBODY), "server_key", name)


def external_id_key(external: ExternalId) -> Key:
    digest = external.digest
    return Key(place(digest).shard, "external_id", digest)


def external_object_key(kind: str, external: ExternalId) -> Key:
    """Return the key of the external id of an object. It is on the first shard of a data source.

    `kind` is an `ExternalKind`, or `DELETED_MEMBERS`.
    The keys of a batch of objects are thus on at most 64 shards, and take as few commits.
    """
    digest = external.digest
    return Key(place(digest).a * SHARDS_PER_SOURCE, "external_object", f"{kind}:{digest}")


def import_progress_key(issuer: str) -> Key:
    """Return the key of the progress of mapped imports from a product."""
    return Key(shard_of(EVERYBODY), "import_progress", ExternalId(issuer, "").digest)


def used_jwt_key(jwt: ExternalId) -> Key:
    """Return the key that makes a JWT single-use. `jwt` has its issuer and its claim `jti`."""
    digest = jwt.digest
    return Key(place(digest).shard, "jwt", digest)


def idempotency_key(member_id: int, shard: int, name: str) -> Key:
    """Return the key that leads from an idempotency key of a member to the id of the object that the first request created."""
    return Key(shard, "idempotency", f"{member_id}:{name}")


def share_key(member_id: int, shard: int, post_id: int) -> Key:
    """Return the key that leads from a member and a post to the member's only share of that post."""
    return Key(shard, "share", f"{member_id}:{post_id}")


def vote_key(member_id: int, shard: int, poll_id: int, ordinal: int = 0) -> Key:
    """Return the key of a member's vote in a poll. A concurrent second vote fails because the key is taken.

    In a multiple-choice poll a member may vote several times: `ordinal` is the number of the vote, from 0.
    """
    return Key(shard, "vote", f"{member_id}:{poll_id}:{ordinal}" if ordinal else f"{member_id}:{poll_id}")


def emoji_position_key(shard: int, post_id: int, position: int | str) -> Key:
    """Return the key that reserves a position for an emoji on a post, whose range limits the emoji of a post.

    A declared reaction has its name as the position.
    """
    return Key(shard, "emoji_place", f"{post_id}:{position}")


def emoji_id_key(shard: int, id_: int) -> Key:
    """Return the key that reserves the id under which the reactions with one emoji to one post are counted."""
    return Key(shard, "emoji_id", str(id_))


def file_key(shard: int, number: int) -> Key:
    """Return the key that leads from the `number` in the file names of a media object to its id, where the two differ."""
    return Key(shard, "file", str(number))


def preferences_key(member_id: int) -> Key:
    return Key(shard_of(member_id), "taste", str(member_id))


def seen_key(member_id: int) -> Key:
    return Key(shard_of(member_id), "seen", str(member_id))


def import_key(shard: int, source: str) -> Key:
    """Return the key that leads from an imported record to the object created from it, so that a repeated import finds it."""
    return Key(shard, "import", source)


def feed_key(name: str) -> Key:
    """Return the key that leads from the name of a feed of the server to the feed."""
    return Key(shard_of(EVERYBODY), "feed", name)


def moderation_rules_key() -> Key:
    return Key(shard_of(EVERYBODY), "moderation_rules", "")


def reactions_key() -> Key:
    return Key(shard_of(EVERYBODY), "reactions", "")


def kind_key(name: str) -> Key:
    return Key(shard_of(EVERYBODY), "kind", name)


def backup_key() -> Key:
    """Return the key that records the newest complete backup. Its value is an id made from the time of the backup."""
    return Key(shard_of(EVERYBODY), "backup", "newest")


def tags_folded_key() -> Key:
    return Key(shard_of(EVERYBODY), "upgrade", "tags_folded")


def tags_folding_key() -> Key:
    return Key(shard_of(EVERYBODY), "upgrade", "tags_folding")


AnyNode = (
    Member
    | Login
    | Post
    | Revision
    | Share
    | Media
    | Poll
    | ScheduledPost
    | MemberList
    | Album
    | Invitation
    | Filter
    | Report
    | EmailDomainBlock
    | CanonicalEmailBlock
    | IpBlock
    | NameBlock
    | App
    | Token
    | ProductToken
    | ExternalLink
    | ExternalObject
    | ImportProgress
    | AuthorizationCode
    | FeedPreferences
    | SeenPosts
    | ContactSalt
    | ChallengeKey
    | AccountDeletion
    | EmailToken
    | StoredRules
    | BulkAction
    | Webhook
    | WebhookLog
    | HeldContent
    | PostKind
    | NamedFeed
    | StoredReactions
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[AnyNode] = msgspec.msgpack.Decoder(AnyNode)


def encode_node(node: msgspec.Struct) -> bytes:
    return _encoder.encode(node)


def decode_node(data: bytes) -> AnyNode:
    """Decode an object. Raises `NewerNeeded` for an unknown kind or an unknown value."""
    try:
        return _decoder.decode(data)
    except msgspec.ValidationError as error:
        raise NewerNeeded(
            "an object was written by a newer version of the server: try again in a few seconds"
        ) from error
