"""What the tables contain of each post, by visibility, content, state and `include`, compared with a handwritten table.

Posts do not expire. Deleted, scheduled and held posts have no current version.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from shoal import Handle, Shoal, Visibility
from shoal.core.errors import Held
from shoal.core.kinds import KindDraft
from shoal.core.model import Post
from shoal_project.targets import Target, opened
from tests.api.in_memory_network import network_fixture, picture
from tests.flows.test_account_deletion import worked_off
from tests.moderation.checks import WordCheck
from tests.project.test_projection import Databases, url_on

PUBLIC, UNLISTED, FOLLOWERS, DIRECT = Visibility
OPEN = {PUBLIC, UNLISTED}

# Visibilities of the posts in the tables, by `include`.
INCLUDED: dict[tuple[str, ...], set[Visibility]] = {
    (): OPEN,
    ("followers",): OPEN | {FOLLOWERS},
    ("direct",): OPEN | {DIRECT},
    ("connections",): OPEN,
    ("followers", "direct", "connections"): OPEN | {FOLLOWERS, DIRECT},
}
# Whether posts in a state are in the tables. No `include` adds posts that are not.
SHOWN = {
    "published": True,
    "narrowed": True,
    "revealed": True,
    "hidden": False,
    "deleted": False,
    "reported": True,
    "held": False,
    "scheduled": False,
    "by a restored author": True,
    "by a limited author": True,
    "by an author with hidden connections": True,
    "by a suspended author": False,
    "by a deleted author": False,
}
# The table, apart from `posts`, that contains a post of this content, and its column with the id of the post.
CONTENTS = {
    "recipe": ("post_fields", "post_id"),
    "tagged": ("tags", "post_id"),
    "comment": ("comments", "post_id"),
    "media": ("media", "post_id"),
    "liked": ("likes", "post_id"),
    "shared": ("shares", "post_id"),
}
# Includes with which the follows of an author are in the tables, by the state of their posts; all, unless named.
FOLLOWS = {
    "by an author with hidden connections": {("connections",), ("followers", "direct", "connections")},
    "by a suspended author": set[tuple[str, ...]](),
    "by a deleted author": set[tuple[str, ...]](),
}
COUNTED: dict[str, Any] = {"reports_to_hold": 1, "reporter_age_days": 0}
"""Settings by which one report removes a post from public lists."""
Cell = tuple[str, Visibility, str]


class Scene:
    """Posts by state, visibility and content. The posts of a state have one author, whom the fan follows."""

    def __init__(self, shoal: Shoal) -> None:
        self.shoal = shoal
        self.authors: dict[str, Handle] = {}
        self.posts: dict[Cell, Post] = {}

    async def write(self) -> None:
        schema = {"type": "object", "properties": {"title": {"type": "string"}}}
        await self.shoal.kinds.declare(KindDraft(name="recipe", schema=schema))
        self.fan = await self.shoal.register("fan")
        self.question = await (await self.shoal.register("host")).create("What do you see?")
        for number, state in enumerate(SHOWN):
            author = self.authors[state] = await self.shoal.register(f"author{number}")
            await self.fan.follow(author)
            for visibility in Visibility:
                for content in CONTENTS:
                    await self._post((state, visibility, content))
        await self.shoal.settle()

    async def _post(self, cell: Cell) -> None:
        state, visibility, content = cell
        author = self.authors[state]
        text = f"{state} {content} @fan" + (" #tide" if content == "tagged" else "")
        values: dict[str, Any] = {"visibility": PUBLIC if state == "narrowed" else visibility}
        if content == "recipe":
            values |= {"kind": "recipe", "data": {"title": state}}
        if content == "media":
            values["media"] = [await author.upload(picture())]
        if state == "scheduled":
            await author.scheduled.create(text, at=datetime.now(UTC) + timedelta(days=30), **values)
        elif state == "held":
            with pytest.raises(Held):
                await author.create(f"hold {text}", **values)
        elif content == "comment":
            self.posts[cell] = await author.comment(self.question, text, **values)
        else:
            self.posts[cell] = await author.create(text, **values)
        if content == "liked" and cell in self.posts:
            await self.fan.like(self.posts[cell])
        if content == "shared" and cell in self.posts and values["visibility"] is not DIRECT:
            await (self.fan if values["visibility"] in OPEN else author).share(self.posts[cell])

    async def change(self) -> None:
        """Bring the posts from their first state, in which others had seen them, into the one that they are named for."""
        changes: dict[str, Callable[[Post], Awaitable[Any]]] = {
            "hidden": self.shoal.hide,
            "revealed": self.shoal.hide,
            "deleted": self.authors["deleted"].delete,
        }
        for (state, visibility, _), post in self.posts.items():
            if state in changes:
                await changes[state](post)
            if state == "reported":
                await self.fan.report(self.authors[state], posts=[post])
            if state == "revealed":
                await self.shoal.reveal(post)
            if state == "narrowed" and visibility is not PUBLIC:
                await self.authors[state].update(post, visibility=visibility)
        for state in ("by a suspended author", "by a restored author"):
            await self.shoal.suspend(self.authors[state])
        await self.shoal.restore(self.authors["by a restored author"])
        await self.shoal.moderation.silence(self.authors["by a limited author"])
        await self.authors["by an author with hidden connections"].update_profile(hides_connections=True)
        await self.shoal.delete_member(self.authors["by a deleted author"])
        await worked_off(self.shoal, days=1)

    def expected(self, include: tuple[str, ...]) -> dict[str, set[Any]]:
        shown = {cell for cell in self.posts if SHOWN[cell[0]] and cell[1] in INCLUDED[include]}
        tables: dict[str, set[Any]] = {"posts": shown}
        for content, (table, _) in CONTENTS.items():
            tables[table] = {cell for cell in shown if cell[2] == content}
        # Direct posts cannot be shared, and shares by others do not survive a post that is no longer open to all.
        tables["shares"] = {
            (state, visibility, content)
            for state, visibility, content in tables["shares"]
            if visibility in OPEN or (visibility is FOLLOWERS and state != "narrowed")
        }
        everything = set(INCLUDED)
        tables["follows"] = {state for state in self.authors if include in FOLLOWS.get(state, everything)}
        return tables

    async def found(self, target: Target) -> dict[str, set[Any]]:
        cells = {post.id: cell for cell, post in self.posts.items()} | {self.question.id: None}
        states = {author.id: state for state, author in self.authors.items()}

        async def ids(table: str, column: str) -> list[int]:
            return [id_ for (id_,) in await target.read(f"SELECT {column} FROM {table}")]  # noqa: S608

        # An unknown id would be a scheduled post or one that waits for approval.
        tables = {table: {cells[id_] for id_ in await ids(table, at)} - {None} for table, at in CONTENTS.values()}
        tables["posts"] = {cells[id_] for id_ in await ids("posts", "id")} - {None}
        held = {cells[id_] for (id_,) in await target.read("SELECT id FROM posts WHERE held")}
        assert held == {cell for cell in tables["posts"] if cell is not None and cell[0] == "reported"}
        limited = await target.read("SELECT name FROM members WHERE limited")
        assert limited == [(self.authors["by a limited author"].name,)]
        kinds = await target.read("SELECT id FROM posts WHERE kind = 'recipe'")
        assert {cells[id_] for (id_,) in kinds} == tables["post_fields"]
        return {**tables, "follows": {states[id_] for id_ in await ids("follows", "followee_id")}}


@pytest.mark.parametrize("engine", ["sqlite", "duckdb", "postgresql"])
def test_projection_contains_exactly_what_visibility_state_and_include_allow(tmp_path: Path, engine: str) -> None:
    """After the events of the changes, and after a rebuild from the current state."""
    owner = Databases()

    async def told(shoal: Shoal) -> None:
        scene = Scene(shoal)
        await scene.write()
        urls: dict[tuple[str, ...], str] = {}
        for include in INCLUDED:
            folder = tmp_path / "-".join(["copy", *include])
            folder.mkdir()
            urls[include] = await url_on(engine, folder, owner)
            await shoal.project(urls[include], include)
        await scene.change()
        for include, url in urls.items():
            for rebuild in (False, True):
                await shoal.project(url, include, rebuild=rebuild)
                async with opened(url) as target:
                    assert await scene.found(target) == scene.expected(include), (include, rebuild)

    with network_fixture(moderation=WordCheck(), event_log="on", moderation_direct=True, **COUNTED) as logged:
        logged.run(told(Shoal(logged.network)))
