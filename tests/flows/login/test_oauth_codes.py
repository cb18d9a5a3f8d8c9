"""OAuth codes and browser sessions: altered codes are refused, and codes and sessions expire and are cleaned up."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Shoal
from shoal.commands import credentials, members, oauth, sessions
from shoal.commands.context import Writes
from shoal.commands.oauth import BROWSER_MS
from shoal.core.errors import NotFound, Unauthenticated
from shoal.core.ids import IdMaker, milliseconds_of
from shoal.core.model import App, AuthorizationCode, Token
from shoal.graph.access import access_member
from shoal.graph.contract import Graph
from shoal.graph.schema import EXPIRING, LOGGED_IN
from shoal.mastodon_api.oauth import OUT_OF_BAND, redirects_to
from tests.api.oauth_browser import CHALLENGE, VERIFIER
from tests.async_runner import in_loop
from tests.engines import dynamodb
from tests.example_counts import examples
from tests.flows.simulation.faults import Between
from tests.stores import FIRST

HOME = "https://client.example/callback"

words = st.text(st.characters(codec="utf-8"), max_size=60)
near = st.sampled_from("AB01-_~.=/ \0")


def later(writes: Writes, milliseconds: int) -> Writes:
    """Return the bundle with the clock moved forward by some milliseconds."""
    now = milliseconds_of(writes.new_id(0))
    return replace(writes, new_id=IdMaker(lambda: now + milliseconds))


@st.composite
def changed(draw: st.DrawFn, text: str) -> str:
    """Draw a different text, often a similar one."""
    at = draw(st.integers(0, len(text)))
    return draw(
        st.one_of(
            words,
            near.map(lambda new: text[:at] + new + text[at + 1 :]),
            near.map(lambda new: text[:at] + new + text[at:]),
        ).filter(lambda other: other != text)
    )


@settings(max_examples=examples(75, full=150), deadline=None)
@given(data=st.data())
def test_oauth_token_exchange_with_altered_code_redirect_or_verifier_is_refused(data: st.DataObject) -> None:
    async def story() -> None:
        async with Shoal.open("memory://") as shoal:
            writes, store = shoal.network.writes, shoal.network.store
            ann = (await shoal.register("ann")).id
            app = (await oauth.register(writes, "app", redirect_uris=(HOME,))).app
            member = await members.find(writes, "ann")
            assert member is not None
            code = await oauth.issue_code(writes, member, app.id, ("read",), HOME, CHALLENGE)
            good = [app.id, code, HOME, VERIFIER]
            bad = list(good)
            at = data.draw(st.integers(0, 3))
            bad[at] = app.id + 1 if at == 0 else data.draw(changed(str(good[at])))
            with pytest.raises(Unauthenticated):
                await oauth.exchange_code(writes, *bad)  # type: ignore[arg-type]
            assert not [node for node in await store.obj_scan(FIRST, 1_000) if isinstance(node, Token)]
            assert (await oauth.exchange_code(writes, *good)).token.member_id == ann  # type: ignore[arg-type]

    asyncio.run(story())


@given(data=st.data(), registered=st.lists(words.filter(bool), max_size=4))
def test_oauth_redirect_uri_must_match_registered_uri_exactly(data: st.DataObject, registered: list[str]) -> None:
    app = App(id=1, name="app", redirect_uris=(HOME, *registered))
    plain = {address for address in app.redirect_uris if not set(address) & {"\\", "@"}}
    assert all(redirects_to(app, address) for address in plain)
    assert redirects_to(app, OUT_OF_BAND) == (OUT_OF_BAND in registered)
    other = data.draw(changed(HOME))
    if redirects_to(app, other):
        assert other in app.redirect_uris


@in_loop
async def test_oauth_codes_and_browser_sessions_expire_and_are_cleaned_up() -> None:
    async with Shoal.open("memory://") as shoal:
        writes, store = shoal.network.writes, shoal.network.store
        ann = (await shoal.register("ann")).id
        app = (await oauth.register(writes, "app", redirect_uris=(HOME,))).app
        member = await members.find(writes, "ann")
        assert member is not None
        codes = [await oauth.issue_code(writes, member, app.id, ("read",), HOME) for _ in range(6)]
        kept = (await oauth.exchange_code(writes, app.id, codes[0], HOME, "")).token
        browser = await sessions.begin(writes, member)
        soon = later(writes, oauth.LIFE_MS)
        with pytest.raises(Unauthenticated):
            await oauth.exchange_code(soon, app.id, codes[1], HOME, "")
        found = await sessions.of_browser(soon, browser.text)
        assert found is not None
        assert found.member == member
        await oauth.issue_code(soon, member, app.id, ("read",), HOME)
        grants_left = [node for node in await store.obj_scan(FIRST, 1_000) if isinstance(node, AuthorizationCode)]
        assert len(grants_left) == 1
        much_later = later(writes, BROWSER_MS)
        assert await sessions.of_browser(much_later, browser.text) is None
        await sessions.begin(much_later, member)
        counts = await store.assoc_count((ann,), (LOGGED_IN, EXPIRING))
        assert counts == {LOGGED_IN: {ann: 2}, EXPIRING: {ann: 1}}
        assert (await store.obj_get((kept.id,)))[kept.id] == kept
        assert browser.token.id not in await store.obj_get((browser.token.id,))


@in_loop
async def test_login_with_many_expired_sessions_succeeds_on_dynamodb() -> None:
    async with Shoal.open(dynamodb.new_table(), media="memory://", tags="memory://", search="memory://") as shoal:
        writes = shoal.network.writes
        ann = await shoal.register("ann")
        member = await access_member(writes.graph, ann.id)
        for _ in range(25):
            await sessions.begin(writes, member)
        much_later = later(writes, BROWSER_MS)
        left = []
        for _ in range(4):
            await sessions.begin(much_later, member)
            left.append((await shoal.network.store.assoc_count((ann.id,), (EXPIRING,)))[EXPIRING][ann.id])
        assert left[-1] == 4
        assert left == sorted(left, reverse=True)


@in_loop
async def test_password_change_during_login_invalidates_token_and_code_of_that_login() -> None:
    async with Shoal.open("memory://") as shoal:
        writes = shoal.network.writes
        ann = await shoal.register("ann", "a first password")
        app = (await oauth.register(writes, "app")).app
        member = await members.log_in(writes, "ann", "a first password")
        code = await oauth.issue_code(writes, member, app.id, ("read",), HOME)
        await credentials.set_password(writes, ann.id, "a second password")
        late = await oauth.issue_token(writes, app.id, ann.id, ("read",), generation=member.generation)
        with pytest.raises(Unauthenticated):
            await oauth.check_token(writes, late.text)
        with pytest.raises(Unauthenticated):
            await oauth.exchange_code(writes, app.id, code, HOME, "")


@in_loop
async def test_oauth_token_issue_reads_member_once() -> None:
    async with Shoal.open("memory://") as shoal:
        writes = shoal.network.writes
        ann = await shoal.register("ann")
        app = (await oauth.register(writes, "app")).app
        known = await oauth.issue_token(writes, app.id, ann.id, ("read",))
        for generation in (None, known.token.generation):
            reads: list[str] = []

            async def read(name: str, reads: list[str] = reads) -> None:
                reads.append(name)

            async def nothing(_name: str) -> None: ...

            graph = cast("Graph", Between(shoal.network.store, read, nothing))
            issued = await oauth.issue_token(
                replace(writes, graph=graph), app.id, ann.id, ("read",), generation=generation
            )
            # One read of the member and one of the app.
            assert reads.count("obj_get") == 2
            assert issued.token.generation == known.token.generation
        with pytest.raises(NotFound):
            await oauth.issue_token(writes, app.id, app.id, ("read",))
