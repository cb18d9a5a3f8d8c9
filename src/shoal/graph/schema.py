"""The schema of the graph: every type of association with its inverse, every space of keys, the encoding of objects.

A feature such as bookmarks begins with a row here. Numbers are stored: they never change their meaning.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import msgspec

from shoal.core.blocklists import CanonicalEmailBlock, EmailDomainBlock, IpBlock, NameBlock
from shoal.core.credentials import ChallengeKey, Login
from shoal.core.email import ContactSalt, Proof
from shoal.core.errors import NewerNeeded
from shoal.core.filters import Filter
from shoal.core.ids import SEQUENCE_BITS, named, shard_of
from shoal.core.model import (
    Album,
    App,
    Departure,
    Grant,
    Media,
    Member,
    MemberList,
    Poll,
    Post,
    Report,
    Revision,
    ScheduledPost,
    Share,
    Token,
)
from shoal.core.placement import DATA_SOURCES, SHARDS_PER_SOURCE, place, source_of
from shoal.core.ranking.preferences import SeenPosts, Taste
from shoal.core.signup import Invitation


class AssocType(msgspec.Struct, frozen=True, eq=False):
    """One type of association. `inverse` is the number of the type of its other end, 0 for none.

    A `tallied` type is also counted at a third object, the `tally` of the operation: the likes of a post at its author.
    The time of a `placed` type is the place of an entry in a list, not the moment of the act: its tombstones do not tell
    their age, and are kept for good. A type that is not `counted` has no lengths: of lists that everybody's commits reach,
    where one count would be what they all wait for. Of a `ranked` type stores keep what finds a position in O(log n).
    Of a type with a `history` every beginning and end is remembered (`graph/payloads/follows.py`): by tombstones, and while
    an association is alive under the type of that number. Those tombstones are kept longer than others.
    An `ended_listed` type has a list of its tombstones too.
    """

    number: int
    name: str
    inverse: int = 0
    tallied: bool = False
    placed: bool = False
    counted: bool = True
    ranked: bool = False
    history: int = 0
    ended_listed: bool = False

    def __repr__(self) -> str:
        return self.name.upper()


FOLLOWS = AssocType(1, "follows", inverse=2, history=92)  # member -> member
FOLLOWED_BY = AssocType(2, "followed_by", inverse=1, history=93, ended_listed=True)
BLOCKS = AssocType(3, "blocks", inverse=4)
BLOCKED_BY = AssocType(4, "blocked_by", inverse=3)
MUTES = AssocType(5, "mutes")
LIKES = AssocType(7, "likes", inverse=8)  # member -> post
LIKED_BY = AssocType(8, "liked_by", inverse=7, tallied=True)
SHARES = AssocType(9, "shares", inverse=10)  # member -> post; data: the id of the share, 8 bytes
SHARED_BY = AssocType(10, "shared_by", inverse=9, tallied=True)
BOOKMARKS = AssocType(11, "bookmarks", inverse=12)
BOOKMARKED_BY = AssocType(12, "bookmarked_by", inverse=11)
POSTED = AssocType(13, "posted", ranked=True)  # member -> post or share; time is the id of the entry
COMMENTS_ON = AssocType(14, "comments_on", inverse=15)  # comment -> post
COMMENTED_BY = AssocType(15, "commented_by", inverse=14)
TAGGED = AssocType(16, "tagged", inverse=17, placed=True)  # post -> tag
TAG_OF = AssocType(17, "tag_of", inverse=16, placed=True, ranked=True)
REVISED = AssocType(18, "revised")  # post -> revision
OWNS = AssocType(19, "owns")  # member -> media
LOGGED_IN = AssocType(20, "logged_in")  # member -> token
FOLLOWS_TAG = AssocType(21, "follows_tag", inverse=22)  # member -> tag
TAG_FOLLOWED_BY = AssocType(22, "tag_followed_by", inverse=21)
LOUD = AssocType(23, "loud")  # everybody -> source of posts
REQUESTS = AssocType(24, "requests", inverse=25)  # member -> member who is locked: wants to follow
REQUESTED_BY = AssocType(25, "requested_by", inverse=24)
NOTES = AssocType(26, "notes")  # member -> member; data: what they noted, for themselves
ENDORSES = AssocType(27, "endorses")  # member -> member, shown on the profile
WATCHES = AssocType(28, "watches", inverse=29)  # member -> member: is notified of what they post
WATCHED_BY = AssocType(29, "watched_by", inverse=28)
DISMISSES = AssocType(30, "dismisses")  # member -> member: not to be suggested again
FEATURES_TAG = AssocType(31, "features_tag")  # member -> tag, shown on the profile; data: its name
PINS = AssocType(32, "pins")  # member -> own post
MUTES_THREAD = AssocType(33, "mutes_thread")  # member -> root of a thread
VOTES = AssocType(34, "votes", inverse=35)  # member -> poll; data: the chosen options, a byte each
VOTED_BY = AssocType(35, "voted_by", inverse=34)
CHOOSES = AssocType(36, "chooses", inverse=37)  # member -> option of a poll
CHOSEN_BY = AssocType(37, "chosen_by", inverse=36)
SCHEDULES = AssocType(38, "schedules")  # member -> scheduled post
DUE_ON = AssocType(
    39, "due_on", inverse=40, counted=False
)  # ticket -> agenda; time: the moment; data: id of what is due
DUE = AssocType(40, "due", inverse=39, counted=False)  # agenda -> ticket
OWNS_LIST = AssocType(41, "owns_list")  # member -> list
LISTS = AssocType(42, "lists", inverse=43)  # list -> member
LISTED_IN = AssocType(43, "listed_in", inverse=42)
OWNS_FILTER = AssocType(44, "owns_filter")  # member -> filter
NOTIFIED = AssocType(45, "notified")  # member -> what they are notified of (an id made of its name); data: who, what
CONVERSES = AssocType(46, "converses")  # member -> thread of direct posts (an id made of its root); time: the newest
MARKED = AssocType(47, "marked")  # member -> timeline (an id made of its name); data: read up to where, and the version
PUBLISHED = AssocType(
    48, "published", counted=False
)  # public list of a data source -> public post that answers nobody else's
FILED = AssocType(49, "filed", inverse=50)  # report -> everybody
REPORTED = AssocType(50, "reported", inverse=49)
SERVES = AssocType(51, "serves", inverse=52)  # member with a role -> everybody
STAFF = AssocType(52, "staff", inverse=51)
EXPIRING = AssocType(53, "expiring")  # member -> what ends by itself: an authorization code, the login of a browser
ATTACHED = AssocType(54, "attached")  # media -> post that it was put into; whether it still is, the post says
COMMENTS_ASIDE_ON = AssocType(55, "comments_aside_on", inverse=56)  # comment that is not open -> post
COMMENTED_ASIDE_BY = AssocType(56, "commented_aside_by", inverse=55)
POSTED_TO_FOLLOWERS = AssocType(57, "posted_to_followers")  # member -> own post or share that followers may find
IN_THREAD = AssocType(59, "in_thread", inverse=60, counted=False)  # comment -> root of its thread; data: parent, author
THREAD = AssocType(60, "thread", inverse=59, counted=False)
POSTED_ASIDE = AssocType(58, "posted_aside")  # member -> own post that is direct or hidden
HELD = AssocType(64, "held")  # member -> what they would be notified of, held back by their policy; as `NOTIFIED`
ACCEPTS_NOTICES = AssocType(65, "accepts_notices")  # member -> member whom their policy does not apply to
BLOCKS_EMAIL_DOMAIN = AssocType(70, "blocks_email_domain")  # everybody -> e-mail domain block
BLOCKS_EMAIL = AssocType(71, "blocks_email")  # everybody -> canonical e-mail block
BLOCKS_IP = AssocType(72, "blocks_ip")  # everybody -> IP block
IP_BLOCKS_CHANGED = AssocType(73, "ip_blocks_changed")  # everybody -> everybody; time: the last change of any IP block
REACTS = AssocType(74, "reacts", inverse=75)  # member -> post; data: the emoji that they put on it, each with its place
REACTED_BY = AssocType(75, "reacted_by", inverse=74)
SHOWS_EMOJI = AssocType(
    76, "shows_emoji"
)  # post -> place of an emoji (an id of its own); data: number of its key, the emoji
PUTS_EMOJI = AssocType(77, "puts_emoji", inverse=78)  # member -> place of an emoji; data: the id of the post, 8 bytes
EMOJI_PUT_BY = AssocType(78, "emoji_put_by", inverse=77)
REPORTS_POST = AssocType(79, "reports_post", inverse=80)  # member -> post; data: ids of their reports, 8 bytes each
POST_REPORTED_BY = AssocType(80, "post_reported_by", inverse=79)
REPORT_UPHELD = AssocType(81, "report_upheld")  # member -> own report that moderators found right
REPORT_DISMISSED = AssocType(82, "report_dismissed")  # member -> own report that they did not
ACTIVE = AssocType(
    83, "active", counted=False
)  # public list of a data source -> public post that members react to; time: minute of the newest reaction known
PLACED_IN = AssocType(85, "placed_in", inverse=86, placed=True, counted=False)  # public post -> cell of its place
CELL_OF = AssocType(86, "cell_of", inverse=85, placed=True, counted=False)
DECLARES = AssocType(90, "declares", inverse=91, counted=False)  # member -> what leads to them from elsewhere
DECLARED_BY = AssocType(91, "declared_by", inverse=90, counted=False)
FOLLOW_TIMES = AssocType(92, "follow_times", inverse=93, counted=False)  # member -> member; data: when they followed
FOLLOWER_TIMES = AssocType(93, "follower_times", inverse=92, counted=False, ended_listed=True)
HISTORY_KEPT = AssocType(94, "history_kept", counted=False)  # everybody -> everybody; time: since when it is complete
BLOCKS_NAME = AssocType(97, "blocks_name")  # everybody -> name block
OWNS_ALBUM = AssocType(98, "owns_album")  # member -> album
COLLECTS = AssocType(99, "collects", inverse=100)  # album -> own media; data: the post that shows it, and its place
COLLECTED_IN = AssocType(100, "collected_in", inverse=99)
PUSHES = AssocType(101, "pushes")  # member -> token of a session; data: where its messages go, and by which keys
OWNS_INVITATION = AssocType(102, "owns_invitation")  # member -> invitation
TOKEN_USES_KEPT = AssocType(104, "token_uses_kept", counted=False)  # everybody -> everybody; time: since when they are
AUDITED = AssocType(
    103, "audited", counted=False
)  # public list of a data source, or member -> entry of the audit log (its id); data: the entry, or an address

LEADING_TO_LOGINS = (LOGGED_IN, EXPIRING, PUSHES)
"""Types that lead from a member to a token or an authorization code, and end with it."""
ASSOC_TYPES: dict[int, AssocType] = {
    value.number: value for value in list(globals().values()) if isinstance(value, AssocType)
}

REMEMBERED = frozenset((FOLLOWS.number, FOLLOWED_BY.number, FOLLOWS.history, FOLLOWED_BY.history))
"""Numbers of the types whose tombstones are kept as long as a history."""
UNSWEPT = REMEMBERED | {atype.number for atype in ASSOC_TYPES.values() if atype.placed}
"""Numbers of the types whose tombstones `sweep` keeps. Those of `placed` types are kept permanently."""


EVERYBODY = named("list", "everybody")
"""Where lists begin that concern the whole network."""
AGENDA = named("list", "agenda")
"""Where the list begins of what is to be done at its moment."""


def public_list(shard: int) -> int:
    """Where the public list of a shard's data source begins: it lies there too, so a post stands in it by its own commit."""
    return _first_id(source_of(shard))


