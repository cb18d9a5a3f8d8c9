"""Pages of named feeds: the list, reading with parameters and reasons, following, copying, and the editor."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from shoal.commands import declared_reactions, feeds, lists, reactions, relationships, sessions
from shoal.core.feeds.declarations import NamedFeed
from shoal.core.feeds.expressions import FUNCTIONS, TERMS
from shoal.core.reactions import Reaction
from shoal.graph.feed_lookup import feeds_of
from shoal.web import timelines
from shoal.web.pending_actions import PendingAction
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.web.browser import PASSWORD, Page, found_in, member, visitor
from tests.web.pictures import posted

BREAD = {"from": "tag", "tag": "bread"}
RANKED: dict[str, Any] = {
    "sources": [BREAD],
    "order": {"by": "expression", "expression": "likes * $weight + if($newest, -age_hours, age_hours)"},
    "parameters": {
        "weight": {"type": "number", "default": 0, "minimum": -10, "maximum": 10},
        "newest": {"type": "boolean", "default": True},
        "mood": {"type": "text", "default": "calm", "choices": ["calm", "wild"]},
    },
}


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


def said(page: Page) -> list[str]:
    return [" ".join(found_in(post, "div.prose").get_text().split()) for post in page.posts]


def of_server(here: NetworkFixture, name: str, declaration: object, title: str = "") -> NamedFeed:
    return here.run(feeds.create_for_server(here.writes, name, declaration, title=title))


def test_feeds_page_lists_own_followed_and_server_feeds_with_their_description(here: NetworkFixture) -> None:
    ann, ben = member(here, "ann"), member(here, "ben")
    of_server(here, "all", {"sources": [{"from": "everybody"}]}, "Everything")
    assert "No feeds yet" not in visitor(here).open("/feeds").text
    made = here.run(feeds.create(here.writes, ben.id, "Ben's bread", {"sources": [BREAD]}, shared=True))
    here.run(feeds.follow(here.writes, ann.id, str(made.id)))
    here.run(feeds.create(here.writes, ann.id, "Mine", {"sources": [{"from": "followees"}]}))
    page = visitor(here, "ann").open("/explore").follow("Feeds")
    headings = [heading.get_text() for heading in page.html.select("main h2")]
    assert headings == ["Your feeds", "Followed feeds", "Feeds of this server"]
    rows = [" ".join(row.get_text(" ").split()) for row in page.html.select("main .rows li")]
    assert rows == [
        "Mine Posts by people you follow Newest first · only you",
        "Ben's bread Posts tagged #bread Newest first · by @ben",
        "Everything All public posts Newest first",
    ]
    assert "Mine" not in visitor(here).open("/feeds").text


def test_feed_page_shows_posts_with_reasons_and_older_ones(here: NetworkFixture) -> None:
    cyd = member(here, "cyd")
    for number in range(23):
        posted(here, cyd, f"rye {number} #rye")
    of_server(here, "rye", {"sources": [{"from": "tag", "tag": "rye"}]})
    page = visitor(here).open("/feeds/rye")
    assert said(page)[:2] == ["rye 22 #rye", "rye 21 #rye"]
    assert "Posts tagged #rye" in found_in(page.posts[0], ".why-this").get_text()
    assert said(page.follow("Older posts")) == ["rye 2 #rye", "rye 1 #rye", "rye 0 #rye"]


def test_ranked_feed_page_takes_parameters_explains_scores_and_continues(here: NetworkFixture) -> None:
    dan = member(here, "dan")
    for number in range(22):
        posted(here, dan, f"{number} #oats")
    of_server(here, "oats", RANKED | {"sources": [{"from": "tag", "tag": "oats"}]})
    page = visitor(here).open("/feeds/oats")
    assert said(page)[0] == "21 #oats"
    reasons = [" ".join(row.get_text(" ").split()) for row in page.posts[0].select(".reasons tr")]
    assert reasons == ["Score 0.00"]
    assert said(page.follow("Older posts")) == ["1 #oats", "0 #oats"]
    page = page.press("Apply", None, **{"parameters[newest]": "false", "parameters[weight]": "2"})
    assert said(page)[0] == "0 #oats"
    assert said(page.follow("Older posts")) == ["20 #oats", "21 #oats"]
    assert page.one("select[name='parameters[newest]'] option[selected]")["value"] == "false"
    wrong = page.press("Apply", None, **{"parameters[weight]": "11"})
    assert wrong.status == 422
    assert "Expected a number from -10 to 10" in wrong.text
    assert len(wrong.posts) == 20


def test_feed_ranked_by_a_recipe_asks_a_visitor_to_log_in(here: NetworkFixture) -> None:
    of_server(here, "recipe", {"sources": [BREAD], "order": {"by": "recipe"}})
    page = visitor(here).open("/feeds/recipe")
    assert (page.path, "Log in to read this feed" in page.text, page.posts) == ("/feeds/recipe", True, [])
    assert "Ranked by a recipe" in visitor(here, member(here, "eve").name).open("/feeds/recipe").text


def test_shared_feed_is_read_by_visitors_and_followed_and_copied_by_members(here: NetworkFixture) -> None:
    fay = member(here, "fay")
    member(here, "gil")
    posted(here, fay, "shared #spelt")
    declaration = {"sources": [{"from": "tag", "tag": "spelt"}]}
    shared = here.run(feeds.create(here.writes, fay.id, "Spelt", declaration, shared=True))
    private = here.run(feeds.create(here.writes, fay.id, "Private", declaration))
    page = visitor(here).open(f"/feeds/{shared.id}")
    assert said(page) == ["shared #spelt"]
    assert f"/feeds/{shared.id}" in str(page.one("input[readonly]")["value"])
    assert visitor(here).open(f"/feeds/{private.id}").status == 404
    gil = visitor(here, "gil")
    assert gil.open(f"/feeds/{private.id}").status == 404
    page = gil.open(f"/feeds/{shared.id}").press("Follow")
    assert "Unfollow" in page.text
    assert "Follow" in page.press("Unfollow").text
    editor = page.follow("Make a copy")
    assert editor.one("#title")["value"] == "Copy of Spelt"
    assert json.loads(editor.one("#declaration").get_text()) == declaration
    assert "Copy of Spelt" not in gil.open("/feeds").text
    assert "Copied from Spelt" in editor.press("Create feed").text
    assert gil.open(f"/feeds/{shared.id}/edit").status == 404


def test_editor_shows_errors_at_their_place_cost_and_preview_before_it_saves(here: NetworkFixture) -> None:
    hal, ian = member(here, "hal"), member(here, "ian")
    here.run(relationships.follow(here.writes, hal.id, ian.id))
    posted(here, ian, "from ian")
    page = visitor(here, "hal").open("/feeds").follow("New feed")
    assert json.loads(page.one("#declaration").get_text())["sources"]

    def refused(declaration: str, message: str, do: str = "Preview") -> None:
        again = page.press(do, title="Mine", declaration=declaration)
        assert again.status == 422
        assert message in found_in(again.html, "#declaration-wrong").get_text()
        assert again.one("#declaration").get_text().strip() == declaration
        assert again.one("#declaration").has_attr("autofocus")

    refused('{"sources": [\n  {"from": "tag"}]}', "sources[0]: Object missing required field tag")
    refused('{"sources": [\n  {"from" "tag"}]}', "line 2, column 11: expected ':'")
    refused('{"sources": [{"from": "tag", "tag": "bread", "most": 0}]}', "sources[0].most: ", "Create feed")
    refused(
        '{"sources": [{"from": "tags"}]}', "sources[0].from: Invalid value 'tags'; allowed are followees, list, tag"
    )
    refused('{"sources": [{"from": "popular"}], "filter": {}}', "unknown field filter; fields are sources, filters, ")
    refused('{"sources": [{"from": "author", "author": "nobodyhere"}]}', "sources[0].author: there is no member")
    refused('{"sources": [{"from": "kind", "kind": "nokind"}]}', "sources[0].kind: there is no kind 'nokind'")
    refused('{"sources": [{"from": "list", "list": "5"}]}', "sources[0].list: expected the id of one of your lists")
    declaration = json.dumps({"sources": [{"from": "followees"}, BREAD], "filters": {"replies": True}})
    tried = page.press("Preview", title="Mine", declaration=declaration)
    assert said(tried) == ["from ian"]
    assert "A page takes up to 23 reads." in tried.text
    assert "With replies to other people" in tried.text
    assert "Mine" not in visitor(here, "hal").open("/feeds").text
    saved = tried.press("Create feed", shared=True)
    assert said(saved) == ["from ian"]
    editor = saved.follow("Edit")
    ranked = json.dumps({"sources": [BREAD], "order": {"by": "expression", "expression": "likes"}})
    posted(here, ian, "new #bread")
    tried = editor.press("Preview", declaration=ranked)
    assert "It considers up to 200 posts." in tried.text
    assert "1 of these posts is not" not in tried.text
    assert said(editor.press("Save", title="Other", declaration=ranked)) == ["new #bread"]
    gone = editor.press("Delete")
    assert "Other" not in gone.text


def test_editor_refuses_to_share_a_feed_with_a_list(here: NetworkFixture) -> None:
    joe = member(here, "joe")
    made = here.run(lists.create(here.writes, joe.id, "Close friends"))
    declaration = json.dumps({"sources": [{"from": "list", "list": str(made.id)}]})
    page = visitor(here, "joe").open("/feeds/new")
    refused = page.press("Create feed", title="Close", declaration=declaration, shared=True)
    assert refused.status == 422
    assert "cannot be shared" in found_in(refused.html, "#shared-wrong").get_text()
    saved = refused.press("Create feed", shared=False)
    assert "Posts by people on the list “Close friends”" in saved.text.replace("\u2068", "").replace("\u2069", "")
    assert "Only you can read this feed." in saved.text


def test_feed_page_describes_every_part_of_a_declaration(here: NetworkFixture) -> None:
    kim = member(here, "kim")
    declaration = {
        "sources": [
            {"from": "nearby", "latitude": 54.1, "longitude": -0.2, "radius_km": 10},
            {"from": "author", "author": "kim"},
            {"from": "popular"},
        ],
        "filters": {
            "languages": ["de"],
            "media": "image",
            "minimum_age_hours": 1,
            "maximum_age_hours": 24,
            "sensitive": "without",
            "tags_any": ["a"],
            "tags_all": ["b"],
            "tags_none": ["c"],
        },
        "order": {"by": "expression", "expression": "likes"},
        "diversity": {"author_most": 3},
        "aggregate": "day",
    }
    made = here.run(feeds.create(here.writes, kim.id, "All", declaration))
    text = visitor(here, "kim").open(f"/feeds/{made.id}").text.replace("\u2068", "").replace("\u2069", "")
    for line in (
        "Posts within 10 km of 54.1, \N{MINUS SIGN}0.2",
        "Posts by @kim",
        "Popular posts",
        "In these languages: Deutsch",
        "With photos",
        "1 to 24 hours old",
        "Without sensitive posts",
        "With any of these tags: #a",
        "With all of these tags: #b",
        "Without these tags: #c",
        "Ranked by: likes",
        "At most 3 of 20 posts in a row are by the same person",
        "Only the best post of each day",
    ):
        assert line in text, line


def test_follower_saves_values_of_parameters_on_the_page_of_the_feed(here: NetworkFixture) -> None:
    lea = member(here, "lea")
    for number in range(2):
        posted(here, lea, f"{number} #corn")
    of_server(here, "corn", RANKED | {"sources": [{"from": "tag", "tag": "corn"}]})
    page = visitor(here, "lea").open("/feeds/corn")
    assert "Follow this feed to save values." in page.text
    page = page.press("Apply", None, **{"parameters[newest]": "false"}).press("Follow")
    assert said(page) == ["0 #corn", "1 #corn"]
    assert "Newest: No" in page.text
    form = page.one("form[aria-label='Parameters']")
    wrong = page.press("Save", form, **{"parameters[weight]": "11"})
    assert (wrong.status, "Expected a number from -10 to 10" in wrong.text) == (422, True)
    saved = page.press("Save", form, **{"parameters[newest]": "false"})
    assert (saved.path.partition("?")[0], said(saved)) == ("/feeds/corn", ["0 #corn", "1 #corn"])
    assert "Saved." in saved.text
    tried = saved.press("Apply", form, **{"parameters[newest]": "true"})
    assert said(tried) == ["1 #corn", "0 #corn"]
    assert said(visitor(here, "lea").open("/feeds/corn")) == ["0 #corn", "1 #corn"]
    assert saved.one("select[name='parameters[newest]'] option[selected]")["value"] == "false"
    assert said(visitor(here).open("/feeds/corn")) == ["1 #corn", "0 #corn"]
    assert said(saved.press("Use the defaults")) == ["1 #corn", "0 #corn"]


def test_saving_values_after_unfollowing_elsewhere_keeps_them_in_the_form(here: NetworkFixture) -> None:
    mia = member(here, "mia")
    of_server(here, "wheat", RANKED | {"sources": [{"from": "tag", "tag": "wheat"}]})
    page = visitor(here, "mia").open("/feeds/wheat").press("Follow")
    here.run(feeds.unfollow(here.writes, mia.id, "wheat"))
    refused = page.press("Save", page.one("form[aria-label='Parameters']"), **{"parameters[weight]": "3"})
    assert (refused.status, refused.path) == (422, "/feeds/wheat")
    assert "Follow the feed first." in refused.text
    assert refused.one("#p-weight")["value"] == "3"
    assert visitor(here, "mia").open("/feeds/wheat?position=xyz").status == 200
    other = visitor(here, "mia").open("/feeds/wheat?parameters[unknown]=1&parameters[weight]=2")
    assert other.status == 200
    assert "Unknown parameters were ignored: unknown" in other.text
    assert other.one("#p-weight")["value"] == "2"


def test_reasons_of_ranked_posts_name_terms_and_their_values(here: NetworkFixture) -> None:
    nia = member(here, "nia")
    posted(here, nia, "best #barley")
    order = {"by": "expression", "expression": "2 + if(has(tags, $topic), 1, 0) + 3 * tag_count + likes"}
    topic = {"topic": {"type": "text", "default": "barley"}}
    source = {"sources": [{"from": "tag", "tag": "barley"}]}
    of_server(here, "barley", source | {"order": order, "parameters": topic})
    page = visitor(here, "nia").open("/feeds/barley")
    rows = [" ".join(row.get_text(" ").split()) for row in page.posts[0].select(".reasons tr")]
    plain = [row.replace("\u2068", "").replace("\u2069", "") for row in rows]
    assert plain == [
        "Number of tags 1 tag +3.00",
        "Fixed amount +2.00",
        "Tags #barley · Topic: barley +1.00",
        "Score 6.00",
    ]
    assert "if(has(tags" not in found_in(page.html, "main .soft").get_text()
    of_server(here, "barley_recipe", source | {"order": {"by": "recipe"}})
    text = visitor(here, member(here, "ola").name).open("/feeds/barley_recipe").posts[0].get_text(" ")
    assert "New posted in the last hour" in " ".join(text.split())


def test_feed_ranked_by_a_declared_reaction_names_it_on_all_pages(here: NetworkFixture) -> None:
    uma = member(here, "uma")
    loaf = posted(here, uma, "loaf #dough")
    here.run(declared_reactions.declare_all(here.writes, [Reaction(name="baked_it", title="Baked it")]))
    here.run(reactions.react(here.writes, uma.id, loaf.id, "baked_it"))
    order = {"by": "expression", "expression": "3 * reaction_baked_it - age_hours"}
    of_server(here, "dough", {"sources": [{"from": "tag", "tag": "dough"}], "order": order}, "Dough")
    assert "Ranked by: baked it, age" in visitor(here).open("/feeds").text
    page = visitor(here).open("/feeds/dough")
    assert said(page) == ["loaf #dough"]
    assert "Baked it" in found_in(page.posts[0], ".why-this").get_text()


def test_own_and_followed_feeds_are_tabs_of_home(here: NetworkFixture) -> None:
    pam = member(here, "pam")
    of_server(here, "emmer", {"sources": [BREAD]}, "Emmer")
    here.run(feeds.create(here.writes, pam.id, "Own feed", {"sources": [BREAD]}))
    browser = visitor(here, "pam")

    def tabs(page: Page) -> list[str]:
        return [link.get_text(strip=True) for link in page.html.select("nav.tabs a")]

    browser.open("/feeds/emmer").press("Follow")
    expected = ["Latest", "For you", "Catch up", "Own feed", "Emmer", "Lists, feeds and tags"]
    assert tabs(browser.open("/")) == expected
    page = browser.open("/").follow("Emmer")
    assert tabs(page) == expected
    assert page.one("nav.tabs [aria-current]").get_text(strip=True) == "Emmer"
    assert "Own feed" in browser.open("/lists").text


def test_errors_of_feeds_are_translated(here: NetworkFixture) -> None:
    member(here, "quin")
    of_server(here, "durum", RANKED)
    german = visitor(here, "quin", language="de")
    assert "Eine Zahl von -10 bis 10 erwartet (nicht '99')" in german.open("/feeds/durum?parameters[weight]=99").text
    page = german.open("/feeds/new")
    for declaration, message in (
        ('{"sources": [{"from": "tag"}]}', "tag fehlt"),
        (
            '{"sources": [{"from": "tag", "tag": "a"}, {"from": "author", "author": "ä"}]}',
            "sources[1].author: ein Benutz",
        ),
        (
            '{"sources": [{"from": "popular"}], "parameters": {"Half": {"type": "boolean"}}}',
            "parameters.Half: Das Feld default fehlt",
        ),
        (
            json.dumps({"sources": [BREAD], "parameters": {"a" * 31: {"type": "boolean", "default": True}}}),
            f"parameters.{'a' * 31}: Höchstens 30 Zeichen",
        ),
        (json.dumps({"sources": [BREAD], "filters": {"fields": {"": 1}}}), 'filters.fields[""]: Mindestens 1 Zeichen'),
        (
            json.dumps({"sources": [BREAD], "parameters": {"a: b": {"type": "boolean", "default": True}}}),
            'parameters["a: b"]: 1 bis 30 Kleinbuchstaben',
        ),
        ('{"sources" 1}', "Zeile 1, Spalte 12: ':' erwartet"),
        ('{"sources": [{"from": "popular"}], "filter": {}}', "Unbekanntes"),
        (
            json.dumps({"sources": [BREAD], "order": {"by": "expression", "expression": "x"}}),
            "order.expression: Stelle 1:",
        ),
    ):
        refused = page.press("Vorschau", title="x", declaration=declaration)
        assert message in found_in(refused.html, "#declaration-wrong").get_text()


def test_home_reads_feeds_only_for_members_who_have_some(here: NetworkFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    rob = member(here, "rob")
    read: list[str] = []

    async def counted(*_args: object) -> list[NamedFeed]:
        read.append("feeds")
        return []

    monkeypatch.setattr(timelines, "feeds_of", counted)
    monkeypatch.setattr(timelines, "followed_feeds", counted)
    browser = visitor(here, "rob")
    browser.open("/")
    assert read == []
    here.run(feeds.create(here.writes, rob.id, "Mine", {"sources": [BREAD]}))
    browser.open("/")
    assert read == ["feeds"]


def test_feed_that_is_no_longer_shared_is_named_so_and_can_be_unfollowed(here: NetworkFixture) -> None:
    sal, tom = member(here, "sal"), member(here, "tom")
    posted(here, sal, "flat #chapati")
    inner = here.run(
        feeds.create(here.writes, sal.id, "Inner", {"sources": [{"from": "tag", "tag": "chapati"}]}, shared=True)
    )
    outer = here.run(
        feeds.create(
            here.writes,
            sal.id,
            "Outer",
            {
                "sources": [{"from": "feed", "feed": str(inner.id)}, {"from": "tag", "tag": "naan"}],
                "order": {"by": "expression", "expression": "-age_hours"},
            },
            shared=True,
        )
    )
    here.run(feeds.follow(here.writes, tom.id, str(inner.id)))
    browser = visitor(here, "tom")
    assert "The feed “Inner”" in browser.open(f"/feeds/{outer.id}").posts[0].get_text()
    hint = "If you stop sharing it, followers and feeds that contain it no longer show it."
    editor = visitor(here, "sal").open(f"/feeds/{inner.id}/edit")
    assert hint in editor.text
    assert "It appears on your profile, and anyone can read and copy it." in editor.text
    here.run(feeds.update(here.writes, sal.id, str(inner.id), shared=False))
    page = browser.open(f"/feeds/{outer.id}")
    assert page.posts == []
    for selector in ("main .soft", "main .facts-list"):
        assert "An unavailable feed" in found_in(page.html, selector).get_text()
        assert str(inner.id) not in found_in(page.html, selector).get_text()
    row = browser.open("/feeds").one("main .rows li:has(.unavailable-feed)")
    assert "Inner" not in row.get_text()
    unavailable = browser.open(f"/feeds/{inner.id}")
    assert (unavailable.status, found_in(unavailable.html, "h1").get_text()) == (404, "Unavailable feed")
    assert visitor(here).open(f"/feeds/{inner.id}").html.h1 != unavailable.html.h1
    page = unavailable.press("Unfollow")
    assert (page.path, "no longer available" in page.text) == ("/feeds", False)
    assert "no longer available" not in browser.open(f"/feeds/{inner.id}").text


def test_deleted_feed_can_be_unfollowed(here: NetworkFixture) -> None:
    vic, wes = member(here, "vic"), member(here, "wes")
    made = here.run(feeds.create(here.writes, vic.id, "Short-lived", {"sources": [BREAD]}, shared=True))
    here.run(feeds.follow(here.writes, wes.id, str(made.id)))
    here.run(feeds.delete(here.writes, vic.id, str(made.id)))
    page = visitor(here, "wes").open("/feeds")
    assert "This feed is no longer available." in page.text
    assert "no longer available" not in page.press("Unfollow").text


def test_editor_whose_login_expired_keeps_the_typed_values_over_the_login(here: NetworkFixture) -> None:
    xia = member(here, "xia")
    made = here.run(feeds.create(here.writes, xia.id, "Before", {"sources": [BREAD]}))
    origin = of_server(here, "teff", {"sources": [BREAD]}, "Teff")
    declaration = json.dumps({"sources": [{"from": "popular"}]})
    for path in ("/feeds/new", "/feeds/new?origin=teff", f"/feeds/{made.id}/edit"):
        browser = visitor(here, "xia")
        page = browser.open(path)
        here.run(sessions.leave(here.writes, browser.cookie("shoal_login")))
        button = "Save" if path.endswith("edit") else "Create feed"
        page = page.press(button, title="Mine", declaration=declaration, shared=True)
        assert "Log in to continue with your feed." in page.text
        page = page.press("Log in", username="xia", password=PASSWORD)
        assert page.path.partition("?")[0] == path.partition("?")[0]
        assert page.one("#title")["value"] == "Mine"
        assert page.one("#declaration").get_text().strip() == declaration
        assert page.one("#shared").has_attr("checked")
        assert page.press(button).status == 200
    titles = {feed.title: feed.origin_id for feed in here.run(feeds_of(here.network.store, xia.id))}
    assert titles == {"Mine": origin.id}


def test_login_fills_in_the_editor_once(here: NetworkFixture) -> None:
    member(here, "noa")
    browser = visitor(here, "noa")
    page = browser.open("/feeds/new")
    here.run(sessions.leave(here.writes, browser.cookie("shoal_login")))
    page = page.press("Create feed", title="Typed once", declaration="{}")
    assert page.press("Log in", username="noa", password=PASSWORD).one("#title")["value"] == "Typed once"
    assert browser.open("/feeds/new").one("#title")["value"] == ""


def test_login_does_not_fill_in_a_feed_that_another_member_typed(here: NetworkFixture) -> None:
    una = member(here, "una")
    member(here, "ute")
    for owner, title in ((una.id, ""), (0, "Typed")):
        browser = visitor(here)
        page = browser.open("/feeds/new")
        browser.set_cookie("shoal_pending", PendingAction("feed", id=owner, title="Typed", text="{}").at("/feeds/new"))
        page = page.press("Log in", username="ute", password=PASSWORD)
        assert (page.path, page.one("#title")["value"]) == ("/feeds/new", title)


def test_editor_takes_no_values_from_its_address(here: NetworkFixture) -> None:
    ulf = member(here, "ulf")
    made = here.run(feeds.create(here.writes, ulf.id, "Private", {"sources": [BREAD]}))
    for path, title in (("/feeds/new", ""), (f"/feeds/{made.id}/edit", "Private")):
        page = visitor(here, "ulf").open(f"{path}?title=Other&declaration=%7B%7D&shared=true")
        assert page.one("#title")["value"] == title
        assert "sources" in page.one("#declaration").get_text()
        assert not page.one("#shared").has_attr("checked")
        assert not page.html.select("[data-typed]")


@pytest.mark.parametrize(("to", "path"), [("/search?q=a", "/search"), ("//evil.test/x", "/")])
def test_forged_feed_of_a_login_leads_only_to_pages_of_this_server(here: NetworkFixture, to: str, path: str) -> None:
    member(here, name := f"tao{len(to)}")
    browser = visitor(here)
    browser.open("/login")
    browser.set_cookie("shoal_pending", PendingAction("feed", title="b", text="{}").at(to))
    page = browser.open(f"/login?{urlencode({'to': to})}").press("Log in", username=name, password=PASSWORD)
    assert (page.status, page.path.partition("?")[0]) == (200, path)


def test_typed_feed_of_another_member_is_not_shown(here: NetworkFixture) -> None:
    sky = member(here, "sky")
    for id_ in (0, sky.id):
        browser = visitor(here, "ulf")
        browser.set_cookie("shoal_pending", PendingAction("feed", id_, title="Typed").at("/feeds/new"))
        assert browser.open("/feeds/new").one("#title")["value"] == ""


def test_declaration_too_long_for_a_cookie_leads_back_to_the_editor_after_the_login(here: NetworkFixture) -> None:
    member(here, "yan")
    browser = visitor(here, "yan")
    page = browser.open("/feeds/new")
    here.run(sessions.leave(here.writes, browser.cookie("shoal_login")))
    page = page.press("Create feed", title="Mine", declaration=" " * 5_000)
    assert "its declaration is too long to be kept; go back and copy it first." in page.text
    assert page.press("Log in", username="yan", password=PASSWORD).path == "/feeds/new"


def test_empty_text_is_a_value_of_a_parameter(here: NetworkFixture) -> None:
    zed = member(here, "zed")
    for number in range(22):
        posted(here, zed, f"{number} #{'plain' if number else 'fancy'}")
    order = {"by": "expression", "expression": 'if($topic == "", age_hours, -age_hours)'}
    source = {"sources": [{"from": "tag", "tag": "plain"}, {"from": "tag", "tag": "fancy"}]}
    of_server(here, "plain", source | {"order": order, "parameters": {"topic": {"type": "text", "default": "x"}}})
    page = visitor(here, "zed").open("/feeds/plain").press("Follow")
    form = page.one("form[aria-label='Parameters']")
    tried = page.press("Apply", form, **{"parameters[topic]": ""})
    assert said(tried)[0] == "0 #fancy"
    assert "Topic: empty" in tried.text
    assert said(tried.follow("Older posts")) == ["20 #plain", "21 #plain"]
    saved = tried.press("Save", tried.one("form[aria-label='Parameters']"), **{"parameters[topic]": ""})
    assert said(visitor(here, "zed").open("/feeds/plain"))[0] == "0 #fancy"
    assert said(saved.press("Use the defaults"))[0] == "21 #plain"
    assert said(visitor(here).open("/feeds/plain").press("Apply", None, **{"parameters[topic]": ""}))[0] == "0 #fancy"


def test_signs_of_numbers_and_paths_keep_their_places_in_arabic(here: NetworkFixture) -> None:
    ana = member(here, "ana")
    nearby = {"from": "nearby", "latitude": -54.5, "longitude": -0.25, "radius_km": 10}
    order = {"by": "expression", "expression": "-0.7 * age_hours / $half_life - 5"}
    half_life = {"half_life": {"type": "number", "default": 24, "minimum": -9, "maximum": 99}}
    posted(here, ana, "dune #kamut")
    declaration = {"sources": [{"from": "tag", "tag": "kamut"}, nearby], "order": order, "parameters": half_life}
    of_server(here, "kamut", declaration)
    page = visitor(here, "ana", language="ar").open("/feeds/kamut?parameters[half_life]=-2")
    assert re.search(r"\u2066\D*54[.,٫]5, ", page.one("main .soft").get_text())
    assert re.search(r"\u2066\D?2\u2069", page.one("main .fine").get_text())
    assert page.one("main code")["dir"] == "ltr"
    assert [one["dir"] for one in page.posts[0].select("td.number > bdi")] == ["ltr"] * len(
        page.posts[0].select("td.number")
    )
    refused = (
        visitor(here, "ana", language="ar")
        .open("/feeds/new")
        .press("معاينة", title="x", declaration='{"sources": [{"from": "moon"}]}')
    )
    assert "\u2066sources[0].from\u2069: " in found_in(refused.html, "#declaration-wrong").get_text()


def test_empty_feed_of_followees_names_the_cause_and_the_next_step(here: NetworkFixture) -> None:
    member(here, "bea")
    of_server(here, "friends", {"sources": [{"from": "followees"}]}, "Friends")
    page = visitor(here, "bea").open("/feeds/friends")
    assert "It shows posts by people you follow, and you do not follow anyone yet." in page.text
    assert page.follow("Find people").path == "/welcome/people"
    declaration = json.dumps({"sources": [{"from": "followees"}]})
    tried = visitor(here, "bea").open("/feeds/new").press("Preview", title="", declaration=declaration)
    assert "you do not follow anyone yet." in tried.text
    assert tried.title.startswith("Preview of New feed")
    assert "Log in to see them." in visitor(here).open("/feeds/friends").text
    of_server(here, "nothing", {"sources": [{"from": "tag", "tag": "nothing"}]})
    assert "when a source has them" in visitor(here, "bea").open("/feeds/nothing").text


def test_editor_writes_a_parameter_on_a_line_and_explains_every_part(here: NetworkFixture) -> None:
    cal = member(here, "cal")
    made = here.run(lists.create(here.writes, cal.id, "Bakers"))
    feed = here.run(feeds.create(here.writes, cal.id, "Ranked", RANKED))
    page = visitor(here, "cal").open(f"/feeds/{feed.id}/edit")
    typed = page.one("#declaration").get_text()
    assert '    "newest": {"type": "boolean", "default": true},\n' in typed
    assert json.loads(typed)["parameters"] == json.loads(json.dumps(feed.declaration.document()["parameters"]))
    guide = found_in(page.html, "details.section.feed-about").get_text()
    for name in (*TERMS, *FUNCTIONS, "diversity", "aggregate", "choices", "minimum", f'Bakers: "{made.id}"'):
        assert name in guide, name
    assert f'Ranked: "{feed.id}"' in guide


def test_shared_feeds_of_a_member_are_on_the_profile(here: NetworkFixture) -> None:
    dee = member(here, "dee")
    for title, shared in (("Open", True), ("Closed", False)):
        here.run(feeds.create(here.writes, dee.id, title, {"sources": [BREAD]}, shared=shared))
    page = visitor(here).open("/@dee?show=about")
    assert "Closed" not in page.text
    assert page.follow("Open").html.h1 is not None
    own = visitor(here, "dee").open("/@dee?show=about")
    rows = [" ".join(row.get_text(" ").split()) for row in own.html.select("section[aria-labelledby=feeds] li")]
    assert rows == ["Open Posts tagged #bread Newest first", "Closed Posts tagged #bread Newest first · only you"]
    member(here, "eli")
    assert "Feeds" not in visitor(here).open("/@eli?show=about").text


def test_search_finds_feeds_of_the_server_and_own_and_followed_ones_by_title(here: NetworkFixture) -> None:
    flo, gus = member(here, "flo"), member(here, "gus")
    source = {"sources": [BREAD]}
    of_server(here, "orchard", source, "Orchard of the week")
    followed = here.run(feeds.create(here.writes, gus.id, "Orchards abroad", source, shared=True))
    here.run(feeds.create(here.writes, gus.id, "Orchard of nobody else", source, shared=True))
    here.run(feeds.create(here.writes, flo.id, "My orchard", source))
    here.run(feeds.follow(here.writes, flo.id, str(followed.id)))

    def found(page: Page) -> list[str]:
        return [title.get_text() for title in page.html.select("section[aria-labelledby=f-feeds] b")]

    everybody = visitor(here).open("/search?q=orchard")
    assert found(everybody) == ["Orchard of the week"]
    page = visitor(here, "flo").open("/search?q=ORCH")
    assert found(page) == ["My orchard", "Orchards abroad", "Orchard of the week"]
    assert found(page.follow("All feeds")) == found(page)
    assert found(visitor(here, "flo").open("/search?q=orchard week&type=feeds")) == ["Orchard of the week"]
    assert "No results" in visitor(here, "flo").open("/search?q=ardent orchard&type=feeds").text


def test_shared_feed_has_a_preview_and_a_share_button(here: NetworkFixture) -> None:
    ham = member(here, "ham")
    source = {"sources": [{"from": "popular"}], "filters": {"media": "image"}}
    made = here.run(feeds.create(here.writes, ham.id, "Pictures", source, shared=True))
    page = visitor(here).open(f"/feeds/{made.id}")
    described = "Popular posts · With photos · Newest first"
    assert page.one("meta[property='og:title']")["content"] == "Pictures"
    assert page.one("meta[property='og:description']")["content"] == described
    assert page.one("meta[name=description]")["content"] == described
    assert str(page.one("main .buttons [data-copy]")["data-copy"]).endswith(f"/feeds/{made.id}")
    here.run(feeds.update(here.writes, ham.id, str(made.id), shared=False))
    assert not visitor(here, "ham").open(f"/feeds/{made.id}").html.select("meta[property='og:title']")
