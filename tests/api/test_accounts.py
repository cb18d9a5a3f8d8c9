"""How members stand to each other, and what the profile of one shows to another."""

from __future__ import annotations

import pytest

from shoal.core.errors import InvalidInput
from shoal.feeds import kept, people, tagged, user
from shoal.feeds.pull import Cursor
from shoal.graph.schema import FOLLOWED_BY, LIKES
from tests.api.world import World


def test_relationships_say_who_follows_the_caller(shoal: World) -> None:
    ann, ben, cyd = map(shoal.join, ("ann", "ben", "cyd"))
    shoal.json("POST", f"/api/v1/accounts/{ann.id}/follow", ben)
    shoal.settle()
    asked = shoal.json("GET", f"/api/v1/accounts/relationships?id[]={ben.id}&id[]={cyd.id}", ann)
    assert [(one["id"], one["followed_by"], one["following"]) for one in asked] == [
        (ben.id, True, False),
        (cyd.id, False, False),
    ]


def test_a_profile_shows_its_member_to_who_mutes_them_but_no_muted_guests(shoal: World) -> None:
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
def test_a_page_of_nothing_is_refused_in_words(shared: World, limit: int) -> None:
    ann = shared.join(f"limit_ann{1 + limit}")
    reads, id_, at = shared.deps.reads, ann.member.id, Cursor(limit=limit)
    for page in (
        user.page(reads, id_, id_, at),
        tagged.page(reads, id_, tagged.Wish(frozenset(("dawn",))), at),
        people.page(reads, id_, id_, FOLLOWED_BY, at),
        kept.page(reads, id_, LIKES, at),
    ):
        with pytest.raises(InvalidInput, match="limit: at least 1"):
            shared.run(page)
