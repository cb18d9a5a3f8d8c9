"""A member's own data: what they wrote and uploaded, what they reacted to, whom they follow, block and mute.

Lists are read page by page, so an export takes the same memory however much there is. Posts of others are quoted only as far
as the member may see them now. Secrets are not part of it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from shoal.core.errors import NotFound
from shoal.core.ids import milliseconds_of
from shoal.core.model import Media, Member, Post, Revision
from shoal.feeds.hydrate import hydrate
from shoal.graph.access import members_by_id
from shoal.graph.contract import MAX_TIME, Assoc
from shoal.graph.schema import (
    BLOCKS,
    BOOKMARKS,
    FOLLOWED_BY,
    FOLLOWS,
    FOLLOWS_TAG,
    LIKES,
    MUTES,
    OWNS,
    POSTED,
    REVISED,
    SHARES,
    AssocType,
)
from shoal.ops.crate import Open, crate
from shoal.ops.network import AnyNetwork
from shoal.ops.report import Progress, nothing
from shoal.services import members
from shoal.services.polls import poll_of, titles

_PAGE = 500

Rows = Callable[[Sequence[Assoc]], Awaitable[list[Sequence[str]]]]

_PEOPLE = {"follows": FOLLOWS, "followers": FOLLOWED_BY, "blocks": BLOCKS, "mutes": MUTES}
_REACTIONS = {"likes": LIKES, "shares": SHARES, "bookmarks": BOOKMARKS}


async def export(network: AnyNetwork, name: str, to: Path, progress: Progress = nothing) -> int:
    """Write everything of the member of this name to a directory, or to a `.zip` file; nothing is there if it fails.

    How many of their pictures could not be found is what comes back.

    Raises `NotFound` for a name that nobody has, `InvalidInput` where something is in the way.
    """
    member = await members.find(network.writes, name)
    if member is None:
        raise NotFound(f"there is no member {name!r}")
    with crate(to) as opened:
        writing = _Export(network, member, opened, progress)
        await writing.profile()
        await writing.posts("posts.json", comments=False)
        await writing.posts("comments.json", comments=True)
        for noun, atype in _REACTIONS.items():
            await writing.reactions(noun, atype)
        for noun, atype in _PEOPLE.items():
            await writing.people(noun, atype)
        await writing.tags()
        await writing.media()
    return writing.lost


class _Export:
    """One export under way: each method writes one file."""

    def __init__(self, network: AnyNetwork, member: Member, opened: Open, progress: Progress) -> None:
        self._store = network.store
        self._files = network.media
        self._member = member
        self._open = opened
        self._progress = progress
        self.lost = 0
        """Pictures whose file is not there."""

    async def profile(self) -> None:
        """What others see of the member, and their settings."""
        values = {name: value for name, value in msgspec.structs.asdict(self._member).items() if name != "login_id"}
        values["id"] = str(self._member.id)
        values["joined"] = _iso(self._member.joined)
        for name in ("avatar", "header"):
            if values[name]:
                values[name] = await self._file(values[name])
        with self._open("profile.json") as file:
            file.write(msgspec.json.format(msgspec.json.encode(values)))

    async def posts(self, name: str, *, comments: bool) -> None:
        """Posts, or comments, newest first, each with what it said before its edits."""
        written = 0
        with self._open(name) as file:
            file.write(b"[")
            async with aclosing(self._pages(POSTED)) as pages:
                async for page in pages:
                    nodes = await self._store.obj_get([entry.id2 for entry in page])
                    posts = [
                        n for e in page if isinstance(n := nodes.get(e.id2), Post) and bool(n.parent_id) is comments
                    ]
                    for post in posts:
                        file.write(b",\n" if written else b"\n")
                        file.write(msgspec.json.encode(await self._post(post)))
                        written += 1
                        self._progress(name, written, 0)
            file.write(b"\n]\n")

    async def _post(self, post: Post) -> dict[str, Any]:
        pictures = await self._store.obj_get(post.media)
        poll = await poll_of(self._store, post)
        return {
            "id": str(post.id),
            "written": _iso(post.written),
            "edited": _iso(post.edited_at) if post.edited_at else None,
            "in_answer_to": str(post.parent_id) if post.parent_id else None,
            "visibility": post.visibility,
            "language": post.language,
            "sensitive": post.sensitive,
            "spoiler": post.spoiler,
            "text": post.text,
            "tags": post.tags,
            "place": post.place._asdict() if post.place else None,
            "data": msgspec.Raw(post.data.encode()) if post.data else None,
            "media": [_name(n) for id_ in post.media if isinstance(n := pictures.get(id_), Media)],
            "poll": {"options": titles(poll), "until": _iso(poll.expires_at)} if poll else None,
            "history": await self._history(post) if post.version > 1 else [],
        }

    async def _history(self, post: Post) -> list[dict[str, Any]]:
        found = await self._store.assoc_range(post.id, REVISED, limit=10_000, oldest_first=True)
        nodes = await self._store.obj_get([revision.id2 for revision in found])
        revisions = [node for r in found if isinstance(node := nodes.get(r.id2), Revision)]
        return [{"written": _iso(r.written), "spoiler": r.spoiler, "text": r.text} for r in revisions]

    async def reactions(self, noun: str, atype: AssocType) -> None:
        """Posts that the member likes, shares or keeps, with their author and text where the member may see them."""

        async def rows(page: Sequence[Assoc]) -> list[Sequence[str]]:
            seen = await hydrate(self._store, self._member.id, [assoc.id2 for assoc in page], unasked=False)
            told = {entry.id: (entry.author.member.name, entry.post.text) for entry in seen}
            return [(_when(a), str(a.id2), *told.get(a.id2, ("", ""))) for a in page]

        await self._table(noun, atype, ("time", "post", "author", "text"), rows)

    async def people(self, noun: str, atype: AssocType) -> None:
        """Whom a list of the member's leads to."""

        async def rows(page: Sequence[Assoc]) -> list[Sequence[str]]:
            found = await members_by_id(self._store, [assoc.id2 for assoc in page])
            return [(_when(a), str(a.id2), found[a.id2].name if a.id2 in found else "") for a in page]

        await self._table(noun, atype, ("time", "id", "name"), rows)

    async def tags(self) -> None:
        """The tags that the member follows."""

        async def rows(page: Sequence[Assoc]) -> list[Sequence[str]]:
            return [(_when(assoc), assoc.data.decode()) for assoc in page]

        await self._table("followed_tags", FOLLOWS_TAG, ("time", "tag"), rows)

    async def _table(self, noun: str, atype: AssocType, header: Sequence[str], rows: Rows) -> None:
        with self._open(f"{noun}.csv") as file, io.TextIOWrapper(file, "utf-8", newline="") as text:
            table = csv.writer(text)
            table.writerow(header)
            written = 0
            async with aclosing(self._pages(atype)) as pages:
                async for page in pages:
                    table.writerows(await rows(page))
                    written += len(page)
                    self._progress(noun, written, 0)

    async def media(self) -> None:
        """Every picture that the member uploaded, and what is said of each."""
        told = []
        async with aclosing(self._pages(OWNS)) as pages:
            async for page in pages:
                nodes = await self._store.obj_get([entry.id2 for entry in page])
                for node in nodes.values():
                    if isinstance(node, Media):
                        told.append(
                            {"id": str(node.id), "file": await self._file(node.key), "description": node.description}
                        )
                        self._progress("media", len(told), 0)
        with self._open("media.json") as file:
            file.write(msgspec.json.format(msgspec.json.encode(told)))

    async def _file(self, key: str) -> str:
        """A stored file goes along; under which name."""
        name = f"media/{Path(key).name}"
        try:
            data, _ = await self._files.read(key)
        except NotFound:
            # The picture is lost, or was replaced a moment ago: the rest is worth having.
            self.lost += 1
            return ""
        with self._open(name) as file:
            file.write(data)
        return name

    async def _pages(self, atype: AssocType) -> AsyncGenerator[list[Assoc], None]:
        before = MAX_TIME
        while page := await self._store.assoc_range(self._member.id, atype, before=before, limit=_PAGE):
            yield page
            before = page[-1].time


def _name(media: Media) -> str:
    return f"media/{Path(media.key).name}"


def _when(assoc: Assoc) -> str:
    return _iso(milliseconds_of(assoc.time))


def _iso(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec="milliseconds")
