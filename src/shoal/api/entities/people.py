"""JSON shapes of what members are to each other in the Mastodon API: mutes, lists, featured tags, preferences."""

from __future__ import annotations

import msgspec

from shoal.api.entities.addresses import Addresses
from shoal.api.entities.presenter import WIRE_VISIBILITY, moment
from shoal.api.entities.statuses import Account
from shoal.core.model import Member, MemberList
from shoal.queries.follows import FollowersOfDay, FollowPeriod, RelationshipHistory
from shoal.queries.tags import Featured
from shoal.words.languages import language_tag


class MutedAccount(Account, kw_only=True):
    """Somebody whom the caller mutes; null for ever."""

    mute_expires_at: str | None


class FamiliarFollowers(msgspec.Struct):
    """Followers of an account whom the caller follows too."""

    id: str
    accounts: list[Account]


class FollowedPeriod(msgspec.Struct):
    """A time during which one followed the other; `since` is null where it is not known, `until` while it goes on."""

    since: str | None
    until: str | None


class RelationshipTimes(msgspec.Struct):
    """When the caller and an account followed each other, newest first; at most 20 periods each way."""

    id: str
    following: list[FollowedPeriod]
    """When the caller followed the account."""
    followed_by: list[FollowedPeriod]
    """When the account followed the caller."""
    known_since: str
    """Follows that ended before this moment are not remembered."""


class FollowersAtDay(msgspec.Struct):
    """Followers at the end of a day (UTC; of the last one: now), and how many follows began and ended in it."""

    day: str
    followers: int
    gained: int
    lost: int


class FeaturedTag(msgspec.Struct, kw_only=True):
    """A tag on a profile; `last_status_at` is a date."""

    id: str
    name: str
    url: str
    statuses_count: str
    last_status_at: str | None


class UserList(msgspec.Struct, kw_only=True):
    """A list of accounts."""

    id: str
    title: str
    replies_policy: str
    exclusive: bool


class Preferences(msgspec.Struct, kw_only=True):
    """How a member posts and reads, unless they say otherwise."""

    visibility: str = msgspec.field(name="posting:default:visibility")
    sensitive: bool = msgspec.field(name="posting:default:sensitive")
    language: str | None = msgspec.field(name="posting:default:language")
    media: str = msgspec.field(name="reading:expand:media", default="default")
    spoilers: bool = msgspec.field(name="reading:expand:spoilers", default=False)
    gifs: bool = msgspec.field(name="reading:autoplay:gifs", default=False)
    aggregate_reblogs: bool = msgspec.field(name="shoal:aggregate_reblogs", default=True)
    """Whether a status stands once in home and lists; changed by `shoal[aggregate_reblogs]` of `update_credentials`."""
    rankable: bool = msgspec.field(name="shoal:rankable", default=True)
    """Whether their statuses may appear in ranked feeds; changed by `shoal[rankable]` of `update_credentials`."""
    findable_by_email: bool = msgspec.field(name="shoal:findable_by_email", default=False)
    """Whether those who know their e-mail address can find them by it; changed by `shoal[findable_by_email]`."""


def featured_tag(found: Featured, at: Addresses) -> FeaturedTag:
    """A tag on a profile."""
    return FeaturedTag(
        id=str(found.place),
        name=found.name,
        url=at.tag(found.name),
        statuses_count=str(found.posts),
        last_status_at=moment(found.newest)[:10] if found.newest else None,
    )


def user_list(found: MemberList) -> UserList:
    """A list."""
    return UserList(id=str(found.id), title=found.title, replies_policy=found.replies.value, exclusive=found.exclusive)


def preferences(member: Member) -> Preferences:
    """How a member posts; how they read is mostly for their client to know."""
    return Preferences(
        visibility=WIRE_VISIBILITY[member.default_visibility],
        sensitive=member.default_sensitive,
        language=language_tag(member.default_language) or None,
        aggregate_reblogs=member.folds_shares,
        rankable=member.rankable,
        findable_by_email=member.findable_by_email,
    )


def relationship_times(id_: int, told: RelationshipHistory) -> RelationshipTimes:
    """When two members followed each other."""
    return RelationshipTimes(
        id=str(id_),
        following=list(map(_followed, told.following)),
        followed_by=list(map(_followed, told.followed_by)),
        known_since=moment(told.known_since),
    )


def _followed(period: FollowPeriod) -> FollowedPeriod:
    since, until = (None if at is None else moment(at) for at in period)
    return FollowedPeriod(since, until)


def followers_at_day(told: FollowersOfDay) -> FollowersAtDay:
    """A day of a series of followers."""
    return FollowersAtDay(told.day.isoformat(), told.followers, told.gained, told.lost)
