"""All asynchronous behaviour on one screen: event -> consequences, in the order in which they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoal.core.events import (
    Blocked,
    FollowChanged,
    InverseOwed,
    LikeChanged,
    ListChanged,
    MemberRegistered,
    PollEnded,
    PollRemoved,
    PostCreated,
    PostDeleted,
    PostUpdated,
    ProfileChanged,
    ReportFiled,
    RequestChanged,
    SessionsEnded,
    ShareCreated,
    ShareDeleted,
    SuspensionChanged,
    TagsUsed,
)
from shoal.fanout import (
    addresses,
    cleanup,
    conversations,
    forgetting,
    home,
    inverses,
    lists,
    notifications,
    sessions,
    severance,
    staff,
    streams,
    tags,
)
from shoal.fanout.effects import Effects
from shoal.outbox import Consequence

TABLE: Mapping[type, Sequence[Consequence[Effects]]] = {
    PostCreated: (
        inverses.settle_tags,
        streams.tell_post,
        notifications.tell_mentioned,
        conversations.go_on,
        home.push_post,
        notifications.tell_watchers,
    ),
    PostUpdated: (
        inverses.settle_added_tags,
        streams.tell_edit,
        notifications.tell_newly_mentioned,
        conversations.draw_in,
        home.push_edit,
        notifications.tell_sharers,
    ),
    PostDeleted: (
        streams.tell_deletion,
        home.remove_post,
        forgetting.forget_mentions,
        forgetting.forget_likes,
        forgetting.forget_shares,
        cleanup.clear_shares,
        cleanup.clear_likes,
        cleanup.clear_bookmarks,
        cleanup.clear_revisions,
        cleanup.clear_tags,
    ),
    PollRemoved: (cleanup.clear_votes,),
    ShareCreated: (streams.tell_share, notifications.tell_of_share, home.push_share),
    ShareDeleted: (streams.tell_unshare, home.remove_share),
    FollowChanged: (
        inverses.settle_follow,
        severance.end_blocked_follow,
        streams.tell_follow,
        home.reconcile_follow,
        severance.end_bonds,
        lists.trim_all,
        notifications.tell_of_follow,
    ),
    LikeChanged: (notifications.tell_of_like,),
    RequestChanged: (inverses.settle_request, severance.end_vain_request, notifications.tell_of_request),
    ListChanged: (lists.trim,),
    PollEnded: (notifications.tell_voters,),
    ReportFiled: (staff.tell_of_report,),
    MemberRegistered: (addresses.keep, staff.tell_of_member),
    ProfileChanged: (staff.tell_of_member,),
    SessionsEnded: (sessions.clear_tokens, sessions.clear_grants),
    Blocked: (severance.end_follows,),
    TagsUsed: (tags.count,),
    SuspensionChanged: (tags.follow_author,),
    InverseOwed: (inverses.settle_inverse,),
}
