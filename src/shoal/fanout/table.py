"""All asynchronous behaviour on one screen: event -> consequences, in the order in which they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoal.core.events import (
    Blocked,
    FollowChanged,
    InverseOwed,
    ListChanged,
    MemberRegistered,
    PollRemoved,
    PostCreated,
    PostDeleted,
    PostUpdated,
    RequestChanged,
    ShareCreated,
    ShareDeleted,
    SuspensionChanged,
    TagsUsed,
)
from shoal.fanout import addresses, cleanup, home, inverses, lists, severance, streams, tags
from shoal.fanout.effects import Effects
from shoal.outbox import Consequence

TABLE: Mapping[type, Sequence[Consequence[Effects]]] = {
    PostCreated: (inverses.settle_tags, streams.tell_post, home.push_post),
    PostUpdated: (inverses.settle_added_tags, streams.tell_edit, home.push_edit),
    PostDeleted: (
        streams.tell_deletion,
        home.remove_post,
        cleanup.clear_shares,
        cleanup.clear_likes,
        cleanup.clear_bookmarks,
        cleanup.clear_revisions,
        cleanup.clear_tags,
    ),
    PollRemoved: (cleanup.clear_votes,),
    ShareCreated: (streams.tell_share, home.push_share),
    ShareDeleted: (streams.tell_unshare, home.remove_share),
    FollowChanged: (
        inverses.settle_follow,
        severance.end_blocked_follow,
        streams.tell_follow,
        home.reconcile_follow,
        severance.end_bonds,
        lists.trim_all,
    ),
    RequestChanged: (inverses.settle_request, severance.end_vain_request),
    ListChanged: (lists.trim,),
    MemberRegistered: (addresses.keep,),
    Blocked: (severance.end_follows,),
    TagsUsed: (tags.count,),
    SuspensionChanged: (tags.follow_author,),
    InverseOwed: (inverses.settle_inverse,),
}
