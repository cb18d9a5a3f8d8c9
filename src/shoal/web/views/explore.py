"""A network seen from outside: photos in rows, and its tags."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from shoal.core.errors import Unavailable
from shoal.core.model import MediaKind
from shoal.mastodon_api.tag_cloud_image import DrawnWord, Frame, NamedLevel, arranged
from shoal.queries.hydration import Entry
from shoal.tagcloud.cloud import SizedTag
from shoal.web.views.people import Face, face_of
from shoal.web.views.posts import Photo, photo_of, tag_path
from shoal.web.visit import Visit


class WallPhoto(NamedTuple):
    """A photo that leads to its post."""

    photo: Photo
    path: str
    author: Face
    likes: str


class CloudWord(NamedTuple):
    """A tag, as large as it is used."""

    tag: str
    path: str
    size: int
    """1 to 9."""
    uses: str


class DrawnTag(NamedTuple):
    """A word of a drawn tag cloud: where it leads, what it says, how it looks and where it stands, in pixels."""

    path: str
    text: str
    told: str
    look: str
    """Its classes: colour and weight."""
    x: float
    y: float
    size: float
    width: float


class DrawnCloud(NamedTuple):
    """A tag cloud as a picture."""

    frame: Frame
    words: tuple[DrawnTag, ...]


def wall_of(visit: Visit, entries: Iterable[Entry]) -> list[WallPhoto]:
    """Return the first photo of each post; those that are sensitive, and what is no photo, are left out."""
    found: list[WallPhoto] = []
    shown: set[int] = set()
    for entry in entries:
        post, author = entry.post, entry.author.member
        media = next((one for one in entry.media if one.kind is MediaKind.IMAGE and one.preview_key), None)
        if media is None or post.id in shown or post.sensitive or author.sensitized or post.spoiler:
            continue
        shown.add(post.id)
        path = visit.url(f"/@{author.name}/{post.id}")
        likes = visit.words.compact(entry.likes) if entry.likes else ""
        found.append(WallPhoto(photo_of(visit, media), path, face_of(visit, author), likes))
    return found


async def cloud_of(visit: Visit, limit: int, order: str = "all") -> list[CloudWord]:
    """Return the tags of the network in the order of the alphabet; none while the cloud is away."""
    return cloud_words(visit, await words_of_cloud(visit, limit, order))


async def words_of_cloud(visit: Visit, limit: int, order: str = "all") -> list[SizedTag]:
    """Return the tags of the network, the first first; none while the cloud is away."""
    try:
        return await visit.front.reads.tags.sized(order, limit)
    except Unavailable:
        return []


def cloud_words(visit: Visit, words: Sequence[SizedTag]) -> list[CloudWord]:
    """Return tags as words of a page, in the order of the alphabet."""
    return [
        CloudWord(word.form, tag_path(visit, word.name), word.level, visit.words.number(word.uses))
        for word in sorted(words, key=lambda word: word.name)
    ]


async def drawn_cloud(visit: Visit, words: Sequence[SizedTag]) -> DrawnCloud | None:
    """Return the picture of a tag cloud; None for no tags. Its layout takes a tenth of a second, and is remembered."""
    if not words:
        return None
    key = tuple(NamedLevel(word.name, word.form, word.level) for word in words)
    frame, placed = await asyncio.to_thread(_laid_out, key)
    return DrawnCloud(
        frame,
        tuple(
            DrawnTag(
                tag_path(visit, words[one.place.at].name),
                one.text,
                _uses(visit, words[one.place.at]),
                f"c{one.colour} {one.weight}",
                one.place.x + one.place.width / 2,
                one.place.baseline,
                one.place.size,
                one.place.width,
            )
            for one in placed
        ),
    )


@lru_cache(8)
def _laid_out(words: tuple[NamedLevel, ...]) -> tuple[Frame, tuple[DrawnWord, ...]]:
    frame, placed = arranged(words)
    return frame, tuple(placed)


def _uses(visit: Visit, word: SizedTag) -> str:
    text = visit.words.plural("#%(tag)s: %(n)s post", "#%(tag)s: %(n)s posts", word.uses)
    return text % {"tag": word.form, "n": visit.words.number(word.uses)}
