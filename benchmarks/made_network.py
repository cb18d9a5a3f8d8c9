"""Files of a generated network of any size for `shoal import`: plausible names, follows with a power law, posts.

They are written in blocks, so memory does not depend on the number of members.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_BLOCK = 500_000
_GIVEN_NAMES = """
    anna ben carla david elena felix greta hugo ines jonas karin leo maria noah olga paul quentin rosa simon tara ugo vera
    walter xenia yusuf zoe amir bea chen dora emil fatima georg hana ivan julia kofi lena marco nina oskar petra rafa sofia
    tom
"""
_FAMILY_NAMES = """
    adler becker costa dubois eriksen fischer garcia hansen ito jensen keller lopez meyer novak okafor petrov quinn rossi
    silva tanaka ueda vogel weber xu young zimmer almeida brandt chavez diaz engel ferrari gomez horvat ivanov jung kim lang
    moreau nagy olsen pereira ramos sato
"""
_SIGNS = ("", "_", "", "x", "_the_", "__")
_TOPIC_NAMES = """
    harbour lowtide gulls ferry fog sunrise boats lighthouse storm market bread garden film chess running
"""
GIVEN, FAMILY, TOPICS = _GIVEN_NAMES.split(), _FAMILY_NAMES.split(), _TOPIC_NAMES.split()
_TEXT = "{}: the boats lie on the sand and wait, number {}, and the light goes gray over the harbour wall"
_POSTED_FROM_MS = 1_420_070_400_000
_POSTED_FOR_MS = 8 * 365 * 86_400_000


class Shape(NamedTuple):
    """The size of a network. Member 0 is followed by `crowd`, and member 1 by `circle`."""

    members: int
    follows: int
    posts: int
    crowd: int
    circle: int = 400

    def scaled(self, members: int) -> Shape:
        """Return a proportional network of another size, with an equally large circle of member 1."""
        share = members / self.members
        circle = min(self.circle, members // 4)
        return Shape(members, int(self.follows * share), int(self.posts * share), int(self.crowd * share), circle)


def person(at: int) -> tuple[str, str]:
    """Return the user name and display name of the member at a position, with a number once names are used up."""
    rest, given = divmod(at * 7919 % 10_000_019, len(GIVEN))
    rest, family = divmod(rest, len(FAMILY))
    number, sign = divmod(rest, len(_SIGNS))
    name = f"{GIVEN[given]}{_SIGNS[sign]}{FAMILY[family]}{number or ''}"
    # With `sign` 0, nothing is between the two names; with 2, an underscore is appended at the end instead.
    return f"{name}_" if sign == 2 else name, f"{GIVEN[given].title()} {FAMILY[family].title()}"


def followees_of(shape: Shape, seed: int = 5) -> Iterator[tuple[Ints, Ints]]:
    """Yield blocks of followers and followees; a follow may occur twice.

    Popularity is proportional to the power -0.75 of a member's rank, besides the crowd of member 0 and the circle of member 1.
    """
    rng = np.random.default_rng(seed)
    n = shape.members
    for followee, size in ((0, shape.crowd), (1, shape.circle)):
        # Spread over all members, so that every shard has followers.
        chosen = 2 + np.arange(size, dtype=np.int64) * ((n - 2) // max(1, size))
        for start in range(0, size, _BLOCK):
            part = chosen[start : start + _BLOCK]
            yield part, np.full(len(part), followee, np.int64)
    left = shape.follows - shape.crowd - shape.circle
    while left > 0:
        size = min(left, _BLOCK)
        # The probability of a rank decreases with its power 0.75; this is the inverse of the cumulative distribution, x ** 0.25.
        followees = 2 + ((n - 2) * rng.random(size) ** 4).astype(np.int64)
        followers = rng.integers(2, n, size)
        yield followers, followees
        left -= size


def write(folder: Path, shape: Shape) -> None:
    """Write `members.csv`, `follows.csv` and `posts.jsonl` to a directory, unless they exist."""
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "done"
    if done.exists():
        return
    _write_members(folder / "members.csv", shape.members)
    _write_follows(folder / "follows.csv", shape)
    _write_posts(folder / "posts.jsonl", shape)
    done.touch()


def _write_members(path: Path, members: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write("id,name,display_name\n")
        for start in range(0, members, _BLOCK):
            block = range(start, min(start + _BLOCK, members))
            file.write("".join([f"{at},{','.join(person(at))}\n" for at in block]))


def _write_follows(path: Path, shape: Shape) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write("follower,followee\n")
        for followers, followees in followees_of(shape):
            rows = zip(followers.tolist(), followees.tolist(), strict=True)
            file.write("".join([f"{one},{other}\n" for one, other in rows]))


def _write_posts(path: Path, shape: Shape) -> None:
    """Popular members post more; all members' posts are spread over the same years."""
    rng = np.random.default_rng(6)
    with path.open("wb") as file:
        for start in range(0, shape.posts, _BLOCK):
            size = min(_BLOCK, shape.posts - start)
            authors = (shape.members * rng.random(size) ** 2).astype(np.int64).tolist()
            moments = (_POSTED_FROM_MS + rng.integers(0, _POSTED_FOR_MS, size)).tolist()
            topics = rng.integers(0, len(TOPICS), size).tolist()
            lines = zip(range(start, start + size), authors, moments, topics, strict=True)
            file.write(b"".join([_line(*line) for line in lines]))


def _line(at: int, author: int, moment: int, topic: int) -> bytes:
    text = _TEXT.format(TOPICS[topic].title(), at)
    tags = [TOPICS[topic]] if at % 4 == 0 else []
    return msgspec.json.encode({"id": at, "author": author, "created_at": moment, "text": text, "tags": tags}) + b"\n"
