"""Photo grids: one photo for each post, in rows that fill the width of the page (`web/photo_rows.py`)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from shoal.core.blurhash import distance
from shoal.core.model import Media, MediaKind
from shoal.core.text import plain_excerpt
from shoal.core.visibility import is_sensitive
from shoal.graph.contract import Cursor
from shoal.queries import public_timelines, trends
from shoal.queries.context import Reads
from shoal.queries.hydration import Entry
from shoal.queries.pipeline import Page
from shoal.web.photo_rows import LEAST_RATIO, MOST_RATIO, WIDTHS, grid_sizes, ratio_class, ratio_of, row_breaks
from shoal.web.request_context import PageContext
from shoal.web.view_models import Face, Photo, face_of, photo_of

PHOTOS = 24
_MOST_PAGES = 5
"""Maximum number of timeline pages that are read to fill one page with matching entries."""
_SCREEN = 9
_BY_ONE_AUTHOR = 2
"""Maximum number of photos by one author among the photos of a screen."""
_LARGE = 0.6
"""A row of large photos has this fraction of the photos of a normal row."""
_FEW = 0.25
"""Photos that fill at least this fraction of a single row are enlarged to fill the whole row. A landscape photo always does."""
_ADJACENT = 8
"""Number of preceding photos that are near a photo: next to it, or in the rows above it."""
_ALIKE = 0.16
"""Photos are near-duplicates if the distance of their blurhashes is below this value."""


class GridPhoto(NamedTuple):
    photo: Photo
    path: str
    author: Face
    label: str = ""
    """The description of the photo; without one, the beginning of the post's text."""
    likes: str = ""
    number: int = 1
    covered: bool = False
    pinned: bool = False
    anchor: str = ""
    breaks: str = ""
    """CSS classes of the ranges of widths for which a row ends after this photo."""
    sizes: str = ""
    """The widths at which it is shown, for browsers to choose a file."""


class PhotoGrid(NamedTuple):
    photos: tuple[GridPhoto, ...] = ()
    fillers: tuple[str, ...] = ()
    """CSS classes of empty items that fill the row of a grid with very few photos."""


class Listing(NamedTuple):
    """A page of a list that shows photos or whole posts."""

    entries: Sequence[Entry]
    next: str
    """URL of the next page; empty on the last one."""
    grid: PhotoGrid | None = None
    """The photos; None for whole posts."""


def grid_photo(ctx: PageContext, entry: Entry, media: Media) -> GridPhoto:
    post, author = entry.post, entry.author.member
    return GridPhoto(
        photo_of(ctx, media),
        ctx.url(f"/@{author.name}/{post.id}"),
        face_of(ctx, author),
        media.description or plain_excerpt(post.shown_text, 80),
        covered=_is_covered(entry),
    )


def _is_covered(entry: Entry) -> bool:
    return is_sensitive(entry.post, entry.author.member) or bool(entry.post.spoiler or entry.filtered)


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
        id_ = entry.post.id
        media = next(
            (one for one in entry.media if one.preview_key), entry.media[0] if entry.media and everything else None
        )
        if media is None or id_ in found or (_is_covered(entry) and not everything):
            continue
        found[id_] = grid_photo(ctx, entry, media)._replace(
            likes=ctx.words.compact(entry.likes) if entry.likes else "",
            number=len(entry.media),
            pinned=id_ in pinned,
            anchor=f"p{id_}",
        )
    photos = spread(list(found.values())) if reorder else list(found.values())
    return in_rows(photos[:limit] if limit else photos, few=_FEW if alone else 1.0)


def every_picture(ctx: PageContext, entries: Iterable[Entry], *, alone: bool) -> PhotoGrid:
    """Return all pictures of the posts as a grid of large photos. Posts that need a warning are left out.

    With `alone`, few photos are enlarged to fill the width (see `grid_of`).
    """
    return in_rows(
        [
            grid_photo(ctx, entry, media)
            for entry in entries
            if not _is_covered(entry)
            for media in entry.media
            if media.kind is MediaKind.IMAGE and media.preview_key
        ],
        scale=_LARGE,
        few=_FEW if alone else _LARGE,
    )


async def popular_then_newest(reads: Reads, viewer: int | None, limit: int) -> list[Entry]:
    """Return popular posts followed by the newest posts with media, at most `limit` of each."""
    popular, newest = await asyncio.gather(
        trends.page(reads, viewer, limit),
        public_timelines.public_page(reads, viewer, Cursor(limit=limit), only_media=True),
    )
    return [*popular, *newest.entries]


async def photos_page(read: Callable[[Cursor], Awaitable[Page]], at: Cursor) -> Page:
    """Return a page of the posts with media in a timeline.

    Pages of the timeline are read until these posts fill one page. At most five are read, so the result may be short or empty.
    """
    found = await read(at)
    entries = [entry for entry in found.entries if entry.media]
    for _ in range(_MOST_PAGES - 1):
        if found.next is None or len(entries) >= at.limit:
            break
        found = await read(at._replace(before=found.next))
        entries += [entry for entry in found.entries if entry.media]
    return Page(entries, found.next)


def spread(photos: Sequence[GridPhoto]) -> list[GridPhoto]:
    """Reorder photos so that a screen shows at most two by one author, and near-duplicates are not close together.

    Each position gets the first remaining photo that meets both rules. If there is none, for example with a single
    author, it gets the first remaining photo.
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
        scale: Number of photos in a row as a fraction of the usual number; a smaller value makes photos larger.
        few: If all photos fill less than this fraction of a row, empty items fill the rest, and the photos are not
        enlarged.
    """
    ratios = tuple(ratio_of(one.photo.ratio) for one in photos)
    rows = zip(photos, row_breaks(ratios, scale), grid_sizes(ratios, scale, few), strict=True)
    return PhotoGrid(
        tuple(photo._replace(breaks=breaks, sizes=sizes) for photo, breaks, sizes in rows),
        tuple(_fillers(sum(ratios), few)) if ratios else (),
    )


def _fillers(total: float, few: float) -> Iterable[str]:
    """Yield the CSS classes of the empty items that complete a row.

    `total` is the sum of the aspect ratios of the photos. For `few`, see `in_rows`.
    """
    for width in WIDTHS:
        missing = few * width.target - total
        parts = math.ceil(missing / MOST_RATIO) if missing >= LEAST_RATIO else 0
        for _ in range(parts):
            yield f"{width.css_class} {ratio_class(missing / parts)}"


def alike(one: str, other: str) -> bool:
    """Return whether two blurhashes are so similar that the photos look nearly equal."""
    return distance(one, other) < _ALIKE
