"""A network from files: members, follows and posts of another one become ours.

Every record is recognised, so an import that was ended at any moment, even by `kill -9`, is run again and goes on where it
was; in the end the counts are the same. It runs in the process that owns the store, which may be a server. Passwords are not
imported: the operator sets those that are wanted (`shoal member password`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from shoal.graph.schema import EVERYBODY
from shoal.ops.checking.report import Progress, nothing
from shoal.ops.network import AnyNetwork
from shoal.ops.transfer import imported_members, imported_posts, loading
from shoal.ops.transfer.decoding import with_own_decoder
from shoal.ops.transfer.imported_follows import Edges, read_follows, references, take_follows
from shoal.ops.transfer.imported_members import ImportedMembers, read_members, take_members
from shoal.ops.transfer.imported_posts import PostJob, read_posts, take_posts
from shoal.ops.transfer.records import PostRecord, check_columns, read_lines
from shoal.ops.transfer.sources import BEST_CONNECTED, MATCH, Sources, photos_in
from shoal.ops.transfer.summary import Summary

_PATIENCE_SECONDS = 3_600.0
"""How long what follows from the posts may take."""


async def import_all(network: AnyNetwork, sources: Sources, summary: Summary, progress: Progress = nothing) -> Summary:
    """Take in what is not there yet, and see what follows from it done.

    Raises `OSError` for a file that cannot be read, `InvalidInput` for one that is not of a known form; refused records
    are in the summary.
    """
    check_columns(sources.columns)
    if await loading.loads(network, sources, summary):
        await loading.load_all(network, sources, summary, progress)
        return summary
    with summary.timed("reading"):
        people = await _people(network, sources, summary)
        # In a thread, for files may be long: a server goes on answering meanwhile.
        edges = await asyncio.to_thread(_edges, sources, people, summary)
        records = await asyncio.to_thread(_records, sources, summary)
        authors = _authors(sources, records, people, edges)
    with summary.timed("members"):
        if sources.members:
            first = imported_posts.first_posts(records, authors)
            await take_members(network, people, sources.members.name, first, summary, progress, sources.patience)
    with summary.timed("follows"):
        await take_follows(network, people, edges, summary, progress, sources.patience)
    with summary.timed("posts"):
        jobs = _jobs(sources, records, authors, people, summary)
        async with with_own_decoder(network) as writes:
            await take_posts(network, jobs, writes, summary, progress, sources.patience)
    with summary.timed("consequences"):
        await network.settle(_PATIENCE_SECONDS)
        # See `imported_follows`: what was read meanwhile knows nothing of the follows.
        await network.effects.followers.changed(EVERYBODY)
        await network.timelines.clear()
    return summary


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
    photos = photos_in(sources.photos) if sources.photos else []
    return imported_posts.plan(records, authors, people, origin, photos, sources.photos_newest, summary)
