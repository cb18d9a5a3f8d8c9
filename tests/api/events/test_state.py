"""The current state as events: with it, a consumer begins a copy, or completes that of a member who returned."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from shoal import Shoal
from shoal.core.model import Visibility
from shoal.queries.events import MAX_BYTES
from tests.api.events.consumer import EVENTS, PRIVATE, PUBLIC, Copy, all_events, facts_of, key_of
from tests.api.events.test_copy import Story
from tests.api.in_memory_network import NetworkFixture, network_fixture

STATE = f"{EVENTS}/state"


@pytest.fixture
def logged() -> Iterator[NetworkFixture]:
    with network_fixture(event_log="on") as made:
        yield made


def state(shoal: NetworkFixture, secret: str, **query: Any) -> Iterator[Any]:
    """Yield the events of all pages."""
    after: str | None = ""
    while after is not None:
        page = shoal.json("GET", STATE, secret, params={"after": after, **query})
        yield from page["events"]
        after = page["next"]


@pytest.mark.parametrize(("scopes", "limit"), [(PUBLIC, 1), (PUBLIC, 200), (PRIVATE, 7)])
def test_state_pages_together_equal_network(logged: NetworkFixture, scopes: tuple[str, ...], limit: int) -> None:
    logged.run(Story(Shoal(logged.network), Random(2)).act(150))
    logged.settle()
    copy = Copy()
    for event in state(logged, key_of(logged, *scopes), limit=limit):
        copy.apply(event)
    facts = logged.run(facts_of(logged.network.store, private=scopes == PRIVATE))
    assert {name: fact for name, fact in copy.facts.items() if not name.startswith("media/")} == facts
    assert {name.partition("/")[0] for name in facts} >= {"member", "post", "like", "follow"}


def test_state_of_member_with_long_lists_continues_within_them(logged: NetworkFixture) -> None:
    async def act() -> set[str]:
        shoal = Shoal(logged.network)
        ann = await shoal.register("ann")
        posts = [await ann.create(f"post {number}") for number in range(25)]
        for post in posts:
            await ann.like(post)
        return {f"like/{ann.id}/{post.id}" for post in posts}

    likes = logged.run(act())
    found = [event["subject"] for event in state(logged, key_of(logged, *PUBLIC), limit=3)]
    assert {subject for subject in found if subject.startswith("like/")} == likes
    assert len(found) == len(set(found)) == 51


def test_state_of_one_member_has_posts_and_follows_of_both_directions(logged: NetworkFixture) -> None:
    async def act() -> tuple[int, set[str]]:
        shoal = Shoal(logged.network)
        ann, bob, cyd = [await shoal.register(name) for name in ("ann", "bob", "cyd")]
        await ann.follow(bob)
        await cyd.follow(ann)
        await bob.follow(cyd)
        post = await ann.create("public")
        await ann.create("private", visibility=Visibility.FOLLOWERS)
        await bob.create("of another member")
        share = await ann.share(await bob.create("shared"))
        expected = {f"member/{ann.id}", f"follow/{ann.id}/{bob.id}", f"follow/{cyd.id}/{ann.id}", f"post/{post.id}"}
        return ann.id, expected | {f"share/{share.id}"}

    ann, expected = logged.run(act())
    secret = key_of(logged, *PUBLIC)
    for limit in (1, 100):
        assert {event["subject"] for event in state(logged, secret, limit=limit, member=ann)} == expected


def test_state_of_suspended_member_is_empty(logged: NetworkFixture) -> None:
    async def act() -> int:
        shoal = Shoal(logged.network)
        ann = await shoal.register("ann")
        await ann.create("hello")
        await shoal.suspend(ann)
        return ann.id

    ann = logged.run(act())
    assert list(state(logged, key_of(logged, *PUBLIC), member=ann)) == []


def test_state_of_posts_with_large_data_has_pages_of_one_mebibyte(logged: NetworkFixture) -> None:
    async def act() -> tuple[int, set[str]]:
        ann = await Shoal(logged.network).register("ann")
        posts = [await ann.create("large", data="x" * 65_000) for _ in range(40)]
        return ann.id, {f"post/{post.id}" for post in posts}

    ann, posts = logged.run(act())
    secret = key_of(logged, *PUBLIC)
    for query in ({}, {"member": ann}):
        after: str | None = ""
        found: list[str] = []
        sizes: list[int] = []
        while after is not None:
            answer = logged.ask("GET", STATE, secret, params={"after": after, "limit": 200, **query})
            sizes.append(len(answer.content))
            found += [event["subject"] for event in answer.json()["events"] if event["type"] == "post.created"]
            after = answer.json()["next"]
        assert (len(found), set(found)) == (40, posts)
        assert max(sizes) < 1.1 * MAX_BYTES


@pytest.mark.parametrize("after", ["x", "1.2", "1.9.0", "1.-1.0", f"{'9' * 20}.0.0"])
def test_state_with_invalid_place_is_refused(logged: NetworkFixture, after: str) -> None:
    answer = logged.ask("GET", STATE, key_of(logged, *PUBLIC), params={"after": after})
    assert (answer.status_code, "after: " in answer.json()["error"]) == (422, True)


def test_event_of_post_by_suspended_author_reports_the_author_withdrawn(logged: NetworkFixture) -> None:
    """Otherwise a consumer that reads the suspension after its end would miss the post."""
    shoal, secret = Shoal(logged.network), key_of(logged, *PUBLIC)
    ann = logged.run(shoal.register("ann"))
    cursor = logged.json("GET", EVENTS, secret)["cursor"]
    logged.run(ann.create("hello"))
    logged.run(shoal.suspend(ann))
    for event in list(all_events(logged, secret, cursor))[:2]:
        assert (event["type"], event["data"]) == ("member.deleted", {"id": str(ann.id), "withdrawn": True})
    assert [event["type"] for event in all_events(logged, secret, cursor, types="post.created")] == []


def test_event_of_follow_of_hiding_member_reports_that_they_hide(logged: NetworkFixture) -> None:
    shoal, secret = Shoal(logged.network), key_of(logged, *PUBLIC)
    ann, bob = logged.run(shoal.register("ann")), logged.run(shoal.register("bob"))
    cursor = logged.json("GET", EVENTS, secret)["cursor"]
    logged.run(ann.follow(bob))
    logged.run(bob.update_profile(hides_connections=True))
    events = list(all_events(logged, secret, cursor))
    assert [(event["type"], event["subject"]) for event in events] == [("member.updated", f"member/{bob.id}")] * 2
    assert all(event["data"]["hides_connections"] for event in events)
