"""A consumer of the event log over HTTP: its copy of a network, and the same facts in the graph."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import httpx

from shoal.commands import server_keys
from shoal.core.model import OPEN, Member, Post, Share
from shoal.graph.contract import Store
from shoal.graph.event_log import LogKind
from shoal.graph.payloads.posts import chosen_of
from shoal.graph.schema import FOLLOWS, LIKES, REACTS
from shoal.http.authentication import key_scopes
from tests.api.in_memory_network import NetworkFixture
from tests.stores import all_links, all_objects

EVENTS = "/api/shoal/v1/events"
PUBLIC = ("server:events",)
PRIVATE = ("server:events", "server:private")
EVERYTHING = ("server", "admin:read")


def key_of(shoal: NetworkFixture, *scopes: str) -> str:
    """Create a server key and return its secret."""
    name = f"key {len(shoal.run(server_keys.keys(shoal.network.writes.graph)))}"
    return shoal.run(server_keys.create(shoal.network.writes, name, key_scopes(scopes))).secret


def ask(shoal: NetworkFixture, secret: str, **query: Any) -> httpx.Response:
    return shoal.ask("GET", EVENTS, secret, params=query)


def page(shoal: NetworkFixture, secret: str, **query: Any) -> Any:
    return shoal.json("GET", EVENTS, secret, params=query)


def all_events(shoal: NetworkFixture, secret: str, after: str = "start", **query: Any) -> Iterator[Any]:
    """Yield the events up to the end of the log."""
    while True:
        found = page(shoal, secret, after=after, **query)
        yield from found["events"]
        after = found["cursor"]
        if not found["more"]:
            return


class Copy:
    """A copy of a network, from events alone. `read` may receive some pages twice."""

    def __init__(self) -> None:
        self.cursor = "start"
        self._known: dict[str, tuple[int, bool, Any]] = {}

    def read(self, shoal: NetworkFixture, secret: str, dice: Random) -> None:
        while True:
            found = page(shoal, secret, after=self.cursor, limit=dice.randint(1, 30))
            for event in found["events"]:
                self.apply(event)
            if dice.random() < 0.2:
                # The consumer failed before it stored the cursor.
                continue
            self.cursor = found["cursor"]
            if not found["more"]:
                return

    def apply(self, event: Any) -> None:
        version, deleted = int(event["version"]), event["type"].endswith(".deleted")
        known = self._known.get(event["subject"])
        if known is None or (version, deleted) >= known[:2]:
            self._known[event["subject"]] = (version, deleted, event["data"])

    @property
    def facts(self) -> dict[str, Any]:
        """What is visible. An association counts only while both of its ends are in the copy."""
        alive = {subject: data for subject, (_, deleted, data) in self._known.items() if not deleted}
        return {subject: _fact(data) for subject, data in alive.items() if all(end in alive for end in _ends(data))}


def _ends(data: Any) -> list[str]:
    named = (("post_id", "post"), ("follower_id", "member"), ("followee_id", "member"))
    ends = [f"{noun}/{data[field]}" for field, noun in named if field in data]
    member = data.get("member_id") or (data.get("author_id") if "post_id" in data else None)
    return [*ends, f"member/{member}"] if member else ends


def _fact(data: Any) -> Any:
    return next((data[field] for field in ("text", "display_name", "emoji") if field in data), True)


async def facts_of(store: Store, *, private: bool) -> dict[str, Any]:
    """Return the facts of a graph that `Copy.facts` has to equal."""
    nodes = await all_objects(store)
    members = {node.id: node for node in nodes if isinstance(node, Member) and not node.suspended}
    posts = {
        node.id: node
        for node in nodes
        if isinstance(node, Post)
        and node.author_id in members
        and not node.hidden
        and (private or node.visibility in OPEN)
    }
    facts: dict[str, Any] = {f"member/{member.id}": member.display_name for member in members.values()}
    facts |= {f"post/{post.id}": post.text for post in posts.values()}
    for node in nodes:
        if isinstance(node, Share) and node.author_id in members and node.post_id in posts:
            facts |= {f"share/{node.id}": True} if private or node.visibility in OPEN else {}
    for row in await all_links(store):
        if not row.alive or row.id1 not in members:
            continue
        if row.atype == LIKES.number and row.id2 in posts:
            facts[f"like/{row.id1}/{row.id2}"] = True
        elif row.atype == REACTS.number and row.id2 in posts:
            emoji = (await store.assoc_get(row.id1, (REACTS,), (row.id2,)))[REACTS][row.id2]
            facts[f"reaction/{row.id1}/{row.id2}"] = [position.emoji for position in chosen_of(emoji)]
        elif row.atype == FOLLOWS.number and row.id2 in members:
            facts[f"follow/{row.id1}/{row.id2}"] = True
    return facts


LABELS = frozenset(kind.label for kind in LogKind if kind is not LogKind.MOVED)
