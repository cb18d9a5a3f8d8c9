"""The demo network: deterministic, consistent and realistic in its numbers, with images that can be decoded."""

from __future__ import annotations

import re
from collections import Counter
from io import BytesIO
from statistics import median

import msgspec
import pytest
from msgspec import structs
from PIL import Image

from shoal.core.model import Visibility
from shoal_demo.model import KINDS, MOODS, DemoPlan, Scene
from shoal_demo.people import BITS
from shoal_demo.photographs import PAINTERS, photograph
from shoal_demo.plan import plan
from shoal_demo.portraits import banner, portrait
from shoal_demo.texts import ALTS, CAPTIONS, MOOD_ALTS, MOOD_CAPTIONS, MUSINGS, TO_PHOTO

NOW = 1_790_000_000_000
DAYS = 28
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def network() -> DemoPlan:
    return plan(1, 120, DAYS, now_ms=NOW)


def size_of(data: bytes) -> tuple[int, int]:
    with Image.open(BytesIO(data)) as picture:
        picture.load()
        return picture.size


def test_demo_network_is_determined_by_its_seed(network: DemoPlan) -> None:
    assert msgspec.json.encode(plan(1, 120, DAYS, now_ms=NOW)) == msgspec.json.encode(network)
    assert plan(2, 120, DAYS, now_ms=NOW) != network


def test_demo_network_of_a_seed_is_equal_at_any_time(network: DemoPlan) -> None:
    later = 3 * DAY_MS + 12_345
    again = plan(1, 120, DAYS, now_ms=NOW + later)
    assert (again.people, again.follows, again.likes) == (network.people, network.follows, network.likes)
    for then, now in zip(network.posts, again.posts, strict=True):
        assert structs.replace(now, moment=now.moment - later) == then
    assert [(who, post, moment - later) for who, post, moment in again.shares] == list(network.shares)


def test_demo_network_has_the_documented_size(network: DemoPlan) -> None:
    assert len(network.people) == 120
    assert 800 <= len(network.posts) <= 1000
    assert 200 <= sum(len(post.scenes) for post in network.posts) <= 320
    assert 5500 <= len(network.likes) <= 6500
    assert len(network.shares) >= 100


def test_demo_network_member_names_are_valid_and_unique(network: DemoPlan) -> None:
    names = [person.name for person in network.people]
    assert all(re.fullmatch(r"[a-z0-9_]{1,30}", name) for name in names)
    assert len(set(names)) == len(names)
    assert all(person.display_name and person.bio for person in network.people)


def test_demo_network_follows_are_unique_and_never_of_oneself(network: DemoPlan) -> None:
    assert all(who != whom for who, whom in network.follows)
    assert len(set(network.follows)) == len(network.follows)


