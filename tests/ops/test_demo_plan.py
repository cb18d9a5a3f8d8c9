"""The demo network: deterministic, consistent and realistic in its numbers, with credited photographs that fit their posts."""

from __future__ import annotations

import re
from collections import Counter
from io import BytesIO
from pathlib import Path
from statistics import median

import msgspec
import pytest
from msgspec import structs
from PIL import Image

from shoal.commands.context import Limits
from shoal.core.model import Visibility
from shoal_demo import photos as photographs
from shoal_demo.model import DemoPlan
from shoal_demo.people import BITS, CAST
from shoal_demo.photos import header, photos, read
from shoal_demo.plan import HERO, SAVED, plan
from shoal_demo.portraits import portrait
from shoal_demo.stories import WITH_PHOTOS, WITHOUT_PHOTOS

NOW = 1_790_000_000_000
DAYS = 28
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def network() -> DemoPlan:
    return plan(1, 60, DAYS, now_ms=NOW)


def size_of(data: bytes) -> tuple[int, int]:
    with Image.open(BytesIO(data)) as picture:
        picture.load()
        return picture.size


def test_demo_network_is_determined_by_its_seed(network: DemoPlan) -> None:
    assert msgspec.json.encode(plan(1, 60, DAYS, now_ms=NOW)) == msgspec.json.encode(network)
    assert plan(2, 60, DAYS, now_ms=NOW) != network


def test_demo_network_of_equal_seed_created_later_differs_only_in_times(network: DemoPlan) -> None:
    later = 3 * DAY_MS + 12_345
    again = plan(1, 60, DAYS, now_ms=NOW + later)
    assert (again.people, again.follows, again.likes) == (network.people, network.follows, network.likes)
    for then, now in zip(network.posts, again.posts, strict=True):
        assert structs.replace(now, moment=now.moment - later) == then
    assert [(who, post, moment - later) for who, post, moment in again.shares] == list(network.shares)


def test_demo_network_has_the_documented_size(network: DemoPlan) -> None:
    assert len(network.people) == 60
    assert sum(post.parent is None for post in network.posts) == len(WITH_PHOTOS) + len(WITHOUT_PHOTOS)
    assert 280 <= len(network.posts) <= 340
    assert 700 <= len(network.likes) <= 1000
    assert len(network.shares) >= 40


@pytest.mark.parametrize(("members", "days"), [(60, 28), (20, 28), (10, 28), (600, 90)])
def test_demo_network_seven_of_ten_posts_have_photos(members: int, days: int) -> None:
    roots = [post for post in plan(1, members, days, now_ms=NOW).posts if post.parent is None]
    assert round(sum(bool(post.photos) for post in roots) / len(roots), 1) == 0.7


def test_demo_network_shows_every_photograph_once(network: DemoPlan) -> None:
    shown = Counter(name for post in network.posts for name in post.photos)
    assert shown == Counter(dict.fromkeys(photos(), 1))


def test_demo_photographs_are_files_with_credits_and_descriptions() -> None:
    files = {path.stem for path in Path(photographs.__file__).parent.glob("*.webp")}
    assert files == set(photos())
    longest = Limits().description
    for photo in photos().values():
        assert photo.title
        assert photo.author
        assert photo.license in {"CC0 1.0", "Public domain"}
        assert photo.source.startswith("https://")
        assert 20 <= len(photo.description) <= longest


def test_demo_photographs_are_small_and_hold_no_metadata() -> None:
    for name in photos():
        data = read(name)
        assert max(size_of(data)) <= 1600
        assert len(data) < 500_000
        with Image.open(BytesIO(data)) as picture:
            assert not {"exif", "xmp"} & set(picture.info)
    assert sum(len(read(name)) for name in photos()) < 6_000_000


def test_demo_header_pictures_have_the_size_of_profile_headers() -> None:
    assert size_of(header("museum_hall")) == photographs.HEADER


def test_demo_story_authors_have_distinct_subjects_and_tag_their_stories_with_them(network: DemoPlan) -> None:
    for story in (*WITH_PHOTOS, *WITHOUT_PHOTOS):
        role = next(role for role in CAST if role.name == story.author)
        assert f"#{role.subject}" in story.text.split(), story.text
    assert len({role.subject for role in CAST}) == len(CAST)
    assert {role.name for role in CAST} == {story.author for story in (*WITH_PHOTOS, *WITHOUT_PHOTOS)}
    assert all(set(role.interests) <= set(BITS) for role in CAST)


def test_demo_network_posts_with_photos_have_comments(network: DemoPlan) -> None:
    commented = {post.parent for post in network.posts}
    assert not [post.text for at, post in enumerate(network.posts) if post.photos and at not in commented]


