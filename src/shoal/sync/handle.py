"""A handle: a member to act as, and somebody who is not logged in.

Made from `shoal.library.handle` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from shoal.library import handle as awaited
from shoal.sync.albums import OwnAlbums, SeesAlbums
from shoal.sync.contacts import FindsContacts
from shoal.sync.conversations import OwnConversations
from shoal.sync.feeds import HasFeeds, SeesFeeds
from shoal.sync.filters import OwnFilters
from shoal.sync.invitations import Invites
from shoal.sync.lists import OwnLists
from shoal.sync.live import Listens
from shoal.sync.loop_thread import LoopThread
from shoal.sync.media import Uploads
from shoal.sync.moderation import Complains, Moderation
from shoal.sync.notifications import OwnNotifications
from shoal.sync.people import Relates, SeesPeople
from shoal.sync.posts import SeesPosts, WritesPosts
from shoal.sync.profiles import HasProfile, SeesProfiles
from shoal.sync.ranking import ReadsForYou
from shoal.sync.reactions import Reacts, SeesReactions
from shoal.sync.scheduled import OwnScheduled
from shoal.sync.search import MemberSearches, Searches
from shoal.sync.sessions import LogsIn
from shoal.sync.tags import FollowsTags


class Visitor(SeesPosts, SeesReactions, SeesPeople, SeesProfiles, SeesAlbums, SeesFeeds, Searches):
    """Somebody who is not logged in, and sees what everybody sees."""

    _awaited: awaited.Visitor


class Handle(
    WritesPosts,
    SeesPosts,
    Reacts,
    Uploads,
    Relates,
    SeesPeople,
    HasProfile,
    SeesAlbums,
    HasFeeds,
    ReadsForYou,
    FollowsTags,
    MemberSearches,
    FindsContacts,
    Complains,
    Listens,
    LogsIn,
    Invites,
):
    """A member to act as. It asks for no password: a caller who holds the network holds its members."""

    _awaited: awaited.Handle

    def __init__(self, loop: LoopThread, of: awaited.Handle) -> None:
        super().__init__(loop, of)
        self.albums = OwnAlbums(loop, of.albums)
        self.lists = OwnLists(loop, of.lists)
        self.filters = OwnFilters(loop, of.filters)
        self.notifications = OwnNotifications(loop, of.notifications)
        self.conversations = OwnConversations(loop, of.conversations)
        self.scheduled = OwnScheduled(loop, of.scheduled)
        self.moderation = Moderation(loop, of.moderation)
