"""Likes and shares: a few posts get most of them, mostly from those who follow the author."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from shoal.core.model import Visibility
from shoal.demo.model import PlannedPost
from shoal.demo.posts import Newsroom

STRANGERS = 0.06
"""The share of likes that come from people who do not follow the author."""


def likes(room: Newsroom, posts: Sequence[PlannedPost], *, total: int) -> tuple[tuple[int, int], ...]:
    """About `total` pairs (member, post), none twice, nobody their own."""
    appeal = [_appeal(room.dice, room, post) for post in posts]
    crowds = [set(room.followers[post.author]) - {post.author} for post in posts]
    scale = _scale(appeal, [len(crowd) for crowd in crowds], total)
    pairs: list[tuple[int, int]] = []
    for at, (post, crowd) in enumerate(zip(posts, crowds, strict=True)):
        wanted = min(len(crowd), int(appeal[at] * scale + room.dice.random()))
        fans = room.dice.sample(sorted(crowd), wanted)
        for slot in range(len(fans)):
            if post.visibility == Visibility.PUBLIC and room.dice.random() < STRANGERS:
                stranger = room.dice.randrange(len(room.people))
                if stranger != post.author and stranger not in fans:
                    fans[slot] = stranger
        pairs.extend((fan, at) for fan in fans)
    return tuple(pairs)


def _appeal(dice: Random, room: Newsroom, post: PlannedPost) -> float:
    base = dice.paretovariate(1.5) * max(1, len(room.followers[post.author])) ** 0.8
    weighed: float = base * (1.6 if post.scenes else 1.0) * (0.1 if post.parent is not None else 1.0)
    return weighed


def _scale(appeal: Sequence[float], limits: Sequence[int], total: int) -> float:
    """By what to multiply so that the sum, each held to its limit, is the total."""
    low, high = 0.0, 1000.0
    for _ in range(50):
        middle = (low + high) / 2
        reached = sum(min(value * middle, limit) for value, limit in zip(appeal, limits, strict=True))
        low, high = (middle, high) if reached < total else (low, middle)
    return low


def shares(
    room: Newsroom, posts: Sequence[PlannedPost], liked: Sequence[tuple[int, int]]
) -> tuple[tuple[int, int, int], ...]:
    """(member, post, moment): one in twenty of those who like a public post show it to others."""
    made = []
    for who, at in liked:
        post = posts[at]
        if post.visibility == Visibility.PUBLIC and room.dice.random() < (0.008 if post.parent is not None else 0.05):
            made.append((who, at, room.time.after(post.moment, 6)))
    return tuple(sorted(made, key=lambda share: share[2]))
