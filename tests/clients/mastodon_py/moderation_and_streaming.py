"""Stories of moderators and of clients of the streaming API."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from mastodon import CallbackStreamListener
from mastodon.errors import MastodonAPIError, MastodonUnauthorizedError

from tests.clients.mastodon_py.recorded_members import Cast
from tests.clients.server import until

Event = tuple[str, Any]


def members_are_reported_and_dealt_with(cast: Cast) -> None:
    """File, assign and resolve a report, moderate the reported account, and undo each action."""
    ann, ben, chief = cast.join("ann"), cast.join("ben"), cast.chief()
    post = ben.status_post("Buy my pearls")
    other = ben.me().id
    filed = ann.report(other, status_ids=[post.id], comment="spam", category="spam")
    assert (filed.action_taken, filed.category, filed.target_account.id) == (False, "spam", other)
    (report,) = [found for found in until(chief.admin_reports) if found.id == filed.id]
    assert chief.admin_report(report.id).target_account.id == other
    assert chief.admin_report_assign(report.id).assigned_account is not None
    assert chief.admin_report_unassign(report.id).assigned_account is None
    assert other in {found.id for found in chief.admin_accounts_v2(status="active", limit=200)}
    chief.admin_account_moderate(other, action="silence")
    assert chief.admin_account(other).silenced
    assert not chief.admin_account_unsilence(other).silenced
    chief.admin_account_moderate(other, action="disable")
    with pytest.raises(MastodonAPIError):
        ben.me()
    assert not chief.admin_account_enable(other).disabled
    chief.admin_account_moderate(other, action="suspend", report_id=report.id)
    with pytest.raises((MastodonAPIError, MastodonUnauthorizedError)):
        ben.timeline_home()
    assert not chief.admin_account_unsuspend(other).suspended
    assert chief.admin_report_resolve(report.id).action_taken
    assert not chief.admin_report_reopen(report.id).action_taken
    chief.admin_accounts_v1(status="active")
    chief.admin_account_moderate(other, action="sensitive")
    assert chief.admin_account(other).sensitized
    assert not chief.admin_account_unsensitive(other).sensitized
    with pytest.raises(MastodonAPIError):
        ann.admin_accounts_v2()


def moderators_look_at_trends_and_figures(cast: Cast) -> None:
    """Read trends, measures, dimensions and retention as a moderator."""
    ann, ben, chief = cast.join("ann"), cast.join("ben"), cast.chief()
    post = ann.status_post("Sea glass, #found", language="en")
    ben.status_favourite(post)
    trending = chief.admin_trending_statuses()
    assert [found.trendable for found in trending if found.id == post.id] in ([], [True])
    chief.admin_trending_tags(limit=5)
    assert chief.admin_trending_links() == []
    now = datetime.now(UTC)
    start, end = now - timedelta(days=5), now + timedelta(days=1)
    figures = chief.admin_measures(
        start,
        end,
        active_users=True,
        new_users=True,
        interactions=True,
        tag_uses="found",
        instance_accounts="else.example",
    )
    assert [one.key for one in figures] == [
        "active_users",
        "new_users",
        "interactions",
        "tag_uses",
        "instance_accounts",
    ]
    assert all(len(one.data) == 7 for one in figures)
    assert {one.key: int(one.total) > 0 for one in figures} == {
        "active_users": True,
        "new_users": True,
        "interactions": True,
        "tag_uses": True,
        "instance_accounts": False,
    }
    kinds = chief.admin_dimensions(start, end, limit=3, languages=True, space_usage=True, software_versions=True)
    assert [one.key for one in kinds] == ["languages", "space_usage", "software_versions"]
    assert len(chief.admin_retention(start, end)) == 7
    with pytest.raises(MastodonAPIError):
        ann.admin_measures(start, end, new_users=True)


@contextmanager
def _listening(stream: Callable[..., Any], *arguments: Any, **named: Any) -> Iterator[Callable[[], Event]]:
    """Listen to a stream, and yield a function that returns its next event."""
    heard: queue.Queue[Event] = queue.Queue()
    made: Any = CallbackStreamListener
    listener = made(
        update_handler=lambda status: heard.put(("update", status)),
        status_update_handler=lambda status: heard.put(("status.update", status)),
        delete_handler=lambda id_: heard.put(("delete", id_)),
        notification_handler=lambda one: heard.put(("notification", one)),
        conversation_handler=lambda one: heard.put(("conversation", one)),
        filters_changed_handler=lambda *_: heard.put(("filters_changed", None)),
        local_update_handler=lambda _: None,
    )
    handle = stream(*arguments, listener, run_async=True, timeout=60, **named)
    try:
        until(handle.is_receiving)
        yield lambda: heard.get(timeout=60)
    finally:
        handle.close()


def members_listen(cast: Cast) -> None:
    """Receive new, edited and deleted posts and notifications on the user stream."""
    ann, ben = cast.join("ann"), cast.join("ben")
    ann.account_follow(ben.me().id)
    with _listening(ann.stream_user) as heard:
        post = ben.status_post("A wave")
        kind, status = heard()
        assert (kind, status.id) == ("update", post.id)
        ben.status_update(post.id, "A larger wave")
        kind, status = heard()
        assert (kind, status.content) == ("status.update", "<p>A larger wave</p>")
        mine = ann.status_post("Mine")
        assert heard()[0] == "update"
        ben.status_favourite(mine.id)
        kind, notice = heard()
        assert (kind, notice.type, notice.status.id) == ("notification", "favourite", mine.id)
        ben.status_delete(post.id)
        kind, gone = heard()
        assert (kind, str(gone)) == ("delete", str(post.id))


def everybody_listens(cast: Cast) -> None:
    """Receive events on the public, local, hashtag, list, direct and notification streams."""
    ann, ben = cast.join("ann"), cast.join("ben")
    me, other = ann.me(), ben.me()
    ann.account_follow(other.id)
    made = ann.list_create("Ben")
    ann.list_accounts_add(made.id, [other.id])
    streams: tuple[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]], ...] = (
        (ann.stream_public, (), {}),
        (ann.stream_local, (), {}),
        (ann.stream_hashtag, (f"foam{other.id}",), {}),
        (ann.stream_list, (made.id,), {}),
    )
    for stream, arguments, named in streams:
        with _listening(stream, *arguments, **named) as heard:
            post = ben.status_post(f"White #foam{other.id}")
            assert heard()[1].id == post.id
    with _listening(ann.stream_direct) as heard:
        post = ben.status_post(f"@{me.username} psst", visibility="direct")
        kind, talk = heard()
        assert (kind, talk.last_status.id) == ("conversation", post.id)
    with _listening(ann.stream_user_notifications) as heard:
        ben.account_follow(me.id)
        kind, notice = heard()
        assert (kind, notice.type) in {("notification", "follow"), ("notification", "mention")}


STORIES = (
    members_are_reported_and_dealt_with,
    moderators_look_at_trends_and_figures,
    members_listen,
    everybody_listens,
)
