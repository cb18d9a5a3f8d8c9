"""Event -> consumers, in the order in which they run: all asynchronous behavior in one place."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NoReturn

from shoal.consumers import (
    cleanup,
    conversations,
    home,
    indexing,
    mail,
    media,
    members,
    notifications,
    push,
    relationships,
    reports,
    streaming,
)
from shoal.consumers.context import Effects
from shoal.core.errors import NewerNeeded
from shoal.core.events import (
    AlbumDeleted,
    Blocked,
    EmailChanged,
    FilesReleased,
    FiltersChanged,
    FollowChanged,
    FutureEvent,
    InverseOwed,
    LikeChanged,
    ListChanged,
    LoudnessLost,
    MailDue,
    MediaDescribed,
    MediaUploaded,
    MemberRegistered,
    MemberRemoved,
    PollEnded,
    PollRemoved,
    PostCreated,
    PostDeleted,
    PostHidden,
    PostImported,
    PostNarrowed,
    PostUpdated,
    ProfileChanged,
    PublishRefused,
    PushDue,
    ReactionChanged,
    ReportFiled,
    RequestChanged,
    SessionsEnded,
    ShareCreated,
    ShareDeleted,
    SuspensionChanged,
    TagsUsed,
    VerdictChanged,
)
from shoal.outbox.runner import Consequence

_log = logging.getLogger(__name__)


async def leave_to_newer(_effects: Effects, _event: FutureEvent, _mark: int) -> NoReturn:
    """Return an event unknown to this version to the queue, however often. It does not count as an attempt."""
    _say()
    raise NewerNeeded("only a newer Shoal knows this event")


@cache
def _say() -> None:
    _log.warning("events of a kind that this version does not know wait for a process of a newer one")


TABLE: Mapping[type, Sequence[Consequence[Effects]]] = {
    FutureEvent: (leave_to_newer,),
    PostCreated: (
        relationships.settle_tags,
        streaming.tell_post,
        notifications.tell_mentioned,
        conversations.go_on,
        home.push_post,
        notifications.tell_watchers,
        indexing.look_at_post,
        indexing.count_comment,
    ),
    # Imported posts enter timelines at their date and are indexed; they send no notifications and make no post active.
    PostImported: (relationships.settle_tags, home.push_post, indexing.look_at_post),
    PostUpdated: (
        relationships.settle_added_tags,
        streaming.tell_edit,
        notifications.tell_newly_mentioned,
        conversations.draw_in,
        home.push_edit,
        notifications.tell_sharers,
        indexing.look_at_post,
    ),
    PostNarrowed: (
        # Home timelines keep the entry, like that of a post that lost a tag: readers filter it.
        streaming.tell_narrowing,
        conversations.go_on,
        cleanup.end_shares_of_narrowed,
        indexing.look_at_post,
    ),
    PostDeleted: (
        streaming.tell_deletion,
        home.remove_post,
        notifications.forget_mentions,
        notifications.forget_likes,
        notifications.forget_shares,
        notifications.forget_reactions,
        cleanup.clear_shares,
        cleanup.clear_likes,
        cleanup.clear_bookmarks,
        cleanup.clear_reactions,
        cleanup.clear_reporters,
        cleanup.clear_emoji_places,
        cleanup.drop_photos,
        cleanup.release_media,
        cleanup.clear_revisions,
        cleanup.clear_tags,
        indexing.look_at_post,
    ),
    PollRemoved: (cleanup.clear_votes,),
    PostHidden: (streaming.tell_hiding,),
    ShareCreated: (
        streaming.tell_share,
        notifications.tell_of_share,
        home.push_share,
        indexing.count_share,
        cleanup.end_late_share,
    ),
    ShareDeleted: (streaming.tell_unshare, home.remove_share),
    FollowChanged: (
        relationships.settle_follow,
        relationships.end_blocked_follow,
        streaming.tell_follow,
        home.reconcile_follow,
        home.begin_demotion,
        relationships.end_bonds,
        relationships.trim_lists,
        notifications.tell_of_follow,
    ),
    LoudnessLost: (home.merge_demoted,),
    LikeChanged: (notifications.tell_of_like, indexing.count_reaction),
    ReactionChanged: (streaming.tell_reaction, notifications.tell_of_reaction, indexing.count_reaction),
    RequestChanged: (relationships.settle_request, relationships.end_vain_request, notifications.tell_of_request),
    AlbumDeleted: (cleanup.empty_album,),
    ListChanged: (relationships.trim_list, streaming.tell_list),
    PollEnded: (notifications.tell_voters,),
    ReportFiled: (reports.review_reported, notifications.tell_of_report),
    PublishRefused: (notifications.tell_of_refusal,),
    VerdictChanged: (reports.review_closed, reports.tell_reporter),
    MemberRegistered: (members.claim_address, notifications.tell_of_member),
    MemberRemoved: (members.free_address_of_deleted, home.drop_timeline, indexing.look_at_member),
    EmailChanged: (members.claim_address, members.free_former_address),
    MailDue: (mail.send,),
    PushDue: (push.send,),
    ProfileChanged: (notifications.tell_of_member, indexing.look_at_member),
    SessionsEnded: (streaming.end_sessions, members.clear_tokens, members.clear_grants),
    Blocked: (relationships.end_follows,),
    TagsUsed: (indexing.count_and_look,),
    SuspensionChanged: (
        streaming.end_listening,
        indexing.hide_or_reveal_posts,
        indexing.look_at_member,
        members.end_invitations_of_suspended,
    ),
    FiltersChanged: (streaming.tell_filters,),
    MediaUploaded: (media.convert,),
    MediaDescribed: (indexing.look_at_posts_with,),
    FilesReleased: (media.remove_files,),
    InverseOwed: (relationships.settle_inverse,),
}