def _first_id(source: int) -> int:
    """Return an id of the first moment, on the first shard of a data source. No id generator ever gives it."""
    return source * SHARDS_PER_SOURCE << SEQUENCE_BITS | 1


PUBLIC_LISTS = tuple(_first_id(source) for source in range(DATA_SOURCES))
"""All of them: together they are the public timeline."""


@lru_cache(maxsize=32_768)
def tag_id(canonical: str) -> int:
    """The id of a tag, from its canonical form. Two digests: what is used now is soon used again."""
    return named("tag", canonical)


@lru_cache(maxsize=32_768)
def cell_id(cell: str) -> int:
    """The id of a cell of the globe, from its name."""
    return named("cell", cell)


def handle_id(handle: str) -> int:
    """The id of an account elsewhere, from the one form of its handle."""
    return named("handle", handle)


def email_hash_id(digest: str) -> int:
    """The id of a hash of an e-mail address by which a member may be found."""
    return named("email_hash", digest)


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


USER_NAME = "user_name"
"""The space of the keys of user names."""


def user_name_key(name: str) -> Key:
    """Return the key that leads from a user name to its member. The name determines the shard: the member's own."""
    return Key(place(name).shard, USER_NAME, name)


def email_key(address: str) -> Key:
    """Return the key that leads from a normalised e-mail address to its member."""
    return Key(place(address).shard, "email", address)


