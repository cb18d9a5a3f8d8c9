"""The plan of a demo network: people, follows, posts, likes and shares as plain values, deterministic for a seed.

It uses neither the clock nor a store. A few members have most followers, and similar members follow each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from random import Random

import msgspec
from msgspec import structs

from shoal.core.model import Visibility
from shoal_demo import model
from shoal_demo.model import KINDS, MOODS, DemoPlan, Person, PlannedPost
from shoal_demo.people import people
from shoal_demo.texts import MOOD_CAPTIONS, PlanWriter, Wording

FOLLOW_BACK = 0.3
"""Additional probability that a follow between equally famous people is mutual."""


def follows(dice: Random, people: tuple[Person, ...]) -> tuple[tuple[int, int], ...]:
    """Return unique pairs (follower, followed) without self-follows. Of two or more people, each follows at least one."""
    edges: dict[tuple[int, int], None] = {}
    for who in range(len(people)):
        for whom in _choices(dice, people, who):
            edges[who, whom] = None
    for who, whom in tuple(edges):
        if dice.random() < FOLLOW_BACK * min(1.0, (people[who].weight / people[whom].weight) ** 0.5):
            edges[whom, who] = None
    return tuple(edges)


def _choices(dice: Random, people: tuple[Person, ...], who: int) -> list[int]:
    """Draw followees by weight without replacement: the largest `log(random) / weight`."""
    interests, language = set(people[who].interests), people[who].language
    sample_size = max(1, round(min(17.0, len(people) / 4) * math.exp(dice.gauss(0, 0.55))))
    keys = []
    for whom, other in enumerate(people):
        if whom != who:
            shared = len(interests.intersection(other.interests))
            pull = other.weight * (1 + 2.0 * shared) * (2.0 if other.language == language else 1.0)
            keys.append((math.log(1 - dice.random()) / pull, whom))
    return [whom for _, whom in sorted(keys, reverse=True)[:sample_size]]


HOUR_MS, DAY_MS = 3_600_000, 86_400_000

HOURS = (2, 1, 1, 1, 1, 2, 5, 9, 10, 8, 7, 7, 10, 10, 7, 6, 7, 9, 12, 14, 15, 14, 10, 5)
"""Relative frequency of posts by local hour of the author."""
WEEKEND = 1.4
PHOTO_SHARE = 0.46
FOLLOWERS_SHARE = 0.06
PLACE_SHARE = 0.4


class PostPlan(msgspec.Struct, kw_only=True):
    """A post being written, the kind of its photo, and the post on which it is a comment."""

    post: PlannedPost
    wording: Wording
    left: list[str] = []
    """Replies that fit this text and were not used yet."""
    kind: str = ""
    before: PostPlan | None = None


class Timeline:
    """The period that a plan covers: `days` up to `now_ms`."""

    def __init__(self, dice: Random, *, days: int, now_ms: int) -> None:
        self._dice, self.now_ms = dice, now_ms
        self.start_ms = now_ms - days * DAY_MS
        starts = [self.start_ms + day * DAY_MS for day in range(days)]
        # 1970-01-01 was a Thursday, so 2 and 3 are Saturday and Sunday.
        self._days = [(ms, WEEKEND if ms // DAY_MS % 7 in {2, 3} else 1.0) for ms in starts]

    def moment(self, longitude: float) -> int:
        """Draw the time of a post by an author at this longitude."""
        ms = self._dice.choices([ms for ms, _ in self._days], [weight for _, weight in self._days])[0]
        for _ in range(20):
            at = ms + self._dice.randrange(DAY_MS)
            local = int(at / HOUR_MS + longitude / 15) % 24
            if self._dice.random() < HOURS[local] / max(HOURS):
                break
        else:
            at = ms + self._dice.randrange(DAY_MS)
        return at

    def after(self, moment: int, hours: float) -> int:
        """Return a later time, on average after `hours`, within the period."""
        gap = 60_000 + int(self._dice.expovariate(1 / hours) * HOUR_MS)
        return moment + gap if moment + gap < self.now_ms else moment + max(1, (self.now_ms - moment) // 2)


class Newsroom:
    """The context for writing posts: people, follows, and a writer."""

    def __init__(
        self, dice: Random, people: Sequence[Person], edges: Sequence[tuple[int, int]], time: Timeline
    ) -> None:
        self.dice, self.people, self.time = dice, people, time
        self.writer = PlanWriter(dice)
        self.followers: list[list[int]] = [[] for _ in people]
        self.followed: list[set[int]] = [set() for _ in people]
        for who, whom in edges:
            self.followers[whom].append(who)
            self.followed[who].add(whom)

    def post(self, author: int) -> PostPlan:
        """Write a post that is not a comment."""
        person, dice = self.people[author], self.dice
        kind, mood, wording = self._subject(person)
        count = dice.choices((1, 2, 3, 4), (62, 22, 10, 6))[0] if mood else 0
        post = PlannedPost(
            author=author,
            moment=self.time.moment(person.home.longitude),
            text=wording.text + (self._mention(author) if wording.language == "en" else ""),
            language=wording.language,
            visibility=Visibility.FOLLOWERS if dice.random() < FOLLOWERS_SHARE else Visibility.PUBLIC,
            scenes=tuple(model.scene(dice, kind, mood) for _ in range(count)),
            place=model.whereabouts(dice, kind, person.home) if mood and dice.random() < PLACE_SHARE else None,
        )
        return PostPlan(
            post=post,
            wording=wording,
            left=dice.sample(wording.answers, len(wording.answers)),
            kind=kind if mood else "",
        )

    def _subject(self, person: Person) -> tuple[str, str, Wording]:
        """Choose the kind and mood of a photo (or two empty strings) and the text."""
        foreign = self.writer.abroad(person.language) if self.dice.random() < 0.5 else None
        if foreign:
            kind, _, mood = foreign[0].partition("/")
            return (kind, mood, foreign[1]) if mood else ("", "", foreign[1])
        if self.dice.random() > PHOTO_SHARE:
            return "", "", self.writer.draw(self._table(_texts(person.interests), _texts(KINDS)))
        table = self._table(_photos(person.interests), _photos(KINDS))
        _, kind, *moods = table.split("/")
        return kind, self.dice.choice(moods or tuple(MOODS[kind])), self.writer.draw(table)

    def _table(self, own: list[str], all_tables: list[str]) -> str:
        """Choose a table of the author's interests or, once those are used up, any table."""
        return self.writer.freshest([table for table in own if self.writer.is_fresh(table)] or all_tables)

    def _mention(self, author: int) -> str:
        friends = sorted(self.followed[author].intersection(self.followers[author]))
        if not friends or self.dice.random() > 0.07:
            return ""
        name = self.people[self.dice.choice(friends)].name
        return self.dice.choice(
            (f" (with @{name})", f" @{name}, this one is for you", f" @{name} was right", f" cc @{name}")
        )

    def comment(self, root: PostPlan, thread: list[PostPlan]) -> PostPlan | None:
        """Write a comment somewhere in the thread of a post; None if there is no one to write it."""
        before = root if not thread or self.dice.random() < 0.6 else self.dice.choice(thread)
        if root.post.visibility == Visibility.FOLLOWERS or root.post.language != "en":
            before = root
        author = self._answerer(root, before)
        if author is None:
            return None
        if before is root:
            wording = self.writer.reply(root.post.language, root.left, root.kind, self.people[author].language)
        else:
            wording = self.writer.onward(before.post.text, author=author == root.post.author)
        name = f"@{self.people[before.post.author].name} " if before is not root and self.dice.random() < 0.3 else ""
        post = PlannedPost(
            author=author,
            moment=self.time.after(before.post.moment, 3 if before is root else 1.5),
            text=name + wording.text,
            language=wording.language,
            visibility=root.post.visibility,
        )
        return PostPlan(post=post, wording=wording, before=before)

    def _answerer(self, root: PostPlan, before: PostPlan) -> int | None:
        if before is not root and before.post.author != root.post.author and self.dice.random() < 0.62:
            return root.post.author
        open_to_all = root.post.visibility == Visibility.PUBLIC and self.dice.random() < 0.08
        crowd: Sequence[int] = range(len(self.people)) if open_to_all else self.followers[root.post.author]
        if root.post.language != "en":
            crowd = [who for who in crowd if self.people[who].language == root.post.language] or crowd
        crowd = [who for who in crowd if who not in {before.post.author, root.post.author}]
        return self.dice.choice(crowd) if crowd else None


