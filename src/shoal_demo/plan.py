"""The plan of a demo network: people, follows, posts, likes and shares as plain values, deterministic for a seed.

It uses neither the clock nor a store. A few members have most followers, and similar members follow each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from random import Random

import msgspec
from msgspec import structs

from shoal.core.model import Visibility
from shoal_demo.model import DemoPlan, Person, PlannedMessage, PlannedPost
from shoal_demo.people import CAST, people
from shoal_demo.stories import CORRESPONDENCE, FOLLOWED_TAGS, LIST, WITH_PHOTOS, WITHOUT_PHOTOS, Story

FOLLOW_BACK = 0.3
"""Additional probability that a follow between equally famous people is mutual."""
HERO = "jonah_whitlock"
HERO_FOLLOWS = 20


def follows(dice: Random, people: tuple[Person, ...]) -> tuple[tuple[int, int], ...]:
    """Return distinct pairs (follower, followed) of different members. If there are several people, each follows at least one."""
    edges: dict[tuple[int, int], None] = {}
    for who in range(len(people)):
        for whom in _choices(dice, people, who):
            edges[who, whom] = None
    for who, whom in tuple(edges):
        if dice.random() < FOLLOW_BACK * min(1.0, (people[who].weight / people[whom].weight) ** 0.5):
            edges[whom, who] = None
    return tuple(edges)


def _choices(dice: Random, people: tuple[Person, ...], who: int) -> list[int]:
    """Draw the people whom `who` follows, by weight and without replacement: those with the largest `log(random) / weight`."""
    interests, language = set(people[who].interests), people[who].language
    sample_size = max(1, round(min(17.0, len(people) / 4) * math.exp(dice.gauss(0, 0.55))))
    if people[who].name == HERO:
        sample_size = HERO_FOLLOWS
    keys = []
    for whom, other in enumerate(people):
        if whom != who:
            shared = len(interests.intersection(other.interests))
            pull = other.weight * (1 + 2.0 * shared) * (2.0 if other.language == language else 1.0)
            if people[who].name == HERO and whom < len(CAST):
                pull *= 20
            keys.append((math.log(1 - dice.random()) / pull, whom))
    return [whom for _, whom in sorted(keys, reverse=True)[:sample_size]]


HOUR_MS, DAY_MS = 3_600_000, 86_400_000

HOURS = (2, 1, 1, 1, 1, 2, 5, 9, 10, 8, 7, 7, 10, 10, 7, 6, 7, 9, 12, 14, 15, 14, 10, 5)
"""Relative frequency of posts by local hour of the author."""
WEEKEND = 1.4
PHOTO_POSTS = 0.7


class Timeline:
    def __init__(self, dice: Random, *, days: int, now_ms: int) -> None:
        self._dice, self.now_ms = dice, now_ms
        self.start_ms = now_ms - days * DAY_MS
        starts = [self.start_ms + day * DAY_MS for day in range(days)]
        # 1970-01-01 was a Thursday, so the days 2 and 3 are Saturday and Sunday.
        self._days = [(ms, WEEKEND if ms // DAY_MS % 7 in {2, 3} else 1.0) for ms in starts]

    def moment(self, longitude: float) -> int:
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
        """Return a random time between `moment` and the end of the planned period, usually about `hours` after `moment`."""
        gap = 60_000 + int(self._dice.expovariate(1 / hours) * HOUR_MS)
        return moment + gap if moment + gap < self.now_ms else moment + max(1, (self.now_ms - moment) // 2)


class PostPlan(msgspec.Struct, kw_only=True):
    """A planned post. If it is a comment, it names the post on which it comments."""

    post: PlannedPost
    before: PostPlan | None = None


class Newsroom:
    def __init__(
        self, dice: Random, people: Sequence[Person], edges: Sequence[tuple[int, int]], time: Timeline
    ) -> None:
        self.dice, self.people, self.time = dice, people, time
        self.followers: list[list[int]] = [[] for _ in people]
        for who, whom in edges:
            self.followers[whom].append(who)

    def written(self, story: Story, author: int) -> Iterator[PostPlan]:
        """Yield the post that `story` describes, and the comments on it. A comment without a suitable author is left out."""
        root = PostPlan(
            post=PlannedPost(
                author=author,
                moment=self.time.moment(self.people[author].home.longitude),
                text=story.text,
                language=story.language,
                visibility=Visibility.FOLLOWERS if story.followers else Visibility.PUBLIC,
                photos=story.photos,
                place=story.place,
            )
        )
        yield root
        crowd = self._crowd(root.post)
        first: PostPlan | None = None
        before = root
        for line in story.comments:
            mark, text = line.split(" ", 1) if line.startswith((">", "+")) else ("", line)
            if not mark:
                first, before = None, root
            elif first is None:
                continue
            if first and mark in {">", ">>"}:
                replier: int | None = author if mark == ">" else first.post.author
            else:
                replier = crowd.pop() if crowd else None
            if replier is None:
                first = None
                continue
            before = self._comment(root, before, replier, text)
            first = first or before
            yield before

    def _comment(self, root: PostPlan, before: PostPlan, author: int, text: str) -> PostPlan:
        name = f"@{self.people[before.post.author].name} " if before is not root and self.dice.random() < 0.3 else ""
        post = PlannedPost(
            author=author,
            moment=self.time.after(before.post.moment, 3 if before is root else 1.5),
            text=name + text,
            language=root.post.language,
            visibility=root.post.visibility,
        )
        return PostPlan(post=post, before=before)

    def _crowd(self, post: PlannedPost) -> list[int]:
        """Return the members who could comment, the likeliest last: followers, and members with the interests of the author."""
        interests = set(self.people[post.author].interests)
        close = set(self.followers[post.author])
        keys = []
        for who, person in enumerate(self.people):
            speaks = post.language in {"en", person.language}
            if who != post.author and speaks and (post.visibility is Visibility.PUBLIC or who in close):
                pull = 1.0 + 2 * len(interests.intersection(person.interests)) + 4 * (who in close)
                if who < len(CAST):
                    # Choose members of `CAST` more rarely: most followees are in `CAST`, and home timelines show replies
                    # between followees.
                    pull *= 0.1
                keys.append((math.log(1 - self.dice.random()) / pull, who))
        return [who for _, who in sorted(keys)]


def stories(dice: Random, members: int, count: int) -> list[Story]:
    """Choose about `count` different example posts by the first `members` authors. 70 percent of the posts have photos."""
    present = {role.name for role in CAST[:members]}
    with_photos, without = (
        [story for story in table if story.author in present] for table in (WITH_PHOTOS, WITHOUT_PHOTOS)
    )
    photos = min(len(with_photos), max(1, round(count * PHOTO_POSTS)))
    texts = min(len(without), round(photos * (1 - PHOTO_POSTS) / PHOTO_POSTS))
    return dice.sample(with_photos, photos) + dice.sample(without, texts)


def posts(newsroom: Newsroom, chosen: Iterable[Story]) -> list[PlannedPost]:
    """Return the posts of the `chosen` stories and the comments on these posts, in chronological order."""
    at = {person.name: index for index, person in enumerate(newsroom.people)}
    plans = [plan for story in chosen for plan in newsroom.written(story, at[story.author])]
    plans.sort(key=lambda plan: plan.post.moment)
    index = {id(plan): at for at, plan in enumerate(plans)}
    return [structs.replace(one.post, parent=index[id(one.before)]) if one.before else one.post for one in plans]


STRANGERS = 0.06


def likes(newsroom: Newsroom, posts: Sequence[PlannedPost], *, total: int) -> tuple[tuple[int, int], ...]:
    """Return about `total` distinct pairs (member, post). No member likes their own post."""
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
    weighed: float = base * (1.6 if post.photos else 1.0) * (0.1 if post.parent is not None else 1.0)
    return weighed


def _scale(appeal: Sequence[float], limits: Sequence[int], total: int) -> float:
    """Return the factor for the values of `appeal` with which their sum is `total`, if each value is capped by its limit."""
    low, high = 0.0, 1000.0
    for _ in range(50):
        middle = (low + high) / 2
        reached = sum(min(value * middle, limit) for value, limit in zip(appeal, limits, strict=True))
        low, high = (middle, high) if reached < total else (low, middle)
    return low


def shares(
    newsroom: Newsroom, posts: Sequence[PlannedPost], liked: Sequence[tuple[int, int]]
) -> tuple[tuple[int, int, int], ...]:
    """Return shares as (member, post, time).

    Of the members who like a public post, 9 percent share it. Comments are not shared.
    """
    made = []
    for who, at in liked:
        post = posts[at]
        if post.visibility == Visibility.PUBLIC and post.parent is None and newsroom.dice.random() < 0.09:
            made.append((who, at, newsroom.time.after(post.moment, 6)))
    return tuple(sorted(made, key=lambda share: share[2]))


SAVED = 6
"""The number of posts that the hero has saved: the newest photo posts that they like."""


def messages(people: Sequence[Person], hero: int, now_ms: int) -> Iterator[PlannedMessage]:
    """Yield the messages of `CORRESPONDENCE` between `hero`, the member whom visitors try, and members of the network."""
    at = {person.name: index for index, person in enumerate(people)}
    if people[hero].name != HERO:
        return
    count = 0
    for letters in CORRESPONDENCE:
        if letters.member not in at:
            continue
        for number, line in enumerate(letters.lines):
            by_hero = line.startswith("> ")
            author, recipient = (hero, at[letters.member]) if by_hero else (at[letters.member], hero)
            yield PlannedMessage(
                author=author,
                recipient=recipient,
                moment=now_ms - int(letters.hours * HOUR_MS) + number * HOUR_MS // 2,
                text=line.removeprefix("> "),
                parent=count + number - 1 if number else None,
            )
        count += len(letters.lines)


POSTS_A_DAY = 1 / 30
"""Mean number of posts per member and day, as long as there are stories."""
LIKES_A_POST = 16
_REFERENCE_MS = 1_790_000_000_000
"""Plans are drawn for this time and then shifted, so that random choices do not depend on the clock."""


def plan(seed: int = 1, members: int = 60, days: int = 28, *, now_ms: int) -> DemoPlan:
    """Return a network of `members` people with the posts of the `days` days before `now_ms` (Unix milliseconds).

    `members` and `days` are at least 1. If only `now_ms` differs, all times of the plan are shifted.
    """
    if members < 1 or days < 1:
        raise ValueError("a network needs at least one member and one day")
    dice = Random(seed)  # noqa: S311 - it draws a made-up network, no secrets
    folk = people(dice, members)
    edges = follows(dice, folk)
    newsroom = Newsroom(dice, folk, edges, Timeline(dice, days=days, now_ms=_REFERENCE_MS))
    chosen = stories(dice, members, round(members * days * POSTS_A_DAY))
    written = posts(newsroom, chosen)
    liked = likes(newsroom, written, total=len(chosen) * LIKES_A_POST)
    shared = shares(newsroom, written, liked)
    later = now_ms - _REFERENCE_MS
    hero = next((at for at, person in enumerate(folk) if person.name == HERO), 0)
    followees = {followed for follower, followed in edges if follower == hero}
    return DemoPlan(
        people=folk,
        follows=edges,
        posts=tuple(structs.replace(post, moment=post.moment + later) for post in written),
        likes=liked,
        shares=tuple((member, post, moment + later) for member, post, moment in shared),
        hero=hero,
        messages=tuple(messages(folk, hero, now_ms)),
        saved=tuple(sorted(at for who, at in liked if who == hero and written[at].photos)[-SAVED:]),
        listed=tuple(at for at, person in enumerate(folk) if person.name in LIST[1] and at in followees),
        followed_tags=FOLLOWED_TAGS,
    )
