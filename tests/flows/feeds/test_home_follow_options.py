"""The home timeline with follow options, mutes and exclusive lists, compared with its rules."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Handle, Shoal
from shoal.commands import lists, relationships
from shoal.commands.relationships import FollowOptions
from shoal.graph.contract import Cursor
from shoal.queries import home
from shoal.queries.pipeline import Page
from tests.async_runner import run
from tests.example_counts import examples
from tests.flows.members import register

OTHERS = 3


class FeedPreferences(NamedTuple):
    """The relation of the reader to another member."""

    follows: bool
    shares: bool
    languages: tuple[str, ...]
    apart: bool
    muted: bool


class Written(NamedTuple):
    """A post by another member, and the members who share it."""

    author: int
    language: str
    tagged: bool
    sharers: frozenset[int]


personalization = st.lists(
    st.builds(
        FeedPreferences,
        follows=st.sampled_from((True, True, True, False)),
        shares=st.booleans(),
        languages=st.sampled_from(((), ("de",), ("de", "en"))),
        apart=st.sampled_from((False, False, True)),
        muted=st.sampled_from((False, False, False, True)),
    ),
    min_size=OTHERS,
    max_size=OTHERS,
)
posts = st.lists(
    st.builds(
        Written,
        author=st.integers(0, OTHERS - 1),
        language=st.sampled_from(("", "de", "en", "fr")),
        tagged=st.sampled_from((False, False, True)),
        sharers=st.frozensets(st.integers(0, OTHERS - 1), max_size=2),
    ),
    max_size=12,
)


def brought(feed_preferences: FeedPreferences, written: Written, *, shared: bool) -> bool:
    """Return whether the relation to a member puts a post into the home timeline."""
    if (
        not feed_preferences.follows
        or feed_preferences.apart
        or feed_preferences.muted
        or (shared and not feed_preferences.shares)
    ):
        return False
    return not feed_preferences.languages or written.language in ("", *feed_preferences.languages)


@given(personalization=personalization, posts=posts, limit=st.integers(1, 5))
@settings(max_examples=examples(25, full=50), deadline=None)
def test_home_timeline_respects_follow_options_mutes_and_exclusive_lists(
    personalization: list[FeedPreferences], posts: list[Written], limit: int
) -> None:
    async def main() -> None:
        async with Shoal.open("memory://") as shoal:
            ann, *others = await register(shoal, "ann", "ben", "cyd", "dan")
            await ann.home()
            await ann.follow_tag("sea")
            await _like(shoal, ann, others, personalization)
            expected: list[int] = []
            shows: dict[int, int] = {}
            for written in posts:
                post = await others[written.author].create(
                    "#sea" if written.tagged else "plain", language=written.language
                )
                by = personalization[written.author]
                if (written.tagged and not by.muted) or brought(by, written, shared=False):
                    expected.append(post.id)
                    shows[post.id] = post.id
                for sharer in written.sharers:
                    share = await others[sharer].share(post)
                    if brought(personalization[sharer], written, shared=True) and not by.muted:
                        # All entries are within the folding window: a post is shown once, by its first entry.
                        if post.id not in shows.values():
                            expected.append(share.id)
                        shows[share.id] = post.id
            await shoal.settle()
            reads = shoal.network.reads
            for read in (home.page, home.definition):
                found, cursor = list[int](), Cursor(limit=limit)
                while True:
                    page: Page = await read(reads, ann.id, cursor)
                    found += [entry.id for entry in page.entries]
                    if page.next is None:
                        break
                    cursor = cursor._replace(before=page.next)
                assert found == sorted(expected, reverse=True), read.__name__
            every = [entry.id for entry in (await home.page(reads, ann.id, Cursor(limit=99))).entries]
            assert [entry.id for entry in await home.among(reads, ann.id, every)] == every

    run(main())


async def _like(shoal: Shoal, reader: Handle, others: list[Handle], personalization: list[FeedPreferences]) -> None:
    writes = shoal.network.writes
    apart = await lists.create(writes, reader.id, "apart", exclusive=True)
    for other, feed_preferences in zip(others, personalization, strict=True):
        if feed_preferences.follows:
            wish = FollowOptions(shares=feed_preferences.shares, languages=feed_preferences.languages)
            await relationships.follow(writes, reader.id, other.id, wish)
            if feed_preferences.apart:
                await lists.put_on(writes, reader.id, apart.id, [other.id])
        if feed_preferences.muted:
            await reader.mute(other)
