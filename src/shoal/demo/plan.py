"""The plan of a demo network: people, follows, posts, likes and shares as plain values, always the same for the same seed.

It reads no clock and touches no store.
"""

from __future__ import annotations

from random import Random

from msgspec import structs

from shoal.demo.follows import follows
from shoal.demo.model import DemoPlan
from shoal.demo.people import people
from shoal.demo.posts import Newsroom, Timeline, posts
from shoal.demo.reactions import likes, shares

POSTS_A_DAY = 0.105
COMMENTS_A_DAY = 0.165
LIKES_A_DAY = 1.8
"""Each by one member, on the average."""
_DRAWN_AT = 1_790_000_000_000
"""The moment for which every plan is drawn, and then moved to the wanted one: what dice decide must not hang on the clock."""


def plan(seed: int = 1, members: int = 120, days: int = 28, *, now_ms: int) -> DemoPlan:
    """A network of `members` (at least one) with the posts of the last `days` (at least one) before `now_ms`, Unix milliseconds.

    At another moment the same seed gives the same network, each time in it later or earlier by as much.
    """
    if members < 1 or days < 1:
        raise ValueError("a network has at least one member and one day")
    dice = Random(seed)  # noqa: S311 - it draws a made-up network, no secrets
    folk = people(dice, members)
    edges = follows(dice, folk)
    room = Newsroom(dice, folk, edges, Timeline(dice, days=days, now_ms=_DRAWN_AT))
    size = members * days
    written = posts(room, roots=max(1, round(size * POSTS_A_DAY)), comments=round(size * COMMENTS_A_DAY))
    liked = likes(room, written, total=round(size * LIKES_A_DAY))
    shared = shares(room, written, liked)
    later = now_ms - _DRAWN_AT
    return DemoPlan(
        people=folk,
        follows=edges,
        posts=tuple(structs.replace(post, moment=post.moment + later) for post in written),
        likes=liked,
        shares=tuple((member, post, moment + later) for member, post, moment in shared),
    )
