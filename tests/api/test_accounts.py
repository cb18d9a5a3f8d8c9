"""Account endpoints: relationships, profile statuses, credentials and moderation flags."""

from __future__ import annotations

import pytest

from shoal.commands import moderation
from shoal.core.errors import InvalidInput
from shoal.core.model import Role
from shoal.graph.contract import Cursor
from shoal.graph.schema import FOLLOWED_BY, LIKES
from shoal.queries import members, posts, public_timelines
from tests.api.in_memory_network import NetworkFixture


def test_relationship_field_followed_by_is_true_for_followers_of_caller(shoal: NetworkFixture) -> None:
    ann, ben, cyd = map(shoal.join, ("ann", "ben", "cyd"))
    shoal.json("POST", f"/api/v1/accounts/{ann.id}/follow", ben)
    shoal.settle()
    asked = shoal.json("GET", f"/api/v1/accounts/relationships?id[]={ben.id}&id[]={cyd.id}", ann)
    assert [(one["id"], one["followed_by"], one["following"]) for one in asked] == [
        (ben.id, True, False),
        (cyd.id, False, False),
    ]


def test_account_statuses_of_muted_member_are_shown_without_boosts_of_muted_authors(shoal: NetworkFixture) -> None:
    ann, ben, cyd = map(shoal.join, ("ann", "ben", "cyd"))
    own = shoal.json("POST", "/api/v1/statuses", ann, json={"status": "mine"})
    for guest in (ben, cyd):
        post = shoal.json("POST", "/api/v1/statuses", guest, json={"status": "a guest's"})
        shoal.json("POST", f"/api/v1/statuses/{post['id']}/reblog", ann)
    viewer = shoal.join("dan")
    path = f"/api/v1/accounts/{ann.id}/statuses"
    assert len(shoal.json("GET", path, viewer)) == 3
    for muted in (ann, ben):
        shoal.json("POST", f"/api/v1/accounts/{muted.id}/mute", viewer)
    shown = shoal.json("GET", path, viewer)
    assert shown[-1]["id"] == own["id"]
    assert [one["reblog"]["account"]["username"] for one in shown[:-1]] == ["cyd"]


@pytest.mark.parametrize("limit", [0, -1])
def test_paginated_queries_with_limit_below_one_are_refused(shared: NetworkFixture, limit: int) -> None:
    ann = shared.join(f"limit_ann{1 + limit}")
    reads, id_, at = shared.app_parts.reads, ann.member.id, Cursor(limit=limit)
    for page in (
        posts.authored_page(reads, id_, id_, at),
        public_timelines.tag_page(reads, id_, public_timelines.TagQuery(frozenset(("dawn",))), at),
        members.page(reads, id_, id_, FOLLOWED_BY, at),
        posts.saved_page(reads, id_, LIKES, at),
    ):
        with pytest.raises(InvalidInput, match="limit: must be at least 1"):
            shared.run(page)


def test_update_credentials_saves_attribution_domains_and_quote_policy(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    path = "/api/v1/accounts/update_credentials"
    source = shoal.json("GET", "/api/v1/accounts/verify_credentials", ann)["source"]
    assert (source["attribution_domains"], source["quote_policy"]) == ([], "nobody")
    wanted = {
        "attribution_domains": ["Example.org", " blog.example.org", "example.org", ""],
        "source": {"quote_policy": "followers"},
    }
    saved = shoal.json("PATCH", path, ann, json=wanted)["source"]
    assert (saved["attribution_domains"], saved["quote_policy"]) == (["example.org", "blog.example.org"], "followers")
    shoal.json("PATCH", path, ann, data={"source[quote_policy]": "public"})
    again = shoal.json("GET", "/api/v1/accounts/verify_credentials", ann)["source"]
    assert (again["attribution_domains"], again["quote_policy"]) == (["example.org", "blog.example.org"], "public")
    for wrong in (["https://example.org/"], ["example"], ["a b.org"], [f"site{n}.org" for n in range(101)]):
        assert shoal.ask("PATCH", path, ann, json={"attribution_domains": wrong}).status_code == 422
    assert shoal.ask("PATCH", path, ann, json={"source": {"quote_policy": "everybody"}}).status_code == 422
    assert shoal.json("PATCH", path, ann, data={"attribution_domains[]": ""})["source"]["attribution_domains"] == []


def test_account_limited_and_suspended_flags_appear_only_when_set(shoal: NetworkFixture) -> None:
    ann, ben = shoal.join("ann"), shoal.join("ben")
    boss = shoal.join("boss", scopes=("read", "admin:read"))
    shoal.run(moderation.set_role(shoal.writes, int(boss.id), Role.ADMIN))
    path = f"/api/v1/accounts/{ann.id}"
    assert not {"limited", "suspended"} & shoal.json("GET", path, ben).keys()
    shoal.run(moderation.silence(shoal.writes, int(ann.id)))
    assert shoal.json("GET", path, ben)["limited"] is True
    shoal.run(moderation.suspend(shoal.writes, int(ann.id)))
    assert shoal.ask("GET", path, ben).status_code == 410
    found = shoal.json("GET", "/api/v2/admin/accounts?status=suspended", boss)
    assert [one["account"]["suspended"] for one in found] == [True]


def test_favicon_is_served_as_png(shoal: NetworkFixture) -> None:
    answer = shoal.ask("GET", "/favicon.ico")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    assert answer.content.startswith(b"\x89PNG")
