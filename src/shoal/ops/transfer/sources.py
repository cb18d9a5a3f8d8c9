"""The files of an import, and how to read them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from shoal.core.errors import InvalidInput
from shoal.ops.bounded_tasks import PATIENCE_SECONDS

MATCH, BEST_CONNECTED = "match", "best-connected"
PHOTO_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif"})


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """Which files to read, and how."""

    members: Path | None = None
    """Without it, follows and posts are of members who are there already, by name."""
    follows: Path | None = None
    mutual: bool = False
    """Each row of follows is two: either follows the other."""
    posts: Path | None = None
    authors: str = MATCH
    """`match`: authors are members by id or name; `best-connected`: who posted most is the best-connected member, and so on."""
    photos: Path | None = None
    """A directory of pictures, attached in turn, in the order of their names, to the newest posts."""
    photos_newest: int = 500
    bulk: bool | None = None
    """Whether rows are written straight into the store, which only an empty network allows; None: wherever it is possible."""
    columns: Mapping[str, str] = {}
    """Columns by field, such as `posts.title`, where they have not their usual names."""
    patience: float = PATIENCE_SECONDS
    """Seconds for which a store that is away is asked again, before the import ends."""


def in_directory(folder: Path) -> Sources:
    """The files of a directory laid out as `graph/nodes.csv`, `graph/edges.csv`, `posts/*.jsonl.gz` and `photos/`.

    Some may be absent. Raises `InvalidInput` where all are.
    """
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a directory")
    members, follows, photos = folder / "graph" / "nodes.csv", folder / "graph" / "edges.csv", folder / "photos"
    found = sorted((folder / "posts").glob("*.jsonl*"))
    sources = Sources(
        members=members if members.exists() else None,
        follows=follows if follows.exists() else None,
        mutual=True,
        posts=found[0] if found else None,
        authors=BEST_CONNECTED,
        photos=photos if photos.is_dir() else None,
    )
    if not (sources.members or sources.follows or sources.posts):
        raise InvalidInput(
            f"{folder} has neither graph/nodes.csv nor graph/edges.csv nor posts/*.jsonl.gz: name the files"
        )
    return sources


def photos_in(folder: Path) -> list[Path]:
    """The pictures of a directory, in the order of their names. Raises `InvalidInput` if there are none."""
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in PHOTO_SUFFIXES)
    if not found:
        raise InvalidInput(f"{folder} has no pictures ({', '.join(sorted(PHOTO_SUFFIXES))})")
    return found
