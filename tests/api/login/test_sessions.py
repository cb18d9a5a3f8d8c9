"""Sessions: list, deletion, and revocation by a password change."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from shoal.admin.consistency.check import check
from shoal.commands import credentials, oauth
from shoal.core.events import SessionsEnded
from shoal.core.ids import IdMaker
from shoal.core.model import AuthorizationCode, Token
from shoal.graph.schema import EXPIRING, LOGGED_IN, AnyNode
from shoal.server import build
from tests.api.in_memory_network import BASE, NetworkFixture, network_fixture
from tests.api.oauth_browser import PASSWORD, Client, Visitor, register

SESSIONS = "/api/shoal/v1/sessions"
NEW = "another long password"


def log_in(shoal: NetworkFixture, client: Client, name: str) -> str:
    """Log in with the password grant and return the token."""
    form = {"grant_type": "password", "username": name, "password": PASSWORD, "scope": "read write", **client.keys}
    token: str = shoal.json("POST", "/oauth/token", data=form)["access_token"]
    return token


def works(shoal: NetworkFixture, token: str) -> bool:
    """Return whether the API accepts the token."""
    return shoal.ask("GET", "/api/v1/accounts/verify_credentials", token).status_code == 200


def test_session_list_shows_apps_and_browsers_of_member(shared: NetworkFixture) -> None:
    register(shared, "ann")
    client = Client(shared, name="Tide", website="https://tide.example")
    visitor = Visitor(shared)
    visitor.open(client.query())
    visitor.log_in("ann")
    tokens = [log_in(shared, client, "ann") for _ in range(2)]
    shown = shared.json("GET", SESSIONS, tokens[0])
    assert [session["current"] for session in shown] == [False, True, False]
    assert shown[0]["application"] == {"name": "Tide", "website": "https://tide.example"}
    assert shown[0]["scopes"] == ["read", "write"]
    assert shown[2]["application"] is None
    assert shown[2]["scopes"] == []


def test_session_list_shows_program_system_and_address(shared: NetworkFixture) -> None:
    register(shared, "ida")
    client = Client(shared, name="Tide")
    form = {"grant_type": "password", "username": "ida", "password": PASSWORD, "scope": "read write", **client.keys}
    told = {"User-Agent": "Tusky/28.0 Android/15"}
    token = shared.json("POST", "/oauth/token", data=form, headers=told)["access_token"]
    (shown,) = shared.json("GET", SESSIONS, token)
    assert (shown["program"], shown["system"]) == ("Tusky", "Android")
    assert shown["created_from"] == shown["last_used_from"] == "127.0.0.1"
    assert shown["last_used_at"] == shown["created_at"]


def test_session_deletion_of_all_others_keeps_current_session(shared: NetworkFixture) -> None:
    register(shared, "jon")
    register(shared, "kim")
    client = Client(shared)
    mine, *others = [log_in(shared, client, "jon") for _ in range(4)]
    kims = log_in(shared, client, "kim")
    assert shared.json("DELETE", SESSIONS, mine) == {}
    assert [works(shared, token) for token in (mine, kims, *others)] == [True, True, False, False, False]
    assert [session["current"] for session in shared.json("GET", SESSIONS, mine)] == [True]


def moved(shoal: NetworkFixture, days: int) -> None:
    """Move the clock of the front end forward by `days`."""
    now = shoal.network.writes.new_id.now() + days * 86_400_000
    shoal.app_parts = replace(shoal.app_parts, writes=replace(shoal.writes, new_id=IdMaker(lambda: now)))
    shoal.app = build(shoal.app_parts)
    shoal._client = httpx.AsyncClient(transport=httpx.ASGITransport(shoal.app), base_url=BASE)


def test_access_token_unused_for_a_year_is_refused(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    moved(shoal, 365)
    assert works(shoal, ann.token)
    moved(shoal, 366)
    answer = shoal.ask("GET", "/api/v1/timelines/home", ann)
    assert (answer.status_code, answer.json()) == (401, {"error": "The access token is invalid"})
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]


def test_access_token_use_tracking_adds_no_reads_or_writes_to_request(forgetful: NetworkFixture) -> None:
    shoal = forgetful
    ann = shoal.join("ann")
    shoal.json("GET", "/api/v1/timelines/home", ann)

    def asked() -> tuple[list[str], list[AnyNode]]:
        shoal.graph.reads.clear()
        shoal.json("GET", "/api/v1/timelines/home", ann)
        tokens = [node for node in shoal.state().objects if isinstance(node, Token)]
        return list(shoal.graph.reads), list(tokens)

    first, (token,) = asked()
    assert asked() == (first, [token])
    # A day later the request makes no additional reads: the token use is written after the response.
    moved(shoal, 1)
    shoal.graph.reads.clear()
    shoal.json("GET", "/api/v1/timelines/home", ann)
    assert shoal.graph.reads == first


def test_session_list_is_paginated(shared: NetworkFixture) -> None:
    register(shared, "ben")
    client = Client(shared)
    *_, token = [log_in(shared, client, "ben") for _ in range(5)]
    every = [session["id"] for session in shared.json("GET", SESSIONS, token)]
    first = shared.ask("GET", SESSIONS, token, params={"limit": 2})
    assert [session["id"] for session in first.json()] == every[:2]
    second = shared.ask("GET", first.links["next"]["url"], token)
    assert [session["id"] for session in second.json()] == every[2:4]
    back = shared.ask("GET", second.links["prev"]["url"], token)
    assert [session["id"] for session in back.json()] == every[:2]


def test_session_deletion_is_limited_to_own_sessions(shared: NetworkFixture) -> None:
    register(shared, "cat")
    register(shared, "dan")
    client = Client(shared)
    cats, other, dans = (log_in(shared, client, name) for name in ("cat", "cat", "dan"))
    id_ = shared.json("GET", SESSIONS, other)[0]["id"]
    assert shared.ask("DELETE", f"{SESSIONS}/{id_}", dans).status_code == 404
    assert works(shared, other)
    assert shared.json("DELETE", f"{SESSIONS}/{id_}", cats) == {}
    assert not works(shared, other)
    assert works(shared, cats)
    assert shared.ask("DELETE", f"{SESSIONS}/{id_}", cats).status_code == 404
    assert shared.ask("DELETE", f"{SESSIONS}/{shared.join('stranger').id}", cats).status_code == 404


def test_session_deletion_of_browser_requires_password_again(shared: NetworkFixture) -> None:
    register(shared, "eli")
    client, visitor = Client(shared), Visitor(shared)
    visitor.open(client.query())
    visitor.log_in("eli")
    token = log_in(shared, client, "eli")
    browser = next(session for session in shared.json("GET", SESSIONS, token) if session["application"] is None)
    shared.json("DELETE", f"{SESSIONS}/{browser['id']}", token)
    assert "Log in to Shoal" in visitor.open(client.query()).text


def test_password_change_revokes_tokens_browser_sessions_and_codes(shoal: NetworkFixture) -> None:
    register(shoal, "ann")
    client, visitor = Client(shoal), Visitor(shoal)
    visitor.open(client.query())
    visitor.log_in("ann")
    code = visitor.allow()["code"]
    mine, other = log_in(shoal, client, "ann"), log_in(shoal, client, "ann")
    change = {"current_password": PASSWORD, "new_password": NEW}
    assert shoal.json("PUT", "/api/shoal/v1/password", mine, json=change) == {}
    assert not works(shoal, mine)
    assert not works(shoal, other)
    assert client.exchange(code).json()["error"] == "invalid_grant"
    assert "Log in to Shoal" in visitor.open(client.query()).text
    visitor.press("login", username="ann", password=PASSWORD)
    assert visitor.page.status_code == 422
    visitor.log_in("ann", NEW)
    assert client.exchange(visitor.allow()["code"]).status_code == 200


@pytest.mark.parametrize(
    ("change", "field", "code"),
    [
        ({"current_password": "wrong"}, "current_password", "ERR_INVALID"),
        ({"new_password": "short"}, "new_password", "ERR_TOO_SHORT"),
        ({"new_password": "x" * 1_025}, "new_password", "ERR_TOO_LONG"),
    ],
)
def test_password_change_refused_keeps_token_valid(
    shared: NetworkFixture, change: dict[str, str], field: str, code: str
) -> None:
    if shared.ask("GET", "/api/v1/accounts/lookup", params={"acct": "fay"}).status_code == 404:
        register(shared, "fay")
    token = log_in(shared, Client(shared), "fay")
    given = {"current_password": PASSWORD, "new_password": NEW, **change}
    answer = shared.ask("PUT", "/api/shoal/v1/password", token, json=given)
    assert answer.status_code == 422
    assert answer.json()["details"][field][0]["error"] == code
    assert works(shared, token)


def test_password_change_of_member_without_password_is_refused(shared: NetworkFixture) -> None:
    gil = shared.join("gil")
    given = {"current_password": "anything", "new_password": NEW}
    answer = shared.ask("PUT", "/api/shoal/v1/password", gil, json=given)
    assert (answer.status_code, "This account has no password" in answer.text) == (403, True)


def test_password_change_deletes_all_revoked_tokens_and_authorization_codes(shoal: NetworkFixture) -> None:
    id_ = register(shoal, "ann")
    client, writes = Client(shoal), shoal.network.writes
    for _ in range(250):
        shoal.run(oauth.issue_token(writes, client.app.id, id_, ("read",)))
    visitor = Visitor(shoal)
    visitor.open(client.query())
    visitor.log_in("ann")
    visitor.press("allow")
    shoal.run(credentials.set_password(writes, id_, NEW))
    fresh = shoal.run(oauth.issue_token(writes, client.app.id, id_, ("read",)))
    shoal.settle()
    counts = shoal.run(shoal.network.store.assoc_count((id_,), (LOGGED_IN, EXPIRING)))
    assert counts == {LOGGED_IN: {id_: 1}, EXPIRING: {}}
    kept = [node.id for node in shoal.state().objects if isinstance(node, Token | AuthorizationCode)]
    assert kept == [fresh.token.id]
    assert works(shoal, fresh.text)


def test_consistency_check_of_network_with_logins_and_used_oauth_codes_finds_nothing(shoal: NetworkFixture) -> None:
    register(shoal, "ann")
    visitor = Visitor(shoal)
    client = Client(shoal)
    visitor.open(client.query())
    visitor.log_in("ann")
    client.exchange(visitor.allow()["code"])
    visitor.open(client.query())
    visitor.press("allow")
    shoal.settle()
    assert shoal.run(check(shoal.network)).clean


def ended(shoal: NetworkFixture) -> list[SessionsEnded]:
    """Return the pending SessionsEnded events."""
    jobs = shoal.run(shoal.network.store.claim(100, 0.0))
    return [job.event for job in jobs if isinstance(job.event, SessionsEnded)]


def test_sessions_ended_event_lists_revoked_tokens() -> None:
    with network_fixture(run_consequences=False) as shoal:
        id_ = register(shoal, "ann")
        app = Client(shoal).app
        first, second = (shoal.run(oauth.issue_token(shoal.writes, app.id, id_, ("read",))) for _ in range(2))
        shoal.run(oauth.revoke_token(shoal.writes, first.token))
        shoal.run(credentials.set_password(shoal.writes, id_, NEW))
        assert ended(shoal) == [
            SessionsEnded(member_id=id_, token_ids=(first.token.id,)),
            SessionsEnded(member_id=id_, token_ids=(second.token.id,), every=True),
        ]
