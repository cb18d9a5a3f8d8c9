"""A handle: a member to act as, and somebody who is not logged in."""

from __future__ import annotations

from shoal.core.audit import Actor
from shoal.core.model import Member
from shoal.library.albums import OwnAlbums, SeesAlbums
from shoal.library.contacts import FindsContacts
from shoal.library.conversations import OwnConversations
from shoal.library.feeds import HasFeeds, SeesFeeds
from shoal.library.filters import OwnFilters
from shoal.library.invitations import Invites
from shoal.library.lists import OwnLists
from shoal.library.live import Listens
from shoal.library.media import Uploads
from shoal.library.moderation import Complains, Moderation
from shoal.library.notifications import OwnNotifications
from shoal.library.people import Relates, SeesPeople
from shoal.library.posts import SeesPosts, WritesPosts
from shoal.library.profiles import HasProfile, SeesProfiles
from shoal.library.ranking import ReadsForYou
from shoal.library.reactions import Reacts, SeesReactions
from shoal.library.scheduled import OwnScheduled
from shoal.library.search import MemberSearches, Searches
from shoal.library.sessions import LogsIn
from shoal.library.tags import FollowsTags
from shoal.wiring import Network


class Visitor(SeesPosts, SeesReactions, SeesPeople, SeesProfiles, SeesAlbums, SeesFeeds, Searches):
    """Somebody who is not logged in, and sees what everybody sees."""

    def __init__(self, network: Network) -> None:
        super().__init__(network, None)


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

    def __init__(self, network: Network, member: Member) -> None:
        super().__init__(network, member.id, member.name)
        self.albums = OwnAlbums(network, member.id)
        self.lists = OwnLists(network, member.id)
        self.filters = OwnFilters(network, member.id)
        self.notifications = OwnNotifications(network, member.id)
        self.conversations = OwnConversations(network, member.id)
        self.scheduled = OwnScheduled(network, member.id)
        self.moderation = Moderation(network, Actor(member.id, member.name))
