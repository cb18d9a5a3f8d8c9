"""Posts, scheduled posts and uploads in a member's export."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from shoal.commands.polls import poll_of, titles
from shoal.commands.scheduled_posts import draft_of
from shoal.core.model import Media, Poll, Post, Revision, ScheduledPost
from shoal.graph.contract import Cursor
from shoal.graph.schema import OWNS, PINS, POSTED, REVISED, SCHEDULES
from shoal.ops.transfer.exporting import Export, file_name, iso


async def write(export: Export) -> None:
    """Posts, comments, scheduled posts and media."""
    await export.array("posts", _posts(export, comments=False))
    await export.array("comments", _posts(export, comments=True))
    await export.array("scheduled", _scheduled(export))
    export.document("media", await _media(export))


async def _posts(export: Export, *, comments: bool) -> AsyncGenerator[dict[str, Any], None]:
    """Newest first, each with what it said before its edits."""
    async with aclosing(export.pages(POSTED)) as pages:
        async for page in pages:
            ids = [entry.id2 for entry in page]
            nodes = await export.graph.obj_get(ids)
            pinned = (await export.graph.assoc_get(export.member.id, (PINS,), ids))[PINS]
            for id_ in ids:
                post = nodes.get(id_)
                if isinstance(post, Post) and bool(post.parent_id) is comments:
                    yield await _post(export, post, pinned=id_ in pinned)


async def _post(export: Export, post: Post, *, pinned: bool) -> dict[str, Any]:
    poll = await poll_of(export.graph, post)
    return {
        "id": str(post.id),
        "written": iso(post.created_at),
        "edited": iso(post.edited_at) or None,
        "in_answer_to": str(post.parent_id) if post.parent_id else None,
        "visibility": post.visibility,
        "language": post.language,
        "sensitive": post.sensitive,
        "spoiler": post.spoiler,
        "text": post.text,
        "tags": post.tags,
        "place": post.place._asdict() if post.place else None,
        "data": msgspec.Raw(post.json.encode()) if post.json else None,
        "media": await _names(export, post.media),
        "poll": _poll(poll) if poll else None,
        "pinned": pinned,
        "history": await _history(export, post) if post.version > 1 else [],
    }


def _poll(poll: Poll) -> dict[str, Any]:
    return {"options": titles(poll), "multiple": poll.multiple, "until": iso(poll.expires_at)}


async def _history(export: Export, post: Post) -> list[dict[str, Any]]:
    found = await export.graph.assoc_range(post.id, REVISED, Cursor(limit=10_000, oldest_first=True))
    nodes = await export.graph.obj_get([revision.id2 for revision in found])
    revisions = [node for r in found if isinstance(node := nodes.get(r.id2), Revision)]
    return [{"written": iso(r.written), "spoiler": r.spoiler, "text": r.text} for r in revisions]


async def _names(export: Export, ids: Sequence[int]) -> list[str]:
    """Where in the export media are."""
    found = await export.graph.obj_get(ids)
    return [file_name(node) for id_ in ids if isinstance(node := found.get(id_), Media)]


async def _scheduled(export: Export) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the posts that are scheduled."""
    async with aclosing(export.pages(SCHEDULES)) as pages:
        async for page in pages:
            nodes = await export.graph.obj_get([entry.id2 for entry in page])
            for entry in page:
                if isinstance(node := nodes.get(entry.id2), ScheduledPost):
                    yield await _plan(export, node)


async def _plan(export: Export, scheduled: ScheduledPost) -> dict[str, Any]:
    draft = draft_of(scheduled)
    return {
        "id": str(scheduled.id),
        "at": iso(scheduled.at),
        "in_answer_to": str(draft.parent_id) if draft.parent_id else None,
        "visibility": draft.visibility,
        "language": draft.language,
        "sensitive": draft.sensitive,
        "spoiler": draft.spoiler,
        "text": draft.text,
        "place": draft.place,
        "data": draft.data,
        "media": await _names(export, draft.media),
        "poll": {"options": draft.poll.options, "multiple": draft.poll.multiple} if draft.poll else None,
    }


async def _media(export: Export) -> list[dict[str, Any]]:
    """Every picture, video and sound that the member uploaded, and what is said of each; the files go along."""
    told: list[dict[str, Any]] = []
    async with aclosing(export.pages(OWNS)) as pages:
        async for page in pages:
            nodes = await export.graph.obj_get([entry.id2 for entry in page])
            for node in nodes.values():
                if isinstance(node, Media):
                    # What is not made yet, or could not be, has no file.
                    file = await export.file(node.key) if node.key else ""
                    told.append(
                        {
                            "id": str(node.id),
                            "kind": node.kind,
                            "file": file,
                            "description": node.description,
                            "focus": node.focus,
                        }
                    )
                    export.progress("media", len(told), 0)
    return told