def email_domain_block_key(domain: str) -> Key:
    """Key of a domain whose e-mail addresses are refused: the id of the block, beside which it lies."""
    return Key(shard_of(EVERYBODY), "email_domain_block", domain)


def email_block_key(digest: str) -> Key:
    """Key of the hash of a canonical e-mail address that is refused: the id of the block, beside which it lies."""
    return Key(shard_of(EVERYBODY), "email_block", digest)


def name_block_key(text: str) -> Key:
    """Key of a word that no user name may be or have in it (`core.blocklists`): the id of the block, beside which it lies."""
    return Key(shard_of(EVERYBODY), "name_block", text)


def contact_salt_key() -> Key:
    """Key of the salt under which e-mail addresses are hashed."""
    return Key(shard_of(EVERYBODY), "contact_salt", "")


def challenge_key_key() -> Key:
    """Key of the key by which the network knows its challenges."""
    return Key(shard_of(EVERYBODY), "challenge_key", "")


def used_challenge_key(shard: int, challenge: bytes) -> Key:
    """Key of a challenge that was used. It leads to an id of the use's own; whoever uses it again finds it taken."""
    return Key(shard, "challenge", challenge.hex())


def ip_block_key(network: str) -> Key:
    """Key of a network that is blocked, in CIDR notation: the id of the block, beside which it lies."""
    return Key(shard_of(EVERYBODY), "ip_block", network)


