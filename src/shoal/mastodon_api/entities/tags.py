"""JSON entities of tags, search results and suggestions, and of the tag cloud, which Mastodon does not have."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import UNSET, UnsetType

from shoal.graph.schema import tag_id
from shoal.mastodon_api.entities.serializers import Addresses, moment
from shoal.mastodon_api.entities.statuses import Account, Status
from shoal.tagcloud.cloud import HISTORY, DailyUses, DayCount, RelatedTag, Shown, Word

_DAY_SECONDS = 86_400


class TagDay(msgspec.Struct):
    """The uses of a tag on one day, as strings. `day` is midnight UTC in Unix seconds."""

    day: str
    uses: str
    accounts: str


class Tag(msgspec.Struct):
    """A tag. `history` covers the last seven days, newest first.

    `following` and `featuring` are absent for anonymous callers.
    """

    id: str
    name: str
    url: str
    history: list[TagDay]
    following: bool | UnsetType = UNSET
    featuring: bool | UnsetType = UNSET


class WindowWarmth(msgspec.Struct):
    """The weighted uses of a tag by time window; the weight of a use decays with its age, from 1."""

    hour: float
    day: float
    week: float


class CloudReasons(msgspec.Struct):
    """Why a tag is in the cloud. `recent_uses` and `recent_accounts` count today and yesterday (UTC).

    `loudest` is the fraction of the recent uses by the most active account. `surprise` grows with the ratio of the
    day's warmth to the week's.
    """

    warmth: WindowWarmth
    recent_uses: int
    recent_accounts: int
    loudest: float
    surprise: float
    why: str | UnsetType = UNSET
    """An explanation in words, in `for_you` only."""


class CloudTag(msgspec.Struct):
    """A tag in the cloud; `form` is its most common spelling."""

    name: str
    form: str
    url: str
    uses: int
    weight: float
    level: int
    reasons: CloudReasons


class Cloud(msgspec.Struct):
    """The tag cloud. All uses of tags before `complete_to` are counted."""

    order: str
    version: int
    at: str
    complete_to: str
    tags: list[CloudTag]


class AlikeTag(msgspec.Struct):
    """A tag related to another tag.

    `together` is the number of the other tag's newest posts that have both tags. `likeness` is from 0 to 1.
    """

    name: str
    form: str
    url: str
    uses: int
    together: int
    likeness: float


def tag(
    name: str,
    at: Addresses,
    counted: DailyUses | None,
    today: int,
    *,
    following: bool | None,
    featuring: bool = False,
) -> Tag:
    """Return a tag by its canonical name.

    Args:
        counted: None for an unused tag.
        today: Days since 1970-01-01 UTC.
        following: None for an anonymous caller.
    """
    mine = following is not None
    unused = [DayCount(today - back, 0, 0) for back in range(HISTORY)]
    return Tag(
        # Tag ids are negative numbers, but clients expect ids that consist of digits.
        id=str(-tag_id(name)),
        name=name,
        url=at.tag(name),
        history=_history(counted.days if counted else unused),
        following=bool(following) if mine else UNSET,
        featuring=featuring if mine else UNSET,
    )


def _history(days: Iterable[DayCount]) -> list[TagDay]:
    return [TagDay(str(day.day * _DAY_SECONDS), str(day.uses), str(day.members)) for day in days]


def cloud(shown: Shown, at: Addresses) -> Cloud:
    words = [_cloud_tag(word, at) for word in shown.words]
    return Cloud(shown.order, shown.version, moment(shown.at), moment(shown.complete_to), words)


def _cloud_tag(word: Word, at: Addresses) -> CloudTag:
    known = word.reasons
    reasons = CloudReasons(
        warmth=WindowWarmth(**{window: _short(warm) for window, warm in known.warmth.items()}),
        recent_uses=known.today,
        recent_accounts=known.members,
        loudest=_short(known.loudest),
        surprise=_short(known.surprise),
        why=word.why or UNSET,
    )
    return CloudTag(word.name, word.form, at.tag(word.name), word.uses, _short(word.weight), word.level, reasons)


def alike(found: RelatedTag, at: Addresses) -> AlikeTag:
    return AlikeTag(found.name, found.form, at.tag(found.name), found.uses, found.together, _short(found.likeness))


def _short(number: float) -> float:
    return round(number, 4)


class Search(msgspec.Struct):
    """Results of a search. All three lists are always present."""

    accounts: list[Account]
    statuses: list[Status]
    hashtags: list[Tag]


class SearchV1(msgspec.Struct):
    """Results of a search, with hashtags as names."""

    accounts: list[Account]
    statuses: list[Status]
    hashtags: list[str]


class SuggestionReason(msgspec.Struct):
    """A reason for a suggestion: the contribution is the value times the weight."""

    source: str
    """`friends`, `followers`, `follows_you`, `liked`, `tags` or `nearby`."""
    number: float
    """The number of mutual connections, followers, liked posts or tags; for `nearby`, the distance in kilometers."""
    value: float
    """Strength of the reason, 0 to 1."""
    weight: float
    contribution: float
    words: str
    friends: list[str]
    """User names of up to two accounts that the caller follows and that follow the suggested account."""


class SuggestionExtras(msgspec.Struct):
    """Why an account is suggested, strongest reason first. The contributions add up to the score."""

    score: float
    reasons: list[SuggestionReason]


class Suggestion(msgspec.Struct):
    """An account that the caller may want to follow. `source` is the deprecated equivalent of the first item of `sources`."""

    source: str
    sources: list[str]
    account: Account
    shoal: SuggestionExtras
