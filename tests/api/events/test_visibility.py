"""Which events a server key receives, by its scopes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from shoal import Shoal
from shoal.core.model import Post, Visibility
from shoal.library.handle import Handle
from tests.api.events.consumer import PRIVATE, PUBLIC, all_events, key_of, page
from tests.api.in_memory_network import NetworkFixture, network_fixture, picture

SECRET = "the treasure is under the pier"
KEYS = {
    "public": PUBLIC,
    "private": PRIVATE,
    "accounts": (*PUBLIC, "admin:read:accounts"),
    "reports": (*PUBLIC, "admin:read:reports"),
    "audit": (*PUBLIC, "admin:read"),
}


class People(NamedTuple):
    shoal: Shoal
    ann: Handle
    ben: Handle

    async def post(self, visibility: str, text: str = SECRET, **more: Any) -> Post:
        return await self.ann.create(text, visibility=Visibility(visibility), **more)


async def _hidden(people: People) -> None:
    await people.shoal.hide(await people.post("public"))


async def _narrowed(people: People) -> Post:
    post = await people.post("public")
    await people.ann.update(post, visibility=Visibility.FOLLOWERS)
    return post


async def _narrowed_and_deleted(people: People) -> None:
    await people.ann.delete(await _narrowed(people))


async def _edited(people: People, visibility: str) -> None:
    await people.ann.update(await people.post(visibility), f"{SECRET} still")


async def _deleted(people: People, visibility: str) -> None:
    await people.ann.delete(await people.post(visibility))


async def _suspended(people: People) -> None:
    await people.post("public")
    await people.shoal.suspend(people.ann)


async def _activity(people: People, visibility: str) -> None:
    await people.ben.follow(people.ann)
    post = await people.post(visibility)
    await people.ben.like(post)
    await people.ben.react(post, "🌊")


async def _hidden_follow(people: People) -> None:
    await people.ann.update_profile(hides_connections=True)
    await people.ben.follow(people.ann)


async def _upload(people: People) -> None:
    await people.ann.upload(picture(), description=SECRET)


async def _published_upload(people: People) -> None:
    await people.post("public", "look", media=[await people.ann.upload(picture())])


async def _private_share(people: People) -> None:
    post = await people.post("public", "shared")
    await people.ben.share(post, visibility=Visibility.FOLLOWERS)


async def _pending(people: People) -> None:
    dan = await people.shoal.register("dan", email="dan@example.org", pending=True, reason=SECRET)
    await people.shoal.moderation.sensitize(dan)


async def _report(people: People) -> None:
    await people.ben.report(people.ann, comment=SECRET)


async def _action(people: People) -> None:
    await people.shoal.moderation.silence(people.ann)


CASES: dict[str, tuple[Callable[[People], Awaitable[object]], str, dict[str, list[str]]]] = {
    # The act, whether a public key must not receive `SECRET`, and the expected events.
    "public post": (lambda people: people.post("public", "hi"), "", {"public": ["post.created"]}),
    "unlisted post": (lambda people: people.post("unlisted", "hi"), "", {"public": ["post.created"]}),
    "followers post": (lambda p: p.post("followers"), SECRET, {"public": [], "private": ["post.created"]}),
    "direct post": (lambda p: p.post("direct"), SECRET, {"public": [], "private": ["post.created"]}),
    "hidden post": (_hidden, SECRET, {"public": ["post.deleted"], "private": ["post.deleted"]}),
    "narrowed post": (
        _narrowed,
        SECRET,
        {"public": ["post.deleted"], "private": ["post.created", "post.updated"]},
    ),
    "narrowed and deleted post": (
        _narrowed_and_deleted,
        SECRET,
        {"public": ["post.deleted"], "private": ["post.deleted"]},
    ),
    "edited followers post": (
        lambda people: _edited(people, "followers"),
        SECRET,
        {"public": [], "private": ["post.created", "post.updated"]},
    ),
    "deleted public post": (lambda people: _deleted(people, "public"), SECRET, {"public": ["post.deleted"]}),
    "deleted direct post": (
        lambda people: _deleted(people, "direct"),
        SECRET,
        {"public": [], "private": ["post.deleted"]},
    ),
    "suspended author": (
        _suspended,
        SECRET,
        {
            "public": ["member.deleted", "post.deleted"],
            "private": ["member.deleted", "post.deleted"],
            "accounts": ["member.updated", "post.deleted"],
        },
    ),
    "activity on public post": (
        lambda people: _activity(people, "public"),
        "",
        {"public": ["follow.created", "like.created", "post.created", "reaction.created"]},
    ),
    "activity on followers post": (
        lambda people: _activity(people, "followers"),
        SECRET,
        {
            "public": ["follow.created"],
            "private": ["follow.created", "like.created", "post.created", "reaction.created"],
        },
    ),
    "follow of member who hides follows": (
        _hidden_follow,
        "",
        {"public": ["member.updated"], "private": ["follow.created", "member.updated"]},
    ),
    "unpublished upload": (
        _upload,
        SECRET,
        {"public": ["member.updated"], "private": ["media.created", "member.updated"]},
    ),
    "published upload": (
        _published_upload,
        "",
        {
            "public": ["member.updated", "post.created"],
            "private": ["media.created", "media.updated", "member.updated", "post.created"],
        },
    ),
    "private share": (
        _private_share,
        "",
        {"public": ["post.created"], "private": ["post.created", "share.created"]},
    ),
    "pending sign-up": (
        _pending,
        SECRET,
        {"public": [], "private": [], "accounts": ["member.created", "member.updated"]},
    ),
    "report": (_report, SECRET, {"public": [], "private": [], "reports": ["report.created"], "accounts": []}),
    "moderation": (
        _action,
        "",
        {"public": ["member.updated"], "audit": ["audit.created", "member.updated"], "reports": ["member.updated"]},
    ),
}


@pytest.fixture(scope="module")
def logged() -> Iterator[NetworkFixture]:
    with network_fixture(event_log="on", approval=False) as made:
        yield made


@pytest.fixture(scope="module")
def secrets(logged: NetworkFixture) -> dict[str, str]:
    return {name: key_of(logged, *scopes) for name, scopes in KEYS.items()}


@pytest.mark.parametrize("case", CASES)
def test_events_of_case_reach_exactly_the_keys_with_their_scopes(
    logged: NetworkFixture, secrets: dict[str, str], case: str
) -> None:
    act, secret, expected = CASES[case]
    shoal = Shoal(logged.network)

    async def people() -> People:
        names = [f"{name}{list(CASES).index(case)}" for name in ("ann", "ben")]
        ann, ben = [await shoal.register(name) for name in names]
        return People(shoal, ann, ben)

    them = logged.run(people())
    logged.settle()
    start = page(logged, secrets["public"])["cursor"]
    logged.run(_awaited(act(them)))
    logged.settle()
    for name, types in expected.items():
        events = list(all_events(logged, secrets[name], start, limit=2))
        assert sorted({event["type"] for event in events}) == types, (name, events)
        if name == "public" and secret:
            assert secret.encode() not in msgspec.json.encode(events)


async def _awaited(doing: Awaitable[object]) -> None:
    await doing


def test_events_of_member_have_address_only_for_key_with_scope(logged: NetworkFixture, secrets: dict[str, str]) -> None:
    start = page(logged, secrets["public"])["cursor"]
    logged.join("eve", email="eve@example.org")
    found = {}
    for name in KEYS:
        (event,) = all_events(logged, secrets[name], start, types="member.created")
        found[name] = event["data"].get("email")
    assert found == {"accounts": "eve@example.org", "audit": "eve@example.org"} | dict.fromkeys(
        ("public", "private", "reports")
    )