def idempotency_key(member_id: int, shard: int, name: str) -> Key:
    """Return the key that leads from a request to the id of what it made."""
    return Key(shard, "idempotency", f"{member_id}:{name}")


def share_key(member_id: int, shard: int, post_id: int) -> Key:
    """Return the key that leads from a member and a post to the member's share of it. There is one at a time."""
    return Key(shard, "share", f"{member_id}:{post_id}")


def vote_key(member_id: int, shard: int, poll_id: int, turn: int = 0) -> Key:
    """Key of a member's vote in a poll. It leads to an id of the vote's own; a vote at the same moment finds it taken.

    Where several options are allowed a member may vote again: `turn` counts these votes.
    """
    return Key(shard, "vote", f"{member_id}:{poll_id}:{turn}" if turn else f"{member_id}:{poll_id}")


def emoji_place_key(shard: int, post_id: int, number: int) -> Key:
    """Return one of the keys that the places of emoji on a post have: there are no more places than numbers."""
    return Key(shard, "emoji_place", f"{post_id}:{number}")


def emoji_id_key(shard: int, id_: int) -> Key:
    """Return the key that reserves the id of an emoji's place on a post, so that no other post has a place with this id."""
    return Key(shard, "emoji_id", str(id_))


def file_key(shard: int, number: int) -> Key:
    """Key of the number in the names of files. It leads to the id of their media object, where that is another one."""
    return Key(shard, "file", str(number))


def taste_key(member_id: int) -> Key:
    """Key of a member's choices about ranked feeds."""
    return Key(shard_of(member_id), "taste", str(member_id))


def seen_key(member_id: int) -> Key:
    """Key of the memory of the posts that a member has seen."""
    return Key(shard_of(member_id), "seen", str(member_id))


def import_key(shard: int, source: str) -> Key:
    """Return the key that leads from a record of an import to what it became, so that a second run finds it."""
    return Key(shard, "import", source)


def backup_key() -> Key:
    """Key that says when the newest good backup was made: its owner is an id of that moment, and of no object."""
    return Key(shard_of(EVERYBODY), "backup", "newest")


def tags_folded_key() -> Key:
    """Key that marks all tags as stored case-folded. Its owner is `EVERYBODY`."""
    return Key(shard_of(EVERYBODY), "upgrade", "tags_folded")


def tags_folding_key() -> Key:
    """Key of the claim of the process that upgrades all tags. Its owner is an id of that process, and it expires."""
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
    | Grant
    | Taste
    | SeenPosts
    | ContactSalt
    | ChallengeKey
    | Departure
    | Proof
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[AnyNode] = msgspec.msgpack.Decoder(AnyNode)


def encode_node(node: msgspec.Struct) -> bytes:
    """An object as bytes."""
    return _encoder.encode(node)


def decode_node(data: bytes) -> AnyNode:
    """An object from its bytes. Raises `NewerNeeded` for one of an unknown kind, or with a value that is none here."""
    try:
        return _decoder.decode(data)
    except msgspec.ValidationError as error:
        raise NewerNeeded("this was written by a newer version of the server: repeat in a few seconds") from error
