"""Photo grids: one photo for each post, in rows that fill the width of the page (`web/photo_rows.py`)."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from shoal.core.model import MediaKind
from shoal.core.text import plain_excerpt
from shoal.core.visibility import is_sensitive
from shoal.graph.contract import Cursor
from shoal.queries.hydration import Entry
from shoal.queries.pipeline import Page
from shoal.web.photo_rows import WIDTHS, grid_sizes, row_breaks
from shoal.web.request_context import PageContext
from shoal.web.view_models import BASE83, Face, Photo, face_of, photo_of, ratio_class

_LEAST_RATIO, _MOST_RATIO = 0.5, 2.5
"""The aspect ratios that have CSS classes: see `ratio_class`."""
PHOTOS = 24
"""Photos of a page."""
_MOST_PAGES = 5
"""Pages of a timeline that are read for one page of which few entries are shown."""
_SCREEN = 9
"""Photos that are visible at once, about."""
_BY_ONE_AUTHOR = 2
"""Maximum number of photos of an author among those."""
_LARGE = 0.6
"""Photos in a row of large photos, as a fraction of the usual ones."""
_FEW = 0.25
"""Fraction of a row that is enlarged to fill the width. A single landscape photo does on every width."""
_ADJACENT = 8
"""Photos before a photo that are next to it or in the rows above."""
_ALIKE = 0.16
"""Distance of blurhashes below which two photos count as near-duplicates."""


class GridPhoto(NamedTuple):
    photo: Photo
    path: str
    author: Face
    label: str = ""
    """The description of the photo, or else the beginning of the post's text."""
    likes: str = ""
    number: int = 1
    """The number of photos of the post."""
    covered: bool = False
    """Whether the photo is sensitive and not shown."""
    pinned: bool = False
    anchor: str = ""
    """The id of its element; empty for none."""
    breaks: str = ""
    """CSS classes of the widths at which a row ends after this photo."""
    sizes: str = ""
    """The widths at which it is shown, for browsers to choose a file."""


class PhotoGrid(NamedTuple):
    photos: tuple[GridPhoto, ...] = ()
    fillers: tuple[str, ...] = ()
    """CSS classes of empty items that fill the only row of a grid with few photos."""


def grid_of(
    ctx: PageContext,
    entries: Iterable[Entry],
    *,
    limit: int = 0,
    everything: bool = False,
    reorder: bool = True,
    alone: bool = False,
    pinned: Collection[int] = (),
) -> PhotoGrid:
    """Return the first photo, or video, of each post as a grid.

    Args:
        limit: Maximum number of photos; 0 for all.
        everything: Whether to include audio, and sensitive posts with their photos covered.
        reorder: Whether to apply `spread`.
        alone: Whether the grid is the subject of the page: few photos are then enlarged to fill the width.
        pinned: Ids of the posts that are marked as pinned.
    """
    found: dict[int, GridPhoto] = {}
    for entry in entries:
        post, author = entry.post, entry.author.member
        media = next(
            (one for one in entry.media if one.preview_key), entry.media[0] if entry.media and everything else None
        )
        covered = is_sensitive(post, author) or bool(post.spoiler or entry.filtered)
        if media is None or post.id in found or (covered and not everything):
            continue
        path = ctx.url(f"/@{author.name}/{post.id}")
        label = media.description or plain_excerpt(post.text, 80)
        likes = ctx.words.compact(entry.likes) if entry.likes else ""
        found[post.id] = GridPhoto(
            photo_of(ctx, media),
            path,
            face_of(ctx, author),
            label,
            likes,
            len(entry.media),
            covered,
            post.id in pinned,
            f"p{post.id}",
        )
    photos = spread(list(found.values())) if reorder else list(found.values())
    return in_rows(photos[:limit] if limit else photos, few=_FEW if alone else 1.0)


def every_picture(ctx: PageContext, entries: Iterable[Entry], *, alone: bool) -> PhotoGrid:
    """Return all pictures of the posts as a grid of large photos, without posts that need a warning. For `alone` see `grid_of`."""
    return in_rows(
        [
            GridPhoto(
                photo_of(ctx, media),
                ctx.url(f"/@{entry.author.member.name}/{entry.post.id}"),
                face_of(ctx, entry.author.member),
                media.description or plain_excerpt(entry.post.text, 80),
            )
            for entry in entries
            if not (is_sensitive(entry.post, entry.author.member) or entry.post.spoiler or entry.filtered)
            for media in entry.media
            if media.kind is MediaKind.IMAGE and media.preview_key
        ],
        scale=_LARGE,
        few=_FEW if alone else _LARGE,
    )