def _texts(interests: Iterable[str]) -> list[str]:
    return [f"text/{interest}" for interest in interests]


def _photos(interests: Iterable[str]) -> list[str]:
    kinds = [kind for interest in interests for kind in KINDS[interest]]
    moods = [f"photo/{kind}/{mood}" for kind in kinds for mood in MOODS[kind] if f"{kind}/{mood}" in MOOD_CAPTIONS]
    return [f"photo/{kind}" for kind in kinds] + moods


def posts(newsroom: Newsroom, *, roots: int, comments: int) -> list[PlannedPost]:
    """Write `roots` posts and about `comments` comments, in chronological order."""
    dice = newsroom.dice
    eager = [min(dice.paretovariate(1.6), 6.0) * (0.6 + person.weight) for person in newsroom.people]
    drafts = [newsroom.post(author) for author in dice.choices(range(len(newsroom.people)), eager, k=roots)]
    pull = [
        dice.paretovariate(1.3) * len(newsroom.followers[d.post.author]) ** 0.7 * (1.5 if d.post.scenes else 1.0)
        for d in drafts
    ]
    threads: dict[int, list[PostPlan]] = {}
    picks = dice.choices(range(roots), [min(p, 60.0) for p in pull], k=comments) if any(pull) else []
    for at in picks:
        made = newsroom.comment(drafts[at], threads.setdefault(at, []))
        if made:
            threads[at].append(made)
    everything = sorted([*drafts, *(d for thread in threads.values() for d in thread)], key=lambda d: d.post.moment)
    index = {id(draft): at for at, draft in enumerate(everything)}
    return [msgspec.structs.replace(d.post, parent=index[id(d.before)]) if d.before else d.post for d in everything]


