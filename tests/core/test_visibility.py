"""The complete truth table of post visibility: every viewer, post, author and relation."""

from __future__ import annotations

from itertools import product

import msgspec
import pytest

from shoal.core.model import Member, Mention, Post, Share, Visibility
from shoal.core.visibility import STRANGER, Relation, may_list, may_see, may_see_share, may_share

AUTHOR, VIEWER, OTHER = 1, 2, 3
PUBLIC, UNLISTED, FOLLOWERS, DIRECT = Visibility

FLAGS = ("following", "followed_by", "blocking", "blocked_by", "muting")
RELATIONS = [
    msgspec.structs.replace(STRANGER, **dict(zip(FLAGS, flags, strict=True)))
    for flags in product([False, True], repeat=len(FLAGS))
]
MENTIONS: list[tuple[Mention, ...]] = [(), (Mention(OTHER, "o"),), (Mention(OTHER, "o"), Mention(VIEWER, "v"))]
AUTHORS = [None, Member(id=AUTHOR, name="a"), Member(id=AUTHOR, name="a", suspended=True)]

CASES = list(product([None, VIEWER, AUTHOR], Visibility, MENTIONS, AUTHORS, RELATIONS))


def post_of(visibility: Visibility, mentions: tuple[Mention, ...] = ()) -> Post:
    return Post(id=10, author_id=AUTHOR, visibility=visibility, mentions=mentions)


def told(viewer: int | None, visibility: Visibility, mentions: tuple[Mention, ...], relation: Relation) -> bool:
    """Return whether the visibility alone lets this viewer see the post."""
    mentioned = any(mention.id == viewer for mention in mentions)
    return {
        PUBLIC: True,
        UNLISTED: True,
        FOLLOWERS: viewer is not None and (mentioned or relation.following),
        DIRECT: viewer is not None and mentioned,
    }[visibility]


def test_post_visibility_cases_cover_every_viewer_visibility_mention_author_and_relation() -> None:
    assert len(CASES) == 3 * 4 * 3 * 3 * 32


def test_post_visibility_equals_its_definition_for_every_viewer_post_author_and_relation() -> None:
    for viewer, visibility, mentions, author, relation in CASES:
        there = author is not None and not author.suspended
        severed = relation.blocking or relation.blocked_by
        expected = there and (viewer == AUTHOR or (not severed and told(viewer, visibility, mentions, relation)))
        case = (viewer, visibility, mentions, author, relation)
        assert may_see(viewer, post_of(visibility, mentions), author, relation) is expected, case


def test_post_in_lists_is_shown_to_permitted_viewers_unless_they_mute_the_author() -> None:
    for viewer, visibility, mentions, author, relation in CASES:
        post = post_of(visibility, mentions)
        expected = may_see(viewer, post, author, relation) and not relation.muting
        assert may_list(viewer, post, author, relation) is expected


def test_share_visibility_follows_setting_of_the_share() -> None:
    for viewer, visibility, sharer, relation in product([None, VIEWER, AUTHOR], Visibility, AUTHORS, RELATIONS):
        share = Share(id=11, author_id=AUTHOR, post_id=10, post_author_id=OTHER, visibility=visibility)
        there = sharer is not None and not sharer.suspended
        severed = relation.blocking or relation.blocked_by
        expected = there and (viewer == AUTHOR or (not severed and told(viewer, visibility, (), relation)))
        case = (viewer, visibility, sharer, relation)
        assert may_see_share(viewer, share, sharer, relation) is expected, case


def test_post_sharing_allows_public_posts_to_all_and_followers_posts_to_author() -> None:
    allowed = {
        (viewer, visibility)
        for viewer, visibility in product([AUTHOR, VIEWER], Visibility)
        if may_share(viewer, post_of(visibility))
    }
    everybodys = {(viewer, visibility) for viewer in (AUTHOR, VIEWER) for visibility in (PUBLIC, UNLISTED)}
    assert allowed == everybodys | {(AUTHOR, FOLLOWERS)}


@pytest.mark.parametrize("flag", ["blocking", "blocked_by"])
def test_relationship_is_severed_by_block_in_either_direction_but_not_by_mute(flag: str) -> None:
    assert msgspec.structs.replace(STRANGER, **{flag: True}).severed
    assert not STRANGER.severed
    assert not Relation(following=True, followed_by=True, muting=True).severed


def test_post_visibility_does_not_depend_on_following_back_or_muting() -> None:
    for viewer, visibility, mentions, author, relation in CASES:
        plain = Relation(following=relation.following, blocking=relation.blocking, blocked_by=relation.blocked_by)
        post = post_of(visibility, mentions)
        assert may_see(viewer, post, author, relation) is may_see(viewer, post, author, plain)
