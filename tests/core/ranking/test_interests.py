"""Stored ranking interests: packing is lossless and small, and the strongest tags are kept."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.places import Location, Place
from shoal.core.ranking.people import friends_of_friends
from shoal.core.ranking.preferences import FOLLOWED_STRENGTH, Interests, author_affinity, pack, strongest, unpack

_ids = st.integers(1, 2**63 - 1)
_forces = st.floats(-1, 1)


@st.composite
def interests(draw: st.DrawFn) -> Interests:
    """Return interests as they are derived: a follow gives an affinity, which reactions may change."""
    followees = tuple(draw(st.lists(_ids, unique=True)))
    acts = draw(st.dictionaries(_ids | st.sampled_from(followees or (1,)), _forces))
    tags = draw(st.dictionaries(st.text(), _forces))
    return Interests(
        followees=followees,
        followers=draw(st.frozensets(_ids)),
        followed_tags=draw(st.frozensets(st.text())),
        tags=tags,
        authors=dict.fromkeys(followees, author_affinity(FOLLOWED_STRENGTH)) | acts,
        likes=draw(st.dictionaries(_ids, st.integers(1, 200))),
        liked_tags=draw(st.dictionaries(st.sampled_from(list(tags)), st.integers(1, 200))) if tags else {},
        acted=draw(st.frozensets(_ids)),
        place=draw(st.none() | st.just(Place(52.5, 13.4))),
        location=draw(st.sampled_from([None, Location("IN"), Location("IN", "Kochi", Place(9.9, 76.3))])),
        picked=(),
        near=friends_of_friends({1: [2, 3]}, {1: 2}),
    )


@given(interests())
def test_ranking_interests_are_unchanged_by_packing_and_unpacking(one: Interests) -> None:
    again = unpack(pack(one))
    assert again == one
    assert (list(again.tags), list(again.authors)) == (list(one.tags), list(one.authors)), "in the same order"


def test_ranking_interests_of_active_member_pack_into_a_few_kilobytes() -> None:
    """A hundred followees and followers, two hundred likes of sixty authors, and more tags than are kept."""
    ids = [int(id_) for id_ in np.random.default_rng(1).integers(2**61, 2**62, 400)]
    one = Interests(
        followees=tuple(ids[:100]),
        followers=frozenset(ids[50:150]),
        followed_tags=frozenset({"sea", "sky"}),
        tags=strongest({f"some_tag_{n}": 1 / (n + 2) for n in range(500)}),
        authors=dict.fromkeys(ids[:80], author_affinity(FOLLOWED_STRENGTH)) | dict.fromkeys(ids[80:140], 0.7),
        likes=dict.fromkeys(ids[80:140], 3),
        liked_tags={f"some_tag_{n}": n + 1 for n in range(100)},
        acted=frozenset(ids[200:]),
        place=None,
        location=None,
        picked=(),
        near=friends_of_friends({}, {}),
    )
    assert len(pack(one).data) < 7_600


def test_ranking_interests_keep_strongest_tags_in_order() -> None:
    few = {"sea": 0.5, "sky": -0.1}
    assert strongest(few) == few
    many = {f"weak{n}": 0.01 for n in range(99)} | {"hated": -0.9, "loved": 0.8} | {"weak": 0.01}
    kept = strongest(many)
    assert len(kept) == 100
    assert list(kept)[-2:] == ["hated", "loved"]