STRANGERS = 0.06
"""The fraction of likes by members who do not follow the author."""


def likes(newsroom: Newsroom, posts: Sequence[PlannedPost], *, total: int) -> tuple[tuple[int, int], ...]:
    """Return about `total` unique pairs (member, post), without likes of own posts."""
    appeal = [_appeal(newsroom.dice, newsroom, post) for post in posts]
    crowds = [set(newsroom.followers[post.author]) - {post.author} for post in posts]
    scale = _scale(appeal, [len(crowd) for crowd in crowds], total)
    pairs: list[tuple[int, int]] = []
    for at, (post, crowd) in enumerate(zip(posts, crowds, strict=True)):
        sample_size = min(len(crowd), int(appeal[at] * scale + newsroom.dice.random()))
        fans = newsroom.dice.sample(sorted(crowd), sample_size)
        for slot in range(len(fans)):
            if post.visibility == Visibility.PUBLIC and newsroom.dice.random() < STRANGERS:
                stranger = newsroom.dice.randrange(len(newsroom.people))
                if stranger != post.author and stranger not in fans:
                    fans[slot] = stranger
        pairs.extend((fan, at) for fan in fans)
    return tuple(pairs)


def _appeal(dice: Random, newsroom: Newsroom, post: PlannedPost) -> float:
    base = dice.paretovariate(1.5) * max(1, len(newsroom.followers[post.author])) ** 0.8
    weighed: float = base * (1.6 if post.scenes else 1.0) * (0.1 if post.parent is not None else 1.0)
    return weighed


def _scale(appeal: Sequence[float], limits: Sequence[int], total: int) -> float:
    """Return the factor by which to multiply the values so that their sum, each capped at its limit, is `total`."""
    low, high = 0.0, 1000.0
    for _ in range(50):
        middle = (low + high) / 2
        reached = sum(min(value * middle, limit) for value, limit in zip(appeal, limits, strict=True))
        low, high = (middle, high) if reached < total else (low, middle)
    return low


def shares(
    newsroom: Newsroom, posts: Sequence[PlannedPost], liked: Sequence[tuple[int, int]]
) -> tuple[tuple[int, int, int], ...]:
    """Return (member, post, moment). Of the members who like a public post, 5 percent share it; of a comment, 0.8 percent."""
    made = []
    for who, at in liked:
        post = posts[at]
        if post.visibility == Visibility.PUBLIC and newsroom.dice.random() < (
            0.008 if post.parent is not None else 0.05
        ):
            made.append((who, at, newsroom.time.after(post.moment, 6)))
    return tuple(sorted(made, key=lambda share: share[2]))


POSTS_A_DAY = 0.105
COMMENTS_A_DAY = 0.165
LIKES_A_DAY = 1.8
"""Mean number of likes per member and day; the two constants above are means per member and day, too."""
_REFERENCE_MS = 1_790_000_000_000
"""Every plan is first drawn for this time and then shifted, so that random choices do not depend on the clock."""


def plan(seed: int = 1, members: int = 120, days: int = 28, *, now_ms: int) -> DemoPlan:
    """Return a network of `members` people with the posts of the `days` days before `now_ms` (Unix milliseconds).

    `members` and `days` are at least 1. For given other arguments, `now_ms` only shifts all times.
    """
    if members < 1 or days < 1:
        raise ValueError("a network needs at least one member and one day")
    dice = Random(seed)  # noqa: S311 - it draws a made-up network, no secrets
    folk = people(dice, members)
    edges = follows(dice, folk)
    newsroom = Newsroom(dice, folk, edges, Timeline(dice, days=days, now_ms=_REFERENCE_MS))
    size = members * days
    written = posts(newsroom, roots=max(1, round(size * POSTS_A_DAY)), comments=round(size * COMMENTS_A_DAY))
    liked = likes(newsroom, written, total=round(size * LIKES_A_DAY))
    shared = shares(newsroom, written, liked)
    later = now_ms - _REFERENCE_MS
    return DemoPlan(
        people=folk,
        follows=edges,
        posts=tuple(structs.replace(post, moment=post.moment + later) for post in written),
        likes=liked,
        shares=tuple((member, post, moment + later) for member, post, moment in shared),
    )
