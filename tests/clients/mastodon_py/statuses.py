"""Stories of posts and of interactions with them."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pytest
from mastodon.errors import MastodonAPIError, MastodonNotFoundError

from tests.api.in_memory_network import picture
from tests.clients.mastodon_py.recorded_members import Cast
from tests.clients.server import until


def a_post_is_written_edited_and_deleted(cast: Cast) -> None:
    """Write, edit and delete a post, and read its history and source. Deletion returns the text."""
    ann, ben = cast.join("ann"), cast.join("ben")
    post = ann.status_post("Low tide", spoiler_text="water", visibility="public", language="en", idempotency_key="a1")
    assert ann.status_post("Low tide", idempotency_key="a1").id == post.id
    assert ann.toot("Hello").content == "<p>Hello</p>"
    edited = ann.status_update(post.id, "High tide", spoiler_text="water")
    assert (edited.content, edited.edited_at is None) == ("<p>High tide</p>", False)
    assert [wording.content for wording in ben.status_history(post.id)] == ["<p>Low tide</p>", "<p>High tide</p>"]
    assert ann.status_source(post.id).text == "High tide"
    assert [found.id for found in ben.statuses([post.id])] == [ben.status(post.id).id]
    assert ann.status_delete(post.id).text == "High tide"
    with pytest.raises(MastodonNotFoundError):
        ben.status(post.id)


def members_talk(cast: Cast) -> None:
    """Reply to a post, read the thread, and mute and unmute it."""
    ann, ben = cast.join("ann"), cast.join("ben")
    post = ann.status_post("Who is there?")
    answer = ben.status_reply(post, "I am")
    assert answer.in_reply_to_id == post.id
    thread = ann.status_context(post.id)
    assert [found.id for found in thread.descendants] == [answer.id]
    assert [found.id for found in ann.status_context(answer.id).ancestors] == [post.id]
    assert ann.status_mute(post.id).muted
    assert not ann.status_unmute(post.id).muted


def members_react(cast: Cast) -> None:
    """Like, share, bookmark and pin a post, and undo each action."""
    ann, ben = cast.join("ann"), cast.join("ben")
    post = ann.status_post("Sand")
    assert ben.status_favourite(post.id).favourited
    assert [found.id for found in ann.status_favourited_by(post.id)] == [ben.me().id]
    assert [found.id for found in ben.favourites()] == [post.id]
    shared = ben.status_reblog(post.id, visibility="public")
    assert (shared.reblogged, shared.reblog.id, shared.reblog.reblogged) == (True, post.id, True)
    assert [found.id for found in ann.status_reblogged_by(post.id)] == [ben.me().id]
    assert ben.status_bookmark(post.id).bookmarked
    assert [found.id for found in ben.bookmarks()] == [post.id]
    assert ann.status_pin(post.id).pinned
    assert [found.id for found in ben.account_statuses(ann.me().id, pinned=True)] == [post.id]
    assert not ann.status_unpin(post.id).pinned
    assert not ben.status_unbookmark(post.id).bookmarked
    assert not ben.status_unreblog(post.id).reblogged
    assert not ben.status_unfavourite(post.id).favourited


def members_vote(cast: Cast) -> None:
    """Vote for several options in two requests. Voting for an option again is an error."""
    ann, ben = cast.join("ann"), cast.join("ben")
    asked = ann.make_poll(["crab", "mussel", "limpet"], expires_in=3600, multiple=True)
    post = ann.status_post("Which?", poll=asked)
    assert [option.title for option in post.poll.options] == ["crab", "mussel", "limpet"]
    voted = ben.poll_vote(post.poll.id, [0, 2])
    assert (voted.voted, voted.own_votes, voted.votes_count, voted.voters_count) == (True, [0, 2], 2, 1)
    assert [option.votes_count for option in ann.poll(post.poll.id).options] == [1, 0, 1]
    assert sorted(ben.poll_vote(post.poll.id, [1]).own_votes) == [0, 1, 2]
    with pytest.raises(MastodonAPIError, match="You have already voted on this poll"):
        ben.poll_vote(post.poll.id, [2])


def posts_wait_for_their_moment(cast: Cast) -> None:
    """Read, reschedule and delete a scheduled post. A time less than five minutes ahead is an error."""
    ann = cast.join("ann")
    at = datetime.now(UTC) + timedelta(hours=1)
    made = ann.status_post("Later", scheduled_at=at)
    assert made.params.text == "Later"
    assert [found.id for found in ann.scheduled_statuses()] == [made.id]
    moved = ann.scheduled_status_update(made.id, at + timedelta(hours=1))
    assert abs((moved.scheduled_at - at).total_seconds() - 3600) < 1
    assert ann.scheduled_status(made.id).id == made.id
    ann.scheduled_status_delete(made.id)
    assert list(ann.scheduled_statuses()) == []
    with pytest.raises(MastodonAPIError):
        ann.status_post("Too soon", scheduled_at=datetime.now(UTC) + timedelta(seconds=30))


def pictures_are_posted(cast: Cast) -> None:
    """Post a picture with a description and a focus, and edit its description, also by editing the post."""
    ann = cast.join("ann")
    media = ann.media_post(
        io.BytesIO(picture(64, 40)), mime_type="image/png", description="sand", focus=(0.5, -0.5), file_name="a.png"
    )
    assert (media.type, media.description, media.meta.focus.x) == ("image", "sand", 0.5)
    assert ann.media_update(media.id, description="wet sand").description == "wet sand"
    assert until(lambda: ann.media(media.id).url)
    post = ann.status_post("Look", media_ids=[media.id])
    assert [found.id for found in post.media_attachments] == [media.id]
    # Combined with media_ids, this version of Mastodon.py fails before it sends the request.
    words = ann.generate_media_edit_attributes(media.id, description="dry sand")
    edited = ann.status_update(post.id, "Look!", media_attributes=[words])
    assert edited.media_attachments[0].description == "dry sand"


STORIES = (
    a_post_is_written_edited_and_deleted,
    members_talk,
    members_react,
    members_vote,
    posts_wait_for_their_moment,
    pictures_are_posted,
)