def test_demo_network_follower_counts_are_heavily_skewed(network: DemoPlan) -> None:
    followers = Counter(whom for _, whom in network.follows)
    following = Counter(who for who, _ in network.follows)
    ranked = [count for _, count in followers.most_common()]
    assert ranked[0] >= 0.7 * len(network.people)
    assert sum(ranked[: len(ranked) // 10]) >= 0.22 * len(network.follows)
    assert ranked[0] >= 4 * median(ranked)
    assert 15 <= median(following.values()) <= 28


def test_demo_network_top_one_percent_has_disproportionate_followers() -> None:
    large = plan(3, 600, 1, now_ms=NOW)
    ranked = sorted(Counter(whom for _, whom in large.follows).values(), reverse=True)
    assert sum(ranked[:6]) >= 0.08 * len(large.follows)


def test_demo_network_follows_prefer_shared_interests(network: DemoPlan) -> None:
    personalization = [set(person.interests) for person in network.people]
    everybody = [bool(a & b) for at, a in enumerate(personalization) for b in personalization[at + 1 :]]
    followed = [bool(personalization[who] & personalization[whom]) for who, whom in network.follows]
    assert sum(followed) / len(followed) > 1.2 * sum(everybody) / len(everybody)


def test_demo_network_follows_are_often_mutual(network: DemoPlan) -> None:
    edges = set(network.follows)
    returned = sum((whom, who) in edges for who, whom in edges) / len(edges)
    assert returned > 1.5 * len(edges) / (120 * 119)


def test_demo_network_posts_are_in_time_order_inside_the_window(network: DemoPlan) -> None:
    moments = [post.moment for post in network.posts]
    assert moments == sorted(moments)
    assert moments[0] >= NOW - DAYS * DAY_MS
    assert moments[-1] <= NOW
    assert all(NOW - DAYS * DAY_MS <= moment <= NOW for _, _, moment in network.shares)


def test_demo_network_comments_are_later_than_their_parents(network: DemoPlan) -> None:
    comments = [(at, post) for at, post in enumerate(network.posts) if post.parent is not None]
    assert comments
    for at, post in comments:
        assert post.parent is not None
        assert post.parent < at
        assert network.posts[post.parent].moment < post.moment


def test_demo_network_shares_are_of_earlier_public_posts(network: DemoPlan) -> None:
    for who, at, moment in network.shares:
        assert moment > network.posts[at].moment
        assert who != network.posts[at].author
        assert network.posts[at].visibility == Visibility.PUBLIC
    assert len({(who, at) for who, at, _ in network.shares}) == len(network.shares)


def test_demo_network_likes_are_unique_and_never_of_own_posts(network: DemoPlan) -> None:
    assert len(set(network.likes)) == len(network.likes)
    assert all(who != network.posts[at].author for who, at in network.likes)


def test_demo_network_followers_only_posts_get_reactions_only_from_followers(network: DemoPlan) -> None:
    edges = set(network.follows)
    for who, at in network.likes:
        post = network.posts[at]
        assert post.visibility == Visibility.PUBLIC or (who, post.author) in edges
    for post in network.posts:
        parent = network.posts[post.parent] if post.parent is not None else None
        if parent is not None and parent.visibility == Visibility.FOLLOWERS:
            assert (post.author, parent.author) in edges
            assert post.visibility == Visibility.FOLLOWERS


def test_demo_network_mentions_name_existing_members(network: DemoPlan) -> None:
    names = {person.name for person in network.people}
    mentioned = {name for post in network.posts for name in re.findall(r"@(\w+)", post.text)}
    assert mentioned
    assert mentioned <= names


def test_demo_network_posts_have_tags_photos_places_and_languages(network: DemoPlan) -> None:
    assert sum("#" in post.text for post in network.posts if post.parent is None) > 200
    assert all(1 <= len(post.scenes) <= 4 for post in network.posts if post.scenes)
    assert sum(post.place is not None for post in network.posts) > 20
    assert all(-90 <= post.place.latitude <= 90 for post in network.posts if post.place)
    assert len({post.language for post in network.posts}) >= 4
    assert all("{" not in post.text and ">>" not in post.text for post in network.posts)


def test_demo_network_post_texts_are_rarely_repeated(network: DemoPlan) -> None:
    texts = Counter(post.text for post in network.posts if post.parent is None)
    assert texts.most_common(1)[0][1] <= 3
    assert len(texts) >= 0.85 * sum(texts.values())


def test_demo_network_posts_are_written_more_by_day_than_by_night(network: DemoPlan) -> None:
    hours = Counter(
        int(post.moment / 3_600_000 + network.people[post.author].home.longitude / 15) % 24
        for post in network.posts
        if post.parent is None
    )
    assert sum(hours[hour] for hour in range(17, 22)) > 4 * sum(hours[hour] for hour in range(5))


@pytest.mark.parametrize("members", [1, 2, 7])
def test_demo_network_may_have_very_few_members(members: int) -> None:
    small = plan(5, members, 2, now_ms=NOW)
    assert len(small.people) == members
    assert small.posts


def test_demo_network_without_members_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        plan(1, 0, now_ms=NOW)


def test_demo_text_tables_cover_every_interest_kind_and_mood() -> None:
    assert set(MUSINGS) == set(KINDS) == set(BITS)
    assert set(CAPTIONS) == set(TO_PHOTO) == set(PAINTERS) == set(MOODS) == set(ALTS)
    assert {kind for kinds in KINDS.values() for kind in kinds} <= set(PAINTERS)
    moods = {f"{kind}/{mood}" for kind, row in MOODS.items() for mood in row}
    assert set(MOOD_CAPTIONS) <= moods
    assert {mood.partition("/")[2] for mood in moods} <= set(MOOD_ALTS)


def test_demo_avatars_and_headers_decode_at_their_stated_sizes(network: DemoPlan) -> None:
    for person in network.people[:40]:
        assert size_of(portrait(person)) == (400, 400)
    for person in network.people[:3]:
        assert size_of(banner(person)) == (1500, 500)


SHAPES = ((1280, 853), (1024, 1280), (640, 640))


@pytest.mark.parametrize("kind", PAINTERS)
def test_demo_photos_of_every_kind_and_mood_decode_at_their_stated_size(kind: str) -> None:
    for seed, mood in enumerate(MOODS[kind]):
        width, height = SHAPES[seed % len(SHAPES)]
        assert size_of(photograph(Scene(kind=kind, mood=mood, seed=seed, width=width, height=height))) == (
            width,
            height,
        )


def test_demo_photos_and_avatars_are_deterministic(network: DemoPlan) -> None:
    scene = Scene(kind="sea", mood="sunset", seed=4)
    assert photograph(scene) == photograph(scene)
    assert portrait(network.people[0]) == portrait(network.people[0])