async def sparse_page(read: Callable[[Cursor], Awaitable[Page]], at: Cursor, admits: Callable[[Entry], bool]) -> Page:
    """Read pages of a timeline, at most five, until their admitted entries fill one: a page may be short or empty."""
    found = await read(at)
    entries = [*filter(admits, found.entries)]
    for _ in range(_MOST_PAGES - 1):
        if found.next is None or len(entries) >= at.limit:
            break
        found = await read(at._replace(before=found.next))
        entries += filter(admits, found.entries)
    return Page(entries, found.next)


async def photos_page(read: Callable[[Cursor], Awaitable[Page]], at: Cursor) -> Page:
    """Read a page of the posts with media in a timeline (see `sparse_page`)."""
    return await sparse_page(read, at, lambda entry: bool(entry.media))


def spread(photos: Sequence[GridPhoto]) -> list[GridPhoto]:
    """Reorder photos so that one author has at most two on a screen, and near-duplicates are not adjacent.

    Each position gets the first remaining photo that fits or, if none does (such as with a single author), the first one.
    """
    waiting, placed = list(photos), list[GridPhoto]()
    while waiting:
        fitting = (n for n, photo in enumerate(waiting) if _fits(placed, photo))
        placed.append(waiting.pop(next(fitting, 0)))
    return placed


def _fits(placed: Sequence[GridPhoto], photo: GridPhoto) -> bool:
    by_author = sum(one.author.id == photo.author.id for one in placed[1 - _SCREEN :])
    return by_author < _BY_ONE_AUTHOR and not any(
        alike(one.photo.blurhash, photo.photo.blurhash) for one in placed[-_ADJACENT:]
    )


def in_rows(photos: Sequence[GridPhoto], *, scale: float = 1.0, few: float = 1.0) -> PhotoGrid:
    """Return the photos with the ends of their rows and their sizes for each width.

    Args:
        scale: Fraction of the usual photos in a row; smaller for larger photos.
        few: If all photos together fill less than this fraction of a row, empty items fill the rest instead of larger photos.
    """
    ratios = tuple(int(one.photo.ratio[1:]) / 100 for one in photos)
    rows = zip(photos, row_breaks(ratios, scale), grid_sizes(ratios, scale, few), strict=True)
    return PhotoGrid(
        tuple(photo._replace(breaks=breaks, sizes=sizes) for photo, breaks, sizes in rows),
        tuple(_fillers(sum(ratios), few)) if ratios else (),
    )


def _fillers(total: float, few: float) -> Iterable[str]:
    """Yield the classes of empty items that complete a grid with fewer photos than the fraction `few` of a row."""
    for name, target in WIDTHS.items():
        missing = few * target - total
        parts = math.ceil(missing / _MOST_RATIO) if missing >= _LEAST_RATIO else 0
        for _ in range(parts):
            yield f"{name} {ratio_class(missing / parts)}"


@lru_cache(10_000)
def _components(blurhash: str) -> tuple[float, ...]:
    """Return the average color of a blurhash and its first cosine components, each about 0 to 1; empty for an invalid one.

    Format: https://github.com/woltapp/blurhash/blob/master/Algorithm.md
    """
    values = [BASE83.get(digit, -1) for digit in blurhash]
    if len(values) < 6 or min(values) < 0:
        return ()
    average = 0
    for value in values[2:6]:
        average = average * 83 + value
    found = [(average >> shift & 255) / 255 for shift in (16, 8, 0)]
    largest = (values[1] + 1) / 166
    for high, low in zip(values[6::2], values[7::2], strict=False):
        packed = high * 83 + low
        levels = ((part - 9) / 9 for part in (packed // 361, packed // 19 % 19, packed % 19))
        found += [math.copysign(level * level, level) * largest for level in levels]
    return (float(values[0]), *found)


def alike(one: str, other: str) -> bool:
    """Return whether two photos look almost the same, by the distance of their blurhashes."""
    first, second = _components(one), _components(other)
    return bool(first) and first[:1] == second[:1] and len(first) == len(second) and math.dist(first, second) < _ALIKE
