"""The follows of a plan: a few members are followed by most, most by a few; similar members follow each other."""

from __future__ import annotations

import math
from random import Random

from shoal.demo.model import Person

FOLLOW_BACK = 0.3
"""How often a follow between people of equal fame is returned beyond what chance would have made."""


def follows(dice: Random, people: tuple[Person, ...]) -> tuple[tuple[int, int], ...]:
    """Pairs (follower, followed), nobody themselves and none twice; at least one of everybody where there are two people."""
    edges: dict[tuple[int, int], None] = {}
    for who in range(len(people)):
        for whom in _choices(dice, people, who):
            edges[who, whom] = None
    for who, whom in tuple(edges):
        if dice.random() < FOLLOW_BACK * min(1.0, (people[who].weight / people[whom].weight) ** 0.5):
            edges[whom, who] = None
    return tuple(edges)


def _choices(dice: Random, people: tuple[Person, ...], who: int) -> list[int]:
    """A weighted draw without replacement: the largest of `log(random) / weight`."""
    tastes, language = set(people[who].interests), people[who].language
    wanted = max(1, round(min(17.0, len(people) / 4) * math.exp(dice.gauss(0, 0.55))))
    keys = []
    for whom, other in enumerate(people):
        if whom != who:
            shared = len(tastes.intersection(other.interests))
            pull = other.weight * (1 + 2.0 * shared) * (2.0 if other.language == language else 1.0)
            keys.append((math.log(1 - dice.random()) / pull, whom))
    return [whom for _, whom in sorted(keys, reverse=True)[:wanted]]
