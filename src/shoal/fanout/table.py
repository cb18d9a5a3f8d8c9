"""All asynchronous behaviour on one screen: event -> consequences, in the order in which they run."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NoReturn

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
from shoal.fanout import (
    addresses,
    albums,
    clips,
    conversations,
    fading,
    files,
    home,
    indexes,
    inverses,
    invitations,
    lists,
    mails,
    notifications,
    pushes,
    reviews,
    sessions,
    staff,
    streams,
    tags,
    trending,
    verdicts,
)
from shoal.fanout.cleanups import block_cleanup, cleanup, notification_retraction, vain_shares
from shoal.fanout.effects import Effects
from shoal.outbox.runner import Consequence

_log = logging.getLogger(__name__)


async def leave_to_newer(_effects: Effects, _event: FutureEvent, _mark: int) -> NoReturn:
    """Put an event back that this version does not know, however often it is met. It costs no attempt."""
    _say()
    raise NewerNeeded("only a newer Shoal knows this event")


@cache
def _say() -> None:
    _log.warning("events of a kind that this version does not know wait for a process of a newer one")


TABLE: Mapping[type, Sequence[Consequence[Effects]]] = {
    FutureEvent: (leave_to_newer,),
    PostCreated: (
        inverses.settle_tags,
        streams.tell_post,
        notifications.tell_mentioned,
        conversations.go_on,
        home.push_post,
        notifications.tell_watchers,
        indexes.look_at_post,
        trending.count_comment,
    ),
    # It enters timelines where its date puts it, and is found; nobody is told, and what it answers is no more active for it.
    PostImported: (inverses.settle_tags, home.push_post, indexes.look_at_post),
    PostUpdated: (
        inverses.settle_added_tags,
        streams.tell_edit,
        notifications.tell_newly_mentioned,
        conversations.draw_in,
        home.push_edit,
        notifications.tell_sharers,
        indexes.look_at_post,
    ),
    PostNarrowed: (
        # Home timelines keep it, as they keep a post that lost a tag: readers leave it out, and whom it is still for have it.
        streams.tell_narrowing,
        conversations.go_on,
        vain_shares.end_of_narrowed,
        indexes.look_at_post,
    ),
    PostDeleted: (
        streams.tell_deletion,
        home.remove_post,
        notification_retraction.forget_mentions,
        notification_retraction.forget_likes,
        notification_retraction.forget_shares,
        notification_retraction.forget_reactions,
        cleanup.clear_shares,
        cleanup.clear_likes,
        cleanup.clear_bookmarks,
        cleanup.clear_reactions,
        cleanup.clear_reporters,
        cleanup.clear_emoji_places,
        albums.drop_photos,
        cleanup.release_media,
        cleanup.clear_revisions,
        cleanup.clear_tags,
        indexes.look_at_post,
    ),
    PollRemoved: (cleanup.clear_votes,),
    PostHidden: (streams.tell_hiding,),
    ShareCreated: (
        streams.tell_share,
        notifications.tell_of_share,
        home.push_share,
        trending.count_share,
        vain_shares.end_of_late,
    ),
    ShareDeleted: (streams.tell_unshare, home.remove_share),
    FollowChanged: (
        inverses.settle_follow,
        block_cleanup.end_blocked_follow,
        streams.tell_follow,
        home.reconcile_follow,
        fading.begin,
        block_cleanup.end_bonds,
        lists.trim_all,
        notifications.tell_of_follow,
    ),
    LoudnessLost: (fading.merge,),
    LikeChanged: (notifications.tell_of_like, trending.count_reaction),
    ReactionChanged: (streams.tell_reaction, notifications.tell_of_reaction, trending.count_reaction),
    RequestChanged: (inverses.settle_request, block_cleanup.end_vain_request, notifications.tell_of_request),
    AlbumDeleted: (albums.empty,),
    ListChanged: (lists.trim, streams.tell_list),
    PollEnded: (notifications.tell_voters,),
    ReportFiled: (reviews.review_reported, staff.tell_of_report),
    PublishRefused: (notifications.tell_of_refusal,),
    VerdictChanged: (reviews.review_closed, verdicts.tell_reporter),
    MemberRegistered: (addresses.keep, staff.tell_of_member),
    MemberRemoved: (addresses.free, home.drop_timeline, indexes.look_at_member),
    EmailChanged: (addresses.keep, addresses.free_former),
    MailDue: (mails.send,),
    PushDue: (pushes.send,),
    ProfileChanged: (staff.tell_of_member, indexes.look_at_member),
    SessionsEnded: (streams.end_sessions, sessions.clear_tokens, sessions.clear_grants),
    Blocked: (block_cleanup.end_follows,),
    TagsUsed: (indexes.count_and_look,),
    SuspensionChanged: (
        streams.end_listening,
        tags.follow_author,
        indexes.look_at_member,
        invitations.end_of_suspended,
    ),
    FiltersChanged: (streams.tell_filters,),
    MediaUploaded: (clips.make,),
    MediaDescribed: (indexes.look_at_posts_with,),
    FilesReleased: (files.remove,),
    InverseOwed: (inverses.settle_inverse,),
}
