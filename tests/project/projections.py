"""A projection of a network in this process, over its HTTP routes, and the rows that it has to have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime
from random import Random
from typing import Any, cast

import httpcore

from shoal.core.errors import Gone
from shoal.core.ids import milliseconds_of
from shoal.core.model import HIDDEN_BY_MODERATION, Member, Post, Share, Visibility
from shoal.graph.contract import Assoc, Store
from shoal.graph.payloads.follows import follow_terms
from shoal.graph.payloads.posts import chosen_of
from shoal.graph.schema import FOLLOWS, LIKES, REACTS
from shoal_project.projection import Projection
from shoal_project.sources import ServerSource
from shoal_project.tables import TABLES
from shoal_project.targets import Statement, Step, Target
from tests.api.in_memory_network import NetworkFixture
from tests.stores import all_links, all_objects


class Killed(BaseException):
    """The process ended."""


class RoutedSource(ServerSource):
    """A server in this process. Pages have random limits."""

    def __init__(self, shoal: NetworkFixture, secret: str, dice: Random, *, private: bool = False) -> None:
        super().__init__(cast("httpcore.AsyncConnectionPool", None), "", secret, private=private)
        self._shoal, self._secret, self._dice = shoal, secret, dice

    async def _get(self, path: str, **query: Any) -> Any:
        if "limit" in query:
            query["limit"] = self._dice.randint(1, 30)
        answer = await self._shoal.request("GET", path, self._secret, params=query)
        if answer.status_code == 410:
            raise Gone(answer.json()["error"])
        assert answer.status_code == 200, answer.text
        return answer.json()


class MortalTarget:
    """A target whose process is killed before a random statement, or after the commit."""

    def __init__(self, target: Target, dice: Random, chance: float) -> None:
        self._target = target
        self._dice = dice
        self._chance = chance
        self.deaths = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    async def write(self, steps: Sequence[Step]) -> None:
        dies = self._dice.random() < self._chance
        at = self._dice.randint(0, len(steps)) if dies else -1
        self.deaths += dies
        if dies and at < len(steps):
            try:
                await self._target.write([*steps[:at], Statement("SELECT 1 WHERE 1 = 0", must_change=True)])
            except Exception:  # noqa: BLE001  # the transaction has ended
                raise Killed from None
        await self._target.write(steps)
        if dies:
            raise Killed


async def read_all(
    target: Target, source: ServerSource, includes: Collection[str] = (), *, rebuild: bool = False
) -> None:
    """Run the program until the end of the log, again after each death."""
    while True:
        try:
            projection = Projection(target, source, includes, at_once=20)
            await projection.begin(rebuild=rebuild)
            rebuild = False
            while await projection.step():
                pass
        except Killed:
            continue
        return


async def contents(target: Target) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of the public tables, sorted."""
    return {
        table.name: await target.read(f"SELECT * FROM {table.name} ORDER BY {', '.join(table.key)}")  # noqa: S608
        for table in TABLES
    }


def utc(at: Any) -> datetime:
    """Return a time of any engine."""
    moment = datetime.fromisoformat(at) if isinstance(at, str) else cast("datetime", at)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _at(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds // 1000, UTC).replace(microsecond=milliseconds % 1000 * 1000)


async def facts_of(store: Store, includes: Collection[str] = ()) -> dict[str, set[Any]]:
    """Return what the tables of a network have to say, from its graph."""
    nodes = await all_objects(store)
    members = {node.id: node for node in nodes if isinstance(node, Member) and not node.suspended}
    seen = {Visibility.PUBLIC, Visibility.UNLISTED, *(Visibility(name) for name in includes if name != "connections")}
    posts = {
        node.id: node
        for node in nodes
        if isinstance(node, Post)
        and node.author_id in members
        and not node.hidden & HIDDEN_BY_MODERATION
        and node.visibility in seen
    }
    shares = [
        node
        for node in nodes
        if isinstance(node, Share) and node.author_id in members and node.post_id in posts and node.visibility in seen
    ]
    likes, follows = set(), set()
    reactions: set[tuple[int, int, str]] = set()
    for row in await all_links(store):
        if not row.alive or row.id1 not in members:
            continue
        if row.atype == LIKES.number and row.id2 in posts:
            likes.add((row.id1, row.id2, _at(milliseconds_of(row.time))))
        if row.atype == REACTS.number and row.id2 in posts:
            chosen = [each.emoji for each in chosen_of(Assoc(row.id2, row.time, row.data))]
            reactions.update((row.id1, row.id2, text) for text in chosen)
        ends = (members[row.id1], members.get(row.id2))
        is_shown = "connections" in includes or not any(end.hides_connections for end in ends if end)
        if row.atype == FOLLOWS.number and all(ends) and is_shown:
            began = follow_terms(row.data).began(row.time)
            follows.add((row.id1, row.id2, _at(milliseconds_of(began))))
    facts: dict[str, set[Any]] = {
        "members": {(m.id, m.name, m.display_name, m.hides_connections, _at(m.created_at)) for m in members.values()},
        "posts": {(p.id, p.author_id, p.text, str(p.visibility), _at(p.created_at)) for p in posts.values()},
        "comments": {(p.id, p.parent_id, p.root_id) for p in posts.values() if p.parent_id},
        "tags": {(p.id, tag) for p in posts.values() for tag in p.tags},
        "likes": likes,
        "reactions": reactions,
        "follows": follows,
        "shares": {(s.id, s.author_id, s.post_id) for s in shares},
    }
    days: Counter[tuple[date, str]] = Counter()
    days.update((fact[-1].date(), name) for name in ("members", "likes", "follows") for fact in facts[name])
    days.update((_at(p.created_at).date(), "comments" if p.parent_id else "posts") for p in posts.values())
    days.update((_at(milliseconds_of(s.id)).date(), "shares") for s in shares)
    facts["daily"] = {(day, name, count) for (day, name), count in days.items()}
    return facts


async def facts_in(target: Target) -> dict[str, set[Any]]:
    """Return the same facts from the tables."""

    async def read(sql: str, *, at: bool = False) -> set[Any]:
        return {(*row[:-1], utc(row[-1])) if at else row for row in await target.read(sql)}

    names = ("members", "posts", "comments", "likes", "shares", "follows")
    members = await read("SELECT id, name, display_name, hides_connections, created_at FROM members", at=True)
    daily = await target.read(f"SELECT day, {', '.join(names)} FROM daily")  # noqa: S608
    return {
        "members": {(*row[:3], bool(row[3]), row[4]) for row in members},
        "posts": await read("SELECT id, author_id, text, visibility, created_at FROM posts", at=True),
        "comments": await read("SELECT post_id, parent_id, thread_id FROM comments"),
        "tags": await read("SELECT post_id, tag FROM tags"),
        "likes": await read("SELECT member_id, post_id, created_at FROM likes", at=True),
        "reactions": await read("SELECT member_id, post_id, reaction FROM reactions"),
        "follows": await read("SELECT follower_id, followee_id, created_at FROM follows", at=True),
        "shares": await read("SELECT id, member_id, post_id FROM shares"),
        "daily": {
            (date.fromisoformat(str(row[0])), name, count)
            for row in daily
            for name, count in zip(names, row[1:], strict=True)
            if count
        },
    }
