"""Public, tag and account timelines: content, filters and pagination."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from tests.api.in_memory_network import NetworkFixture, Someone, picture


def write(shoal: NetworkFixture, who: Someone, text: str, **more: Any) -> str:
    return str(shoal.json("POST", "/api/v1/statuses", who, json={"status": text, **more})["id"])


def ids(found: Any) -> list[str]:
    return [one["id"] for one in found]


def test_public_timeline_is_paginated_and_hides_muted_and_deleted(shoal: NetworkFixture) -> None:
    ann, ben = shoal.join("ann"), shoal.join("ben")
    made = [write(shoal, (ann, ben)[n % 2], str(n)) for n in range(7)]
    write(shoal, ben, "an answer", in_reply_to_id=made[0])
    shoal.json("POST", f"/api/v1/statuses/{made[0]}/reblog", ben)
    for kind in ("unlisted", "private", "direct"):
        write(shoal, ann, kind, visibility=kind)
    path = "/api/v1/timelines/public"
    newest = sorted(made, key=int, reverse=True)
    for query in ("", "?local=true", "?local=1&remote=1"):
        assert ids(shoal.json("GET", path + query)) == newest
    assert shoal.json("GET", f"{path}?remote=true", ann) == []
    page = shoal.ask("GET", f"{path}?local=true&limit=3")
    assert ids(page.json()) == newest[:3]
    assert page.headers["Link"].index('rel="next"') < page.headers["Link"].index('rel="prev"')
    assert "local=true" in page.links["next"]["url"]
    assert ids(shoal.json("GET", f"{path}?limit=3&max_id={newest[2]}")) == newest[3:6]
    assert ids(shoal.json("GET", f"{path}?limit=2&min_id={newest[5]}")) == newest[3:5]
    assert ids(shoal.json("GET", f"{path}?limit=2&since_id={newest[5]}")) == newest[:2]
    shoal.json("POST", f"/api/v1/accounts/{ann.id}/mute", ben)
    assert set(ids(shoal.json("GET", path, ben))) == set(made[1::2])
    shoal.json("DELETE", f"/api/v1/statuses/{newest[0]}", ann if newest[0] in made[::2] else ben)
    assert ids(shoal.json("GET", path)) == newest[1:]


def test_timeline_only_media_omits_statuses_without_media(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    write(shoal, ann, "words #dawn")
    photo = shoal.json("POST", "/api/v2/media", ann, files={"file": picture()})["id"]
    seen = write(shoal, ann, "a picture #dawn", media_ids=[photo])
    for path in ("public", "tag/dawn"):
        assert ids(shoal.json("GET", f"/api/v1/timelines/{path}?only_media=true")) == [seen]


def test_tag_spellings_with_different_case_are_one_tag_on_all_endpoints(shoal: NetworkFixture) -> None:
    ann, ben = shoal.join("ann"), shoal.join("ben")
    followed = shoal.json("POST", f"/api/v1/tags/{quote('STRASSE')}/follow", ben)
    assert (followed["name"], followed["following"]) == ("strasse", True)
    first, second = write(shoal, ann, "an old #Straße"), write(shoal, ann, "a loud #STRASSE")
    city = [write(shoal, ann, text) for text in ("#İstanbul", "#istanbul")][::-1]
    road = [write(shoal, ann, text) for text in ("#ΟΔΟΣ", "#οδος", "#οδοσ")][::-1]
    shoal.settle()
    for spelling in ("strasse", "STRASSE", "straße", "Straẞe"):
        assert ids(shoal.json("GET", f"/api/v1/timelines/tag/{quote(spelling)}")) == [second, first]
        assert shoal.json("GET", f"/api/v1/tags/{quote(spelling)}", ben)["following"] is True
    assert ids(shoal.json("GET", f"/api/v1/timelines/tag/{quote('İstanbul')}")) == city
    assert ids(shoal.json("GET", f"/api/v1/timelines/tag/{quote('ΟΔΟΣ')}")) == road
    assert ids(shoal.json("GET", "/api/v1/timelines/home", ben)) == [second, first]
    status = shoal.json("GET", f"/api/v1/statuses/{first}")
    assert [tag["name"] for tag in status["tags"]] == ["strasse"]
    assert "#<span>Straße</span>" in status["content"]
    cloud = shoal.run(shoal.network.tags.tag("straße"))
    assert cloud is not None
    assert (cloud.name, cloud.uses, cloud.form in {"Straße", "STRASSE"}) == ("strasse", 2, True)
    for beginning in ("#straß", "#STRASS", "#strasse"):
        found = shoal.json("GET", f"/api/v2/search?q={quote(beginning, safe='')}&type=hashtags", ben)["hashtags"]
        assert [(tag["name"], tag["following"]) for tag in found] == [("strasse", True)]
    shoal.json("POST", f"/api/v1/tags/{quote('Straße')}/unfollow", ben)
    assert shoal.json("GET", "/api/v1/followed_tags", ben) == []


def test_tag_timeline_any_all_and_none_parameters_combine(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    dawn, reef, both, every = (
        write(shoal, ann, text) for text in ("#dawn", "#Reef", "#dawn #reef", "#dawn #reef #surf")
    )

    def tagged(query: str) -> list[str]:
        return ids(shoal.json("GET", f"/api/v1/timelines/tag/DAWN{query}"))

    assert tagged("") == [every, both, dawn]
    assert tagged("?any[]=reef") == [every, both, reef, dawn]
    assert tagged("?any=%23REEF") == [every, both, reef, dawn]
    assert tagged("?all[]=reef") == [every, both]
    assert tagged("?all[]=reef&all[]=surf") == [every]
    assert tagged("?none[]=surf") == [both, dawn]
    assert tagged("?any[]=reef&none[]=dawn") == [reef]
    assert tagged("?any[]=reef&all[]=reef&none[]=surf") == [both, reef]
    assert tagged("?any[]=!&none[]=!") == [every, both, dawn]
    assert tagged("?all[]=!") == tagged("?remote=true") == []
    assert tagged("?any[]=reef&limit=2") == [every, both]
    assert tagged(f"?any[]=reef&limit=2&max_id={both}") == [reef, dawn]
    assert tagged(f"?any[]=reef&limit=2&min_id={dawn}") == [both, reef]
    many = "&".join(f"any[]=t{n}" for n in range(11))
    assert shoal.ask("GET", f"/api/v1/timelines/tag/dawn?{many}").status_code == 422
    assert shoal.ask("GET", "/api/v1/timelines/tag/!").status_code == 404


def test_account_statuses_page_with_filter_is_full_and_links_to_next_page(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    photo = shoal.json("POST", "/api/v2/media", ann, files={"file": picture()})["id"]
    other = shoal.json("POST", "/api/v2/media", ann, files={"file": picture()})["id"]
    first = write(shoal, ann, "a picture", media_ids=[photo])
    for n in range(60):
        write(shoal, ann, f"words {n}", in_reply_to_id=first)
    last = write(shoal, ann, "another", media_ids=[other])
    path = f"/api/v1/accounts/{ann.id}/statuses?only_media=true"
    page = shoal.ask("GET", f"{path}&limit=1")
    assert (ids(page.json()), "next" in page.links) == ([last], True)
    page = shoal.ask("GET", page.links["next"]["url"])
    assert (ids(page.json()), "next" in page.links) == ([first], False)
    assert ids(shoal.json("GET", f"{path}&min_id={first}")) == [last]
    assert ids(shoal.json("GET", f"{path}&limit=1&min_id=1")) == [first]
    empty = shoal.ask("GET", f"{path}&max_id={first}")
    assert (empty.json(), empty.headers.get("Link")) == ([], None)
    shoal.json("POST", f"/api/v1/statuses/{last}/pin", ann)
    assert ids(shoal.json("GET", f"{path}&pinned=true")) == [last]
    assert ids(shoal.json("GET", f"{path}&pinned=true&tagged=reef")) == []


def test_boolean_parameter_accepts_t_and_f(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    shoal.json("POST", "/api/v1/statuses", ann, json={"status": "hello"})
    shoal.settle()
    for said, shown in (("local=t", 1), ("remote=t", 0), ("remote=f", 1), ("only_media=t", 0), ("only_media=F", 1)):
        assert len(shoal.json("GET", f"/api/v1/timelines/public?{said}", ann)) == shown, said
