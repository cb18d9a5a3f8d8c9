"""Trends, the tag cloud and its SVG image over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from shoal.core.errors import Unavailable
from shoal.mastodon_api.tag_cloud_image import draw, place
from shoal.tagcloud.cloud import Word
from shoal.tagcloud.contract import DAY_MS
from shoal.tagcloud.memory import MemoryCloud
from shoal.tagcloud.reader import TagCloud
from shoal.tagcloud.rules import denying, merging
from tests.api.http.test_bad_input import refused
from tests.api.in_memory_network import NetworkFixture, Someone, network_fixture
from tests.tagcloud.factories import NOW, a_cloud, uses

CLOUD = "/api/shoal/v1/tags/cloud"
SVG = "{http://www.w3.org/2000/svg}"
FORMS = ("LowTide", "غروب", "शहर", "大自然", "España", "กรุงเทพ", "zaͣlͫgͦoͤ", "𒈙𒈙", "x" * 90)


@pytest.fixture(scope="module")
def filled() -> Iterator[NetworkFixture]:
    """A network whose tag cloud has rising, old, merged and denied tags."""
    with network_fixture() as made:
        tags = made.run(
            a_cloud(
                [
                    *uses("LowTide dawn", 40, ago=60_000),
                    *uses("dawn", 20, ago=3 * DAY_MS),
                    *uses("rare", 1, ago=20 * DAY_MS),
                    *uses("sunsets", 9, ago=20 * DAY_MS),
                    *uses("spam", 99),
                ]
            )
        )
        made.run(tags.rule(denying("spam")))
        made.run(tags.rule(merging("sunsets", "sunset")))
        made.show(tags)
        yield made


@pytest.fixture(scope="module")
def ann(filled: NetworkFixture) -> Someone:
    """A member who follows a tag."""
    someone = filled.join("ann")
    filled.json("POST", "/api/v1/tags/dawn/follow", someone)
    return someone


def names(found: Any) -> list[str]:
    return [tag["name"] for tag in found]


# Trends


def test_trending_tags_list_rising_tags_before_used_tags(filled: NetworkFixture) -> None:
    found = filled.json("GET", "/api/v1/trends/tags")
    assert names(found) == ["lowtide", "dawn", "sunset", "rare"]
    assert filled.json("GET", "/api/v1/trends") == found
    assert all("following" not in tag for tag in found)


def test_trending_tag_history_has_seven_days_as_strings_newest_first(filled: NetworkFixture) -> None:
    [tag] = filled.json("GET", "/api/v1/trends/tags?limit=1")
    today = NOW // DAY_MS * 86_400
    assert [day["day"] for day in tag["history"]] == [str(today - back * 86_400) for back in range(7)]
    assert tag["history"][0] == {"day": str(today), "uses": "40", "accounts": "40"}
    assert re.fullmatch(r"\d+", tag["id"])


def test_trending_tags_following_flag_is_loaded_in_one_read(filled: NetworkFixture, ann: Someone) -> None:
    filled.json("GET", "/api/v1/trends/tags", ann)
    filled.graph.reads.clear()
    found = filled.json("GET", "/api/v1/trends/tags", ann)
    assert [tag["name"] for tag in found if tag["following"]] == ["dawn"]
    assert filled.graph.reads.count("assoc_get") == 1
    assert filled.ask("GET", "/api/v1/trends/tags", filled.token(ann.app_id)).status_code == 200


def test_trending_tags_are_paginated_by_offset(filled: NetworkFixture) -> None:
    first = filled.ask("GET", "/api/v1/trends/tags?limit=2")
    assert re.fullmatch(r'<http://shoal\.test/api/v1/trends/tags\?limit=2&offset=2>; rel="next"', first.headers["link"])
    second = filled.ask("GET", "/api/v1/trends/tags?limit=2&offset=2")
    assert names(first.json()) + names(second.json()) == ["lowtide", "dawn", "sunset", "rare"]
    assert 'offset=0>; rel="prev"' in second.headers["link"]
    beyond = filled.ask("GET", "/api/v1/trends/tags?offset=99999999999999999999")
    assert (beyond.json(), "next" in beyond.headers["link"]) == ([], False)
    for query in ("limit=x&offset=y", "limit=-1&offset=-1", "limit=&offset=", "limit=0"):
        assert len(filled.json("GET", f"/api/v1/trends/tags?{query}")) == 4, query


def test_tag_endpoint_returns_daily_uses_of_shown_tag_and_zero_uses_of_denied_tag(
    filled: NetworkFixture, ann: Someone
) -> None:
    dawn = filled.json("GET", "/api/v1/tags/Dawn", ann)
    assert (dawn["history"][0]["uses"], dawn["history"][3]["uses"], dawn["following"]) == ("40", "20", True)
    assert filled.json("GET", "/api/v1/tags/sunsets")["name"] == "sunsets"
    for name in ("spam", "unused"):
        assert {day["uses"] for day in filled.json("GET", f"/api/v1/tags/{name}")["history"]} == {"0"}


def test_tag_follow_with_unavailable_tag_cloud_succeeds(shoal: NetworkFixture) -> None:
    class Away(MemoryCloud):
        async def head(self) -> Any:
            raise Unavailable("away")

    shoal.show(TagCloud(Away()))
    ben = shoal.join("ben")
    assert shoal.json("POST", "/api/v1/tags/dawn/follow", ben)["following"]
    assert len(shoal.json("GET", "/api/v1/tags/dawn")["history"]) == 7
    assert shoal.ask("GET", "/tags/dawn").status_code == 200
    assert shoal.ask("GET", "/api/v1/trends/tags").status_code == 503


# The cloud


def test_tag_cloud_entry_includes_weight_and_reasons(filled: NetworkFixture) -> None:
    found = filled.json("GET", f"{CLOUD}?order=all&limit=2")
    assert (found["order"], found["version"]) == ("all", 3)
    assert found["complete_to"].endswith("Z")
    first = found["tags"][0]
    assert (first["name"], first["form"], first["uses"], first["weight"], first["level"]) == (
        "dawn",
        "dawn",
        60,
        60.0,
        9,
    )
    assert first["url"] == "http://shoal.test/tags/dawn"
    assert first["reasons"].keys() == {"warmth", "recent_uses", "recent_accounts", "loudest", "surprise"}
    assert first["reasons"]["recent_uses"] == 40
    assert found["tags"][1]["form"] == "LowTide"


@pytest.mark.parametrize("order", ["all", "hour", "day", "week", "rising"])
def test_tag_cloud_denied_tag_is_absent_from_all_orders_and_image(
    filled: NetworkFixture, ann: Someone, order: str
) -> None:
    assert "spam" not in names(filled.json("GET", f"{CLOUD}?order={order}", ann)["tags"])
    assert "spam" not in filled.ask("GET", f"{CLOUD}.svg?order={order}").text


def test_tag_cloud_for_you_is_personal_and_includes_reason(filled: NetworkFixture, ann: Someone) -> None:
    found = filled.json("GET", f"{CLOUD}?order=for_you", ann)
    assert found["order"] == "for_you"
    assert (found["tags"][0]["name"], found["tags"][0]["reasons"]["why"]) == ("dawn", "you follow #dawn")
    assert "spam" not in names(found["tags"])
    drawn = filled.ask("GET", f"{CLOUD}.svg?order=for_you", ann)
    assert (drawn.headers["cache-control"], "you follow #dawn" in drawn.text) == ("private, no-store", True)


def test_tag_cloud_for_you_without_member_token_is_refused(filled: NetworkFixture, ann: Someone) -> None:
    for path in (CLOUD, f"{CLOUD}.svg"):
        refused(filled, 401, "GET", f"{path}?order=for_you")
        refused(filled, 422, "GET", f"{path}?order=for_you", filled.token(ann.app_id))


def test_tag_cloud_with_unknown_order_is_refused(filled: NetworkFixture) -> None:
    for path in (CLOUD, f"{CLOUD}.svg"):
        refused(filled, 422, "GET", f"{path}?order=best")
        for limit in ("0", "x", "-4", "9999", "4" * 50):
            assert filled.ask("GET", f"{path}?limit={limit}").status_code == 200


def test_tag_cloud_empty_returns_empty_lists(shoal: NetworkFixture) -> None:
    shoal.show(TagCloud(MemoryCloud()))
    assert shoal.json("GET", "/api/v1/trends/tags") == []
    assert shoal.json("GET", CLOUD)["tags"] == []
    assert "No tags yet" in shoal.ask("GET", f"{CLOUD}.svg").text
    assert shoal.json("GET", "/api/shoal/v1/tags/dawn/related") == []
    assert shoal.json("GET", f"{CLOUD}?order=for_you", shoal.join("ann"))["tags"] == []


def test_related_tags_include_similarity(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    for text in ("#dawn #LowTide", "#dawn #lowtide", "#dawn"):
        shoal.json("POST", "/api/v1/statuses", ann, json={"status": text})
    shoal.settle()
    shoal.show(shoal.run(a_cloud([*uses("dawn LowTide", 2), *uses("dawn", 1)])))
    [found] = shoal.json("GET", "/api/shoal/v1/tags/DAWN/related?limit=5")
    assert (found["name"], found["form"], found["uses"], found["together"]) == ("lowtide", "LowTide", 2, 2)
    assert found["likeness"] == pytest.approx(2 / 6**0.5, abs=1e-4)
    assert '<a class="chip" href="/tags/lowtide">#LowTide</a>' in shoal.ask("GET", "/tags/dawn").text
    for name in ("123", "a%20b", "x" * 101):
        refused(shoal, 404, "GET", f"/api/shoal/v1/tags/{name}/related")


# The picture


def parsed(drawn: str) -> ET.Element:
    """Return the parsed SVG image."""
    return ET.fromstring(drawn)  # noqa: S314  # it is our own


def words(forms: list[str]) -> list[Word]:
    """Return words with decreasing levels."""
    made = []
    for at, form in enumerate(forms):
        numbers: Any = {"uses": 1, "days": (), "reasons": None}
        made.append(Word(name=form.lower(), form=form, weight=1.0, level=max(1, 9 - at // 4), **numbers))
    return made


def test_tag_cloud_image_is_svg_with_links(filled: NetworkFixture) -> None:
    answer = filled.ask("GET", f"{CLOUD}.svg")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    root = parsed(answer.text)
    links = {link.get("href"): link.findtext(f"{SVG}text") for link in root.iter(f"{SVG}a")}
    assert links["http://shoal.test/tags/lowtide"] == "LowTide"
    assert root.findtext(f"{SVG}title") == f"Tags of {filled.network.settings.title}"
    assert filled.ask("GET", f"{CLOUD}.svg").content == answer.content


@pytest.mark.parametrize("count", [1, 3, 30, 200])
def test_tag_cloud_layout_has_no_overlapping_words(count: int) -> None:
    forms = [f"{FORMS[n % len(FORMS)][:60]}{n}" for n in range(count)]
    found = place([(form, max(1, 9 - n // 5)) for n, form in enumerate(forms)])
    assert len(found) == count
    for at, one in enumerate(found):
        left, top, right, bottom = one.box
        assert left <= one.x
        assert one.x + one.width <= right
        for other in found[:at]:
            apart = right <= other.box[0] or other.box[2] <= left or bottom <= other.box[1] or other.box[3] <= top
            assert apart, (forms[one.at], forms[other.at])


def test_tag_cloud_layout_draws_heavier_words_larger() -> None:
    found = place([(f"word{n}", 9 - n // 5) for n in range(40)])
    by_word = sorted(found, key=lambda one: one.at)
    assert [one.size for one in by_word] == sorted((one.size for one in found), reverse=True)
    assert by_word[0].size > 3 * by_word[-1].size


def test_tag_cloud_image_requested_again_after_tag_denial_omits_denied_tag(shoal: NetworkFixture) -> None:
    tags = shoal.run(a_cloud(uses("dawn spam", 2)))
    shoal.show(tags)
    assert "spam" in shoal.ask("GET", f"{CLOUD}.svg").text
    shoal.run(tags.rule(denying("spam")))
    assert "spam" not in shoal.ask("GET", f"{CLOUD}.svg").text


def test_tag_cloud_image_escapes_names() -> None:
    [wicked] = words(['a"><script>&'])
    root = parsed(draw([wicked], lambda name: f"http://x/?a=1&b={name}", 'T<">&'))
    assert [each.text for each in root.iter(f"{SVG}text")] == ['a"><script>&']
    assert not list(root.iter(f"{SVG}script"))
    assert root.findtext(f"{SVG}title") == 'T<">&'


def test_tag_cloud_image_is_deterministic() -> None:
    drawn = {draw(words([f"{form[:20]}{n}" for n in range(4) for form in FORMS]), str, "T") for _ in range(2)}
    assert len(drawn) == 1


def test_tag_cloud_image_truncates_combining_marks_and_long_tags() -> None:
    [tower, long] = words(["a" + "\u0301" * 40, "x" * 90])
    texts = [each.text or "" for each in parsed(draw([tower, long], str, "T")).iter(f"{SVG}text")]
    assert texts == ["a" + "\u0301" * 2, "x" * 27 + "…"]
