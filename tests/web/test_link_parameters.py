"""Links and forms send only parameters that the target page declares."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bs4 import BeautifulSoup

from scripts.web_pages import MEMBERS, STRANGERS, Subjects, prepared
from shoal.commands import posts, reactions
from shoal.commands.posts import Draft
from tests.api.in_memory_network import BASE, NetworkFixture, network_fixture
from tests.web.browser import Page, Visitor, member, visitor
from tests.web.link_parameters import ignored, undeclared
from tests.web.pictures import posted


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture(invitations="members") as made:
        yield made


@pytest.fixture(scope="module")
def subjects(here: NetworkFixture) -> Subjects:
    hal, ann, ben = (member(here, name) for name in ("hal", "ann", "ben"))
    sea = posted(here, ann, "Low tide at the #sea", 2)
    posted(here, hal, "My first #sea", 1)
    for other in (hal, ben):
        here.run(reactions.like(here.writes, other.id, sea.id))
        here.run(posts.create(here.writes, other.id, Draft(text="I was there", parent_id=sea.id)))
    found = here.run(prepared(here.writes, "hal", "ann", "sea"))
    here.settle()
    return found


def opened(browser: Visitor, pages: dict[str, str], subjects: Subjects) -> list[Page]:
    return [browser.open(path.format(**subjects._asdict())) for path in pages.values()]


def test_page_links_and_forms_send_only_declared_parameters(here: NetworkFixture, subjects: Subjects) -> None:
    pages = [
        *opened(visitor(here), STRANGERS, subjects),
        *opened(visitor(here, "hal"), MEMBERS, subjects),
    ]
    assert [page.path for page in pages if page.status >= 500] == []
    assert {wrong for page in pages for wrong in undeclared(page.url, page.html)} == set()


def test_link_parameter_check_detects_undeclared_parameters() -> None:
    html = BeautifulSoup(
        '<a href="/compose?tag=sea&amp;visibility=direct">New message</a><a href="https://example.org/?any=1">Elsewhere</a>'
        '<form action="/search"><input name="q"><input name="color"></form>'
        '<form method="post" action="/logout"><input name="form_token"><input name="device"></form>',
        "lxml",
    )
    assert undeclared(f"{BASE}/", html) == [
        "GET /compose?tag=sea&visibility=direct: visibility",
        "GET /search: color",
        "POST /logout: device",
    ]
    assert ignored(f"{BASE}/login?to=/&next=/") == ["next"]
