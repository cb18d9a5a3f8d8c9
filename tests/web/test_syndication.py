"""Atom feeds of members and tags (RFC 4287)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from xml.etree.ElementTree import Element, fromstring

import pytest

from shoal.commands import members, posts, reactions
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from shoal.core.model import Visibility
from tests.api.in_memory_network import BASE, NetworkFixture, network_fixture
from tests.web.browser import Page, member, visitor
from tests.web.pictures import posted

ATOM = {"a": "http://www.w3.org/2005/Atom"}


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture(title="Shoal") as made:
        yield made


def feed_of(page: Page) -> Element:
    """Return a feed after checking the elements required by RFC 4287 (4.1.1, 4.1.2)."""
    assert page.answer.headers["content-type"] == "application/atom+xml; charset=utf-8"
    feed = fromstring(page.answer.content)  # noqa: S314 (made by the server under test)
    assert feed.tag == "{http://www.w3.org/2005/Atom}feed"
    for one in (feed, *feed.findall("a:entry", ATOM)):
        for name in ("id", "title", "updated"):
            assert one.findtext(f"a:{name}", "", ATOM), name
        datetime.fromisoformat(one.findtext("a:updated", "", ATOM))
    links = {link.get("rel"): link.get("href") for link in feed.findall("a:link", ATOM)}
    assert str(links["self"]).endswith(".atom")
    assert links["alternate"] == feed.findtext("a:id", "", ATOM)
    return feed


def titles(feed: Element) -> list[str]:
    return [entry.findtext("a:title", "", ATOM) for entry in feed.findall("a:entry", ATOM)]


def test_member_feed_contains_public_posts_with_photo_enclosures(here: NetworkFixture) -> None:
    ann, ben = member(here, "ann"), member(here, "ben")
    here.run(members.update_profile(here.writes, ann.id, ProfileChange(display_name="Ann & Co", note="By the <sea>")))
    post = posted(here, ann, "Low tide at <dawn> & dusk #Dawn", 2)
    for visibility in (Visibility.UNLISTED, Visibility.FOLLOWERS, Visibility.DIRECT):
        posted(here, ann, f"{visibility}", visibility=visibility)
    theirs = posted(here, ben, "of ben")
    here.run(posts.create(here.writes, ann.id, Draft(text="a comment", parent_id=theirs.id)))
    here.run(reactions.share(here.writes, ann.id, theirs.id))
    here.settle()
    page = visitor(here, "ann").open("/@ann.atom")
    feed = feed_of(page)
    assert titles(feed) == ["Low tide at <dawn> & dusk #Dawn"]
    assert feed.findtext("a:title", "", ATOM) == "Ann & Co (@ann)"
    assert feed.findtext("a:subtitle", "", ATOM) == "By the <sea>"
    entry = feed.find("a:entry", ATOM)
    assert entry is not None
    assert entry.findtext("a:id", "", ATOM) == f"{BASE}/@ann/{post.id}"
    assert entry.findtext("a:author/a:name", "", ATOM) == "Ann & Co"
    enclosures = entry.findall("a:link[@rel='enclosure']", ATOM)
    assert [one.get("type") for one in enclosures] == ["image/jpeg", "image/jpeg"]
    assert enclosures[0].get("href", "").startswith(f"{BASE}/media/")
    assert enclosures[0].get("title", "").startswith("photo 0 of Low tide")
    assert [one.get("term") for one in entry.findall("a:category", ATOM)] == ["dawn"]
    content = entry.findtext("a:content", "", ATOM)
    assert content.count("<img") == 2
    assert "&lt;dawn&gt;" in content


def test_member_feed_entry_with_content_warning_shows_only_warning(here: NetworkFixture) -> None:
    cyd = member(here, "cyd")
    posted(here, cyd, "eight legs", 1, spoiler="Spiders")
    feed = feed_of(visitor(here).open("/@cyd.atom"))
    assert titles(feed) == ["Spiders"]
    assert feed.findtext("a:entry/a:content", "", ATOM) == "<p>Spiders</p>"
    assert not feed.findall("a:entry/a:link[@rel='enclosure']", ATOM)


def test_tag_feed_contains_only_public_posts(here: NetworkFixture) -> None:
    dee = member(here, "dee")
    posted(here, dee, "First #tide")
    posted(here, dee, "Second #Tide", 1)
    posted(here, dee, "hidden #tide", visibility=Visibility.FOLLOWERS)
    here.settle()
    assert titles(feed_of(visitor(here).open("/tags/tide.atom"))) == ["Second #Tide", "First #tide"]
    assert titles(feed_of(visitor(here).open("/tags/unused.atom"))) == []


def test_feed_rss_url_redirects_to_atom_and_unchanged_feed_returns_304(here: NetworkFixture) -> None:
    member(here, "eve")
    browser = visitor(here)
    assert browser.open("/@eve.rss").path == "/@eve.atom"
    assert browser.open("/tags/tide.rss").path == "/tags/tide.atom"
    first = browser.open("/@eve.atom")
    again = browser.open("/@eve.atom", **{"If-None-Match": first.answer.headers["etag"]})
    assert (again.status, again.answer.content) == (304, b"")
    assert browser.open("/@nobody.atom").status == 404


def test_feed_redirect_of_non_latin_tag_for_htmx_is_percent_encoded(here: NetworkFixture) -> None:
    answer = visitor(here).open("/tags/日本.rss", **{"HX-Request": "true"}).answer
    assert (answer.status_code, answer.headers["hx-redirect"]) == (204, "/tags/%E6%97%A5%E6%9C%AC.atom")


def test_profile_and_post_pages_link_to_member_feed(here: NetworkFixture) -> None:
    fay = member(here, "fay")
    post = posted(here, fay, "Low tide")
    for path in ("/@fay", f"/@fay/{post.id}"):
        link = visitor(here).open(path).html.select_one('link[rel="alternate"][type="application/atom+xml"]')
        assert link is not None
        assert link["href"] == f"{BASE}/@fay.atom"
