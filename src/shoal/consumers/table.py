"""The consumers of each event, in the order in which they run. All asynchronous behavior is listed here."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NoReturn

from shoal.consumers import (
    bulk_moderation,
    cleanup,
    conversations,
    home,
    indexing,
    kinds,
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
from shoal.core import events
from shoal.core.errors import NewerNeeded
from shoal.outbox.runner import Consequence

_log = logging.getLogger(__name__)


async def leave_to_newer(_effects: Effects, _event: events.FutureEvent, _mark: int) -> NoReturn:
    """Put an event that this version does not know back into the outbox.

    This does not count as a failed attempt, and may happen any number of times until a newer version processes the event.
    """
    _warn_once()
    raise NewerNeeded("this event requires a newer Shoal")


@cache
def _warn_once() -> None:
    _log.warning("events of a newer Shoal stay pending until a process of that version handles them")


TABLE: Mapping[type, Sequence[Consequence[Effects]]] = {
    events.FutureEvent: (leave_to_newer,),
    events.PostCreated: (
        relationships.settle_tags,
        streaming.tell_post,
        notifications.tell_mentioned,
        conversations.go_on,
        home.push_post,
        notifications.tell_watchers,
        indexing.look_at_post,
        indexing.count_comment,
    ),
    # An imported post appears in timelines at its own date and is found by search. It causes no notifications, and an imported
    # comment does not count as a recent reaction to its parent.
    events.PostImported: (relationships.settle_tags, home.push_post, indexing.look_at_post),
    events.PostUpdated: (
        relationships.settle_added_tags,
        streaming.tell_edit,
        notifications.tell_newly_mentioned,
        conversations.draw_in,
        home.push_edit,
        notifications.tell_sharers,
        indexing.look_at_post,
    ),
    events.PostEditImported: (relationships.settle_added_tags, home.push_edit, indexing.look_at_post),
    events.PostNarrowed: (
        # Home timelines keep the id of a post whose audience became smaller. Readers filter it out, as they do after a tag was
        # removed from a post.
        streaming.tell_narrowing,
        conversations.go_on,
        cleanup.end_shares_of_narrowed,
        indexing.look_at_post,
    ),
    events.PostDeleted: (
        streaming.tell_deletion,
        home.remove_post,
        notifications.forget_mentions,
        notifications.forget_likes,
        notifications.forget_shares,
        notifications.forget_reactions,
        cleanup.clear_shares,
        cleanup.clear_likes,
        *cleanup.clear_marks,
        cleanup.clear_reactions,
        cleanup.clear_reporters,
        cleanup.clear_emoji_positions,
        cleanup.drop_photos,
        cleanup.release_media,
        cleanup.clear_revisions,
        cleanup.clear_tags,
        indexing.look_at_post,
        bulk_moderation.clear_marks,
    ),
    events.PollRemoved: (cleanup.clear_votes,),
    events.PostHidden: (streaming.tell_hiding,),
    events.BulkActionDue: (bulk_moderation.carry_out,),
    events.ShareCreated: (
        streaming.tell_share,
        notifications.tell_of_share,
        home.push_share,
        indexing.count_share,
        cleanup.end_late_share,
    ),
    events.ShareImported: (home.push_share, cleanup.end_late_share),
    events.ShareDeleted: (streaming.tell_unshare, home.remove_share),
    events.FollowChanged: (
        relationships.settle_follow,
        relationships.end_blocked_follow,
        streaming.tell_follow,
        home.reconcile_follow,
        home.begin_demotion,
        relationships.end_bonds,
        relationships.trim_lists,
        notifications.tell_of_follow,
    ),
    events.FollowersLost: (home.merge_demoted,),
    events.LikeChanged: (notifications.tell_of_like, indexing.count_reaction),
    events.ReactionChanged: (streaming.tell_reaction, notifications.tell_of_reaction, indexing.count_reaction),
    events.RequestChanged: (
        relationships.settle_request,
        relationships.delete_obsolete_request,
        notifications.tell_of_request,
    ),
    events.AlbumDeleted: (cleanup.empty_album,),
    events.ListChanged: (relationships.trim_list, streaming.tell_list),
    events.NamedFeedChanged: (streaming.tell_feed,),
    events.PollEnded: (notifications.tell_voters,),
    events.ReportFiled: (reports.review_reported, notifications.tell_of_report),
    events.PublishRefused: (notifications.tell_of_refusal,),
    events.ContentHeld: (notifications.tell_of_held,),
    events.HeldDecided: (notifications.tell_of_decision,),
    events.ReportOutcomeChanged: (reports.review_closed, reports.tell_reporter),
    events.MemberRegistered: (members.claim_address, notifications.tell_of_member),
    events.MemberRemoved: (members.free_address_of_deleted, home.drop_timeline, indexing.look_at_member),
    events.EmailChanged: (members.claim_address, members.free_former_address),
    events.MailDue: (mail.send,),
    events.PushDue: (push.send,),
    events.ProfileChanged: (notifications.tell_of_member, indexing.look_at_member),
    events.SessionsEnded: (streaming.end_sessions, members.clear_tokens, members.clear_authorization_codes),
    events.Blocked: (relationships.end_follows,),
    events.KindPostChanged: (kinds.look_at_post,),
    events.KindChanged: (kinds.index_all,),
    events.TagsUsed: (indexing.count_and_look,),
    events.ImportedTagsUsed: (indexing.count_and_look_at_imported,),
    events.SuspensionChanged: (
        streaming.end_listening,
        indexing.hide_or_reveal_posts,
        indexing.look_at_member,
        members.end_invitations_of_suspended,
    ),
    events.FiltersChanged: (streaming.tell_filters,),
    events.MediaUploaded: (media.convert,),
    events.MediaDescribed: (indexing.look_at_posts_with,),
    events.FilesReleased: (media.remove_files,),
    events.InversePending: (relationships.settle_inverse,),
}
