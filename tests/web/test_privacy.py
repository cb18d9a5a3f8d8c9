"""Pages that contain secrets, browsers after a log-out, and profiles during a suspension."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from shoal import settings
from shoal.commands import members, moderation, sessions
from shoal.core.model import Role
from shoal.graph.contract import Cursor
from shoal.web import profiles
from shoal.web.routes import pages
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.api.oauth_browser import Client
from tests.api.oauth_browser import Visitor as AppVisitor
from tests.web.browser import PASSWORD, Page, Visitor, member, visitor

_SECRET = re.compile(r"\{(proof|receipt|code|token|secret)\}")


@pytest.fixture
def here() -> Iterator[NetworkFixture]:
    with network_fixture(invitations="members") as made:
        member(made, "ann")
        yield made


def secret_paths() -> list[str]:
    """Return the paths of pages with a secret in the URL, with an invalid secret."""
    rows = pages(settings.load({}))
    return sorted({_SECRET.sub("over", row.path) for row in rows if row.method == "GET" and _SECRET.search(row.path)})


def kept_secret(page: Page) -> bool:
    headers = page.answer.headers
    return (headers["Cache-Control"], headers["Referrer-Policy"], headers["X-Robots-Tag"]) == (
        "no-store",
        "no-referrer",
        "noindex",
    )


@pytest.mark.parametrize("path", secret_paths())
def test_page_with_secret_in_url_is_not_cached_and_sends_no_referrer(here: NetworkFixture, path: str) -> None:
    assert kept_secret(visitor(here).open(path))


@pytest.mark.parametrize(
    "path",
    [
        "/login/passkey",
        "/settings/invitations",
        "/settings/passkeys",
        "/settings/second_factor",
        "/moderation/members/{id}",
    ],
)
def test_page_with_secret_content_is_not_cached(here: NetworkFixture, path: str) -> None:
    chief = member(here, "chief")
    here.run(moderation.set_role(here.writes, chief.id, Role.MODERATOR))
    page = visitor(here, "chief").open(path.format(id=chief.id))
    assert (page.status, kept_secret(page)) == (200, True)


def test_password_reset_error_page_is_not_cached(here: NetworkFixture) -> None:
    visited = visitor(here)
    token = visited.open("/login").form_token
    assert kept_secret(visited.post("/reset/over", [("form_token", token), ("password", "x")]))


def _logs_out(here: NetworkFixture, browser: Visitor) -> Page:
    return browser.post("/logout", [("form_token", browser.open("/about").form_token)])


def _deletes_the_account(here: NetworkFixture, browser: Visitor) -> Page:
    return browser.open("/settings/account").press("Delete account", password=PASSWORD, sure="on")


def _ends_the_own_session(here: NetworkFixture, browser: Visitor) -> Page:
    token = browser.open("/settings/sessions").form_token
    ann = here.run(members.find(here.writes, "ann"))
    assert ann is not None
    session = here.run(_session_of(here, ann.id))
    return browser.post(f"/settings/sessions/{session}/end", [("form_token", token)])


async def _session_of(here: NetworkFixture, member_id: int) -> int:
    return (await sessions.page(here.writes, member_id, Cursor(limit=1))).sessions[0].token.id


@pytest.mark.parametrize("leave", [_logs_out, _deletes_the_account, _ends_the_own_session])
def test_logout_sends_clear_site_data(here: NetworkFixture, leave: Callable[[NetworkFixture, Visitor], Page]) -> None:
    page = leave(here, visitor(here, "ann"))
    answers = [*page.answer.history, page.answer]
    assert any(one.headers.get("Clear-Site-Data") == '"cache", "storage"' for one in answers)


def test_logout_on_oauth_authorization_page_sends_clear_site_data(here: NetworkFixture) -> None:
    app, browser = Client(here), AppVisitor(here)
    browser.open(app.query())
    browser.press("login", username="ann", password=PASSWORD)
    browser.follow()
    assert browser.press("switch").headers["Clear-Site-Data"] == '"cache", "storage"'


def test_profile_of_member_suspended_during_request_returns_410(
    here: NetworkFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = here.run(members.find(here.writes, "ann"))
    assert ann is not None
    read = profiles._posts

    async def suspended_meanwhile(*asked: Any) -> Any:
        found = await read(*asked)
        await moderation.suspend(here.writes, ann.id)
        return found

    monkeypatch.setattr(profiles, "_posts", suspended_meanwhile)
    assert visitor(here).open("/@ann").status == 410
