"""A network from files: members, follows and posts of another one become ours.

Every record is recognised, so an import that was ended at any moment, even by `kill -9`, is run again and goes on where it
was; in the end the counts are the same. It runs in the process that owns the store, which may be a server. Passwords are not
imported: the operator sets those that are wanted (`shoal member password`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec

from shoal.core.errors import InvalidInput
from shoal.graph.schema import EVERYBODY
from shoal.ops.bounded_tasks import PATIENCE_SECONDS
from shoal.ops.checking.report import Progress, nothing
from shoal.ops.network import AnyNetwork
from shoal.ops.transfer import imported_members, imported_posts
from shoal.ops.transfer.imported_follows import Edges, read_follows, references, take_follows
from shoal.ops.transfer.imported_members import ImportedMembers, read_members, take_members
from shoal.ops.transfer.imported_posts import PostJob, Rememberer, read_posts, take_posts
from shoal.ops.transfer.records import PostRecord, check_columns, read_lines
from shoal.ops.transfer.summary import Summary
from shoal.services.writes import Writes

MATCH, BEST_CONNECTED = "match", "best-connected"
PHOTO_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif"})

_PATIENCE_SECONDS = 3_600.0
"""How long what follows from the posts may take."""


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


async def import_all(network: AnyNetwork, sources: Sources, summary: Summary, progress: Progress = nothing) -> Summary:
    """Take in what is not there yet, and see what follows from it done.

    Raises `OSError` for a file that cannot be read, `InvalidInput` for one that is not of a known form; refused records
    are in the summary.
    """
    check_columns(sources.columns)
    with _timed(summary, "reading"):
        people = await _people(network, sources, summary)
        # In a thread, for files may be long: a server goes on answering meanwhile.
        edges = await asyncio.to_thread(_edges, sources, people, summary)
        records = await asyncio.to_thread(_records, sources, summary)
        authors = _authors(sources, records, people, edges)
    with _timed(summary, "members"):
        if sources.members:
            first = imported_posts.first_posts(records, authors)
            await take_members(network, people, sources.members.name, first, summary, progress, sources.patience)
    with _timed(summary, "follows"):
        await take_follows(network, people, edges, summary, progress, sources.patience)
    with _timed(summary, "posts"):
        jobs = _jobs(sources, records, authors, people, summary)
        async with _with_own_decoder(network) as writes:
            await take_posts(network, jobs, writes, summary, progress, sources.patience)
    with _timed(summary, "consequences"):
        await network.settle(_PATIENCE_SECONDS)
        # See `imported_follows`: what was read meanwhile knows nothing of the follows.
        await network.effects.followers.changed(EVERYBODY)
        await network.timelines.clear()
    return summary


@contextmanager
def _timed(summary: Summary, phase: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    summary.seconds[phase] = time.monotonic() - began


async def _people(network: AnyNetwork, sources: Sources, summary: Summary) -> ImportedMembers:
    if sources.members:
        return await asyncio.to_thread(_members, sources.members, sources, summary)
    names: set[str] = set()
    if sources.follows:
        names.update(references(read_lines(sources.follows), sources.columns))
    if sources.posts and sources.authors == MATCH:
        names.update(record.author for record in read_posts(read_lines(sources.posts), sources.columns, Summary()))
    return await imported_members.members_there(network, sorted(names))


def _members(path: Path, sources: Sources, summary: Summary) -> ImportedMembers:
    return read_members(read_lines(path), sources.columns, summary)


def _edges(sources: Sources, people: ImportedMembers, summary: Summary) -> Edges:
    lines = read_lines(sources.follows) if sources.follows else iter(())
    return read_follows(lines, sources.columns, people, summary, mutual=sources.mutual)


def _records(sources: Sources, summary: Summary) -> list[PostRecord]:
    return read_posts(read_lines(sources.posts), sources.columns, summary) if sources.posts else []


def _authors(sources: Sources, records: list[PostRecord], people: ImportedMembers, edges: Edges) -> dict[str, int]:
    if sources.authors == BEST_CONNECTED:
        return imported_posts.authors_by_connection(records, edges.degrees(len(people)))
    return imported_posts.authors_by_name(records, people)


def _jobs(
    sources: Sources, records: list[PostRecord], authors: Mapping[str, int], people: ImportedMembers, summary: Summary
) -> list[PostJob]:
    origin = sources.posts.name if sources.posts else ""
    photos = _photos(sources.photos) if sources.photos else []
    return imported_posts.plan(records, authors, people, origin, photos, sources.photos_newest, summary)


def _photos(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in PHOTO_SUFFIXES)
    if not found:
        raise InvalidInput(f"{folder} has no pictures ({', '.join(sorted(PHOTO_SUFFIXES))})")
    return found


@asynccontextmanager
async def _with_own_decoder(network: AnyNetwork) -> AsyncIterator[Writes]:
    """A server decodes one picture at a time beside its requests; an import has nothing else to do."""
    async with Rememberer(network.media.limits, children=os.cpu_count() or 1) as decoder:
        yield dataclasses.replace(network.writes, media=network.media.with_decoder(decoder))
