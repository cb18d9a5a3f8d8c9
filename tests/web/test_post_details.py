"""Pages about a post: likes, comments, its rank in For you, embed code, and reports."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from bs4 import BeautifulSoup

from shoal.commands import members, posts, reactions, relationships
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from shoal.core.model import Report, Visibility
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.web.browser import Page, found_in, member, visitor
from tests.web.pictures import posted


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture(title="Shoal", rules=("Be kind.", "Your own photos.")) as made:
        yield made


def handles(page: Page) -> list[str]:
    return [one.get_text(strip=True).removeprefix("@") for one in page.html.select(".people .handle")]


def test_post_likes_page_lists_likers_sharers_and_emoji_reactions(here: NetworkFixture) -> None:
    ann, ben, cyd = (member(here, name) for name in ("ann", "ben", "cyd"))
    post = posted(here, ann, "Low tide", 1)
    for other in (ben, cyd):
        here.run(reactions.like(here.writes, other.id, post.id))
    here.run(reactions.share(here.writes, cyd.id, post.id))
    here.run(reactions.react(here.writes, ben.id, post.id, "🎉"))
    page = visitor(here, "ben").open(f"/posts/{post.id}/more").follow("Likes and shares")
    assert handles(page) == ["cyd", "ben"]
    assert page.one("a.about-post")["href"] == f"/@ann/{post.id}"
    assert handles(page.follow("1 share")) == ["cyd"]
    assert handles(page.follow("🎉 1")) == ["ben"]
    assert "No reactions with this emoji" in visitor(here).open(f"/posts/{post.id}/likes?by=x").text
    quiet = posted(here, ann, "for followers", visibility=Visibility.FOLLOWERS)
    assert visitor(here).open(f"/posts/{quiet.id}/likes").status == 404


def test_post_comments_page_is_paginated(here: NetworkFixture) -> None:
    dee = member(here, "dee")
    post = posted(here, dee, "Ask me")
    for n in range(24):
        here.run(posts.create(here.writes, dee.id, Draft(text=f"answer {n}", parent_id=post.id)))
    page = visitor(here).open(f"/posts/{post.id}/comments")
    assert len(page.posts) == 20
    older = page.follow("Older posts")
    assert [f"answer {n}" in older.text for n in (3, 0, 4)] == [True, True, False]
    assert "No comments yet" in visitor(here).open(f"/posts/{posted(here, dee, 'quiet').id}/comments").text


def test_post_why_page_explains_rank_in_for_you_feed(here: NetworkFixture) -> None:
    eve, fay, gil = (member(here, name) for name in ("eve", "fay", "gil"))
    here.run(relationships.follow(here.writes, eve.id, fay.id))
    shown = posted(here, fay, "seen by friends", 1)
    own = posted(here, eve, "my own")
    here.run(members.update_profile(here.writes, gil.id, ProfileChange(rankable=False)))
    out = posted(here, gil, "not to be ranked")
    here.settle()
    browser = visitor(here, "eve")
    page = browser.open(f"/posts/{shown.id}/more").follow("Why am I seeing this?")
    assert "Ranked 1st of 4" in page.text
    assert "Posts above it have a higher score." not in page.text
    assert len(page.html.select(".reasons tr")) > 1
    for post, words in ((own, "This is your own post."), (out, "The author has opted out of ranked feeds.")):
        page = browser.open(f"/posts/{post.id}/why")
        assert "Not in For you right now" in page.text
        assert words in page.text
    assert visitor(here).open(f"/posts/{shown.id}/why").path.startswith("/login")


def test_post_embed_code_shows_public_post_in_frame(here: NetworkFixture) -> None:
    hal = member(here, "hal")
    post = posted(here, hal, "Low tide <at> dawn", 1)
    page = visitor(here, "hal").open(f"/posts/{post.id}/more").follow("Embed")
    code = found_in(BeautifulSoup(page.one("#code").text, "lxml"), "iframe")
    assert code["src"] == f"http://shoal.test/embed/@hal/{post.id}"
    framed = visitor(here, "hal").open(f"/embed/@hal/{post.id}")
    assert "Low tide <at> dawn" in framed.html.text
    headers = framed.answer.headers
    assert "frame-ancestors *" in headers["content-security-policy"]
    assert "x-frame-options" not in headers
    assert "set-cookie" not in headers
    assert framed.html.script is None
    assert framed.html.form is None
    assert visitor(here).open("/explore").answer.headers["x-frame-options"] == "DENY"


def test_post_embed_of_followers_only_post_is_refused(here: NetworkFixture) -> None:
    ida = member(here, "ida")
    post = posted(here, ida, "for followers", visibility=Visibility.FOLLOWERS)
    assert "This post is not public" in visitor(here, "ida").open(f"/posts/{post.id}/embed").text
    for name in ("", "ida"):
        assert visitor(here, name).open(f"/embed/@ida/{post.id}").status == 404
        assert visitor(here, name).open(f"/api/oembed?url=http://shoal.test/@ida/{post.id}").status == 404


def test_oembed_returns_embed_code_and_refuses_unknown_urls(here: NetworkFixture) -> None:
    jon = member(here, "jon")
    post = posted(here, jon, "Low tide", 1)
    page = visitor(here).open(f"/@jon/{post.id}")
    link = page.one('link[type="application/json+oembed"]')["href"]
    told = visitor(here).open(str(link))
    assert told.answer.headers["access-control-allow-origin"] == "*"
    about = json.loads(told.answer.text)
    assert (about["type"], about["version"], about["author_name"], about["title"]) == ("rich", "1.0", "jon", "Low tide")
    assert f"/embed/@jon/{post.id}" in about["html"]
    assert about["thumbnail_url"].endswith("small.jpg")
    narrow = json.loads(visitor(here).open(f"{link}&maxwidth=300&maxheight=200").answer.text)
    assert (narrow["width"], narrow["height"]) == (300, 200)
    assert visitor(here).open(f"{link}&format=xml").status == 501
    for url, status in (
        ("http://elsewhere.example/@jon/1", 404),
        (f"http://shoal.test/@jon/{post.id + 1}", 404),
        ("x", 404),
        ("", 404),
        ("http://[shoal.test/@jon/1", 404),
    ):
        assert visitor(here).open(f"/api/oembed?url={url}").status == status, url
    assert visitor(here).open("/api/oembed").status == 400
    assert visitor(here).open(f"{link}&maxwidth=100").status == 422


def test_post_and_profile_pages_contain_opengraph_and_json_ld_metadata(here: NetworkFixture) -> None:
    kim = member(here, "kim")
    here.run(
        members.update_profile(here.writes, kim.id, ProfileChange(display_name="Kim </script>", note="By the sea"))
    )
    post = posted(here, kim, "Low tide </script><b>", 2)
    page = visitor(here).open(f"/@kim/{post.id}")

    def meta(name: str) -> list[str]:
        return [str(one["content"]) for one in page.html.select(f'meta[property="{name}"]')]

    assert meta("og:title") == ["Kim </script> (@kim)"]
    assert meta("og:url") == [f"http://shoal.test/@kim/{post.id}"]
    assert len(meta("og:image")) == 2
    assert meta("og:image:alt") == ["photo 0 of Low tide </script><b>", "photo 1 of Low tide </script><b>"]
    data = json.loads(str(page.one('script[type="application/ld+json"]').string))
    assert (data["@type"], data["author"]["name"], data["text"]) == (
        "SocialMediaPosting",
        "Kim </script>",
        "Low tide </script><b>",
    )
    assert page.html.select_one('meta[name="robots"]') is None
    page = visitor(here).open("/@kim")
    data = json.loads(str(page.one('script[type="application/ld+json"]').string))
    assert (data["@type"], data["mainEntity"]["description"]) == ("ProfilePage", "By the sea")
    here.run(members.update_profile(here.writes, kim.id, ProfileChange(indexable=False)))
    assert "noindex" in visitor(here).open("/@kim").one('meta[name="robots"]')["content"]
    covered = posted(here, kim, "spiders", 1, spoiler="spiders ahead")
    page = visitor(here).open(f"/@kim/{covered.id}")
    assert (meta("og:image"), meta("og:description")) == ([], ["spiders ahead"])
    quiet = posted(here, kim, "for followers", visibility=Visibility.FOLLOWERS)
    page = visitor(here, "kim").open(f"/@kim/{quiet.id}")
    assert meta("og:title") == []


def test_report_form_files_report_and_offers_next_steps(here: NetworkFixture) -> None:
    lea, max_ = member(here, "lea"), member(here, "max")
    here.run(relationships.follow(here.writes, lea.id, max_.id))
    bad, other = posted(here, max_, "Buy this"), posted(here, max_, "Low tide")
    here.settle()
    browser = visitor(here, "lea")
    page = browser.open(f"/posts/{bad.id}/more?to=/explore").follow("Report")
    assert [str(box["value"]) for box in page.html.select('input[name="posts[]"][checked]')] == [str(bad.id)]
    assert str(other.id) in [str(box["value"]) for box in page.html.select('input[name="posts[]"]')]
    refused = page.press("Submit report", comment="He sells things")
    assert refused.status == 422
    assert "Choose a reason" in refused.text
    assert refused.one("#comment").text == "He sells things"
    long_one = page.press("Submit report", category="spam", comment="x" * 1_001)
    assert (long_one.status, long_one.one('input[value="spam"]').has_attr("checked")) == (422, True)
    done = page.press("Submit report", category="violation", rules=["1"], comment="He sells things")
    assert "What happens next?" in done.text
    assert "You will be notified of the result" in done.text
    assert done.links("Go back")[0]["href"] == "/explore"
    assert "Unmute max" in done.press("Mute max").text
    assert browser.open(f"/@max/{bad.id}").status == 404
    filed = here.run(reported(here))
    assert (filed.category, filed.rule_ids, filed.comment, filed.post_ids) == (
        "violation",
        ("1",),
        "He sells things",
        (bad.id,),
    )


async def reported(here: NetworkFixture) -> Report:
    return next(node for node in await here.network.store.obj_scan(0, 100_000) if isinstance(node, Report))


def test_report_form_for_self_or_unknown_member_is_refused(here: NetworkFixture) -> None:
    ned = member(here, "ned")
    browser = visitor(here, "ned")
    assert browser.open(f"/report?member={ned.id}").status == 403
    assert browser.open("/report?member=12345").status == 404
    assert browser.open("/report").status == 404
    assert visitor(here).open(f"/report?member={ned.id}").path.startswith("/login")


def test_report_form_ignores_external_return_url(here: NetworkFixture) -> None:
    olga, _ = member(here, "olga"), member(here, "pit")
    page = visitor(here, "pit").open(f"/report?member={olga.id}&to=https://elsewhere.example/")
    assert page.links("Cancel")[0]["href"] == "/"


def test_post_page_offers_to_follow_its_author_unless_followed(here: NetworkFixture) -> None:
    fawn = member(here, "fawn")
    member(here, "gwen")
    post = posted(here, fawn, "Fog", 1)
    path = f"/@fawn/{post.id}"
    page = visitor(here).open(path)
    assert "Log in to follow this person." in page.press("Follow", page.one(".follow-author")).text
    page = visitor(here, "gwen").open(path)
    page = page.press("Follow", page.one(".follow-author"))
    assert page.path == path
    assert not page.html.select(".follow-author")
    assert not visitor(here, "fawn").open(path).html.select(".follow-author")