def test_demo_stories_have_one_to_five_comments_and_repeat_no_text() -> None:
    stories = (*WITH_PHOTOS, *WITHOUT_PHOTOS)
    texts = Counter(text.lstrip(">+ ") for story in stories for text in (story.text, *story.comments))
    assert texts.most_common(1)[0][1] == 1
    for story in stories:
        assert not story.comments[0].startswith((">", "+"))
        assert 1 <= sum(not line.startswith((">", "+")) for line in story.comments) <= 5
        if story.followers:  # A comment on such a post is visible to followers of its own author.
            assert not any(line.startswith((">", "+")) for line in story.comments)


def test_demo_replies_written_for_story_authors_are_posted_by_them(network: DemoPlan) -> None:
    replies = {line[2:]: story.author for story in WITH_PHOTOS for line in story.comments if line.startswith("> ")}
    written = {re.sub(r"^@\w+ ", "", post.text): network.people[post.author].name for post in network.posts}
    found = {text: written[text] for text in replies if text in written}
    assert len(found) > 0.9 * len(replies)
    assert found == {text: replies[text] for text in found}


def test_demo_main_member_follows_many_authors(network: DemoPlan) -> None:
    assert network.people[network.hero].name == HERO
    assert sum(who == network.hero for who, _ in network.follows) >= 20


def test_demo_main_member_has_messages_saved_posts_a_list_and_followed_tags(network: DemoPlan) -> None:
    hero = network.hero
    assert all(hero in {one.author, one.recipient} and one.author != one.recipient for one in network.messages)
    assert len({*(one.author for one in network.messages), *(one.recipient for one in network.messages)}) == 4
    for index, message in enumerate(network.messages):
        assert message.moment < NOW
        if message.parent is not None:
            before = network.messages[message.parent]
            assert message.parent < index
            assert {message.author, message.recipient} == {before.author, before.recipient}
            assert before.moment < message.moment
    assert len(network.saved) == SAVED
    assert {(hero, post) for post in network.saved} <= set(network.likes)
    assert len(network.listed) >= 4
    assert {(hero, one) for one in network.listed} <= set(network.follows)
    tags = {tag for post in network.posts for tag in re.findall(r"#(\w+)", post.text)}
    assert set(network.followed_tags) <= tags


@pytest.mark.parametrize("members", [1, 2, 9])
def test_demo_network_of_few_members_sends_messages_only_between_existing_members(members: int) -> None:
    made = plan(1, members, 3, now_ms=NOW)
    assert all(max(one.author, one.recipient) < members for one in made.messages)


def test_demo_network_member_names_are_valid_and_unique(network: DemoPlan) -> None:
    names = [person.name for person in network.people]
    assert all(re.fullmatch(r"[a-z0-9_]{1,30}", name) for name in names)
    assert len(set(names)) == len(names)
    assert all(person.display_name and person.bio for person in network.people)


def test_demo_network_follows_are_unique_and_never_of_oneself(network: DemoPlan) -> None:
    assert all(who != whom for who, whom in network.follows)
    assert len(set(network.follows)) == len(network.follows)


def test_demo_network_follower_counts_are_heavily_skewed() -> None:
    network = plan(1, 120, 1, now_ms=NOW)
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
    assert returned > 1.5 * len(edges) / (60 * 59)


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
        assert network.posts[at].parent is None
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


def test_demo_network_posts_have_tags_places_and_languages(network: DemoPlan) -> None:
    assert all("#" in post.text for post in network.posts if post.parent is None)
    assert sum(post.place is not None for post in network.posts) >= 10
    assert {post.language for post in network.posts} == {"en", "es", "de", "fr", "pt", "ja", "ar"}
    people = network.people
    assert all(post.language in {"en", people[post.author].language} for post in network.posts)


def test_demo_network_posts_are_written_more_by_day_than_by_night(network: DemoPlan) -> None:
    hours = Counter(
        int(post.moment / 3_600_000 + network.people[post.author].home.longitude / 15) % 24
        for post in network.posts
        if post.parent is None
    )
    assert sum(hours[hour] for hour in range(17, 22)) > 4 * sum(hours[hour] for hour in range(5))


@pytest.mark.parametrize("members", [1, 2, 7])
def test_demo_network_with_very_few_members_is_created(members: int) -> None:
    small = plan(5, members, 2, now_ms=NOW)
    assert len(small.people) == members
    assert small.posts


def test_demo_network_without_members_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        plan(1, 0, now_ms=NOW)


def test_demo_avatars_decode_at_their_stated_size_and_are_deterministic(network: DemoPlan) -> None:
    for person in network.people[:40]:
        assert size_of(portrait(person)) == (400, 400)
    assert portrait(network.people[0]) == portrait(network.people[0])
