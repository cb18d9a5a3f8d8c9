"""Views of a network: a member to act as, and an anonymous visitor."""

from __future__ import annotations

from shoal.app.network import Network
from shoal.core.audit import Actor
from shoal.core.model import Member
from shoal.library.feeds import HasFeeds, Listens, ReadsForYou, SeesFeeds
from shoal.library.filters import OwnFilters
from shoal.library.follows import Relates, SeesPeople
from shoal.library.lists import OwnLists
from shoal.library.media import OwnAlbums, SeesAlbums, Uploads
from shoal.library.members import FindsContacts, HasProfile, Invites, LogsIn, SeesProfiles
from shoal.library.moderation import Complains, Moderation, OwnHeld
from shoal.library.named_feeds import OwnFeeds, SeesNamedFeeds
from shoal.library.notifications import OwnConversations, OwnNotifications
from shoal.library.posts import OwnScheduled, Reacts, SeesPosts, SeesReactions, WritesPosts
from shoal.library.search import FollowsTags, MemberSearches, Searches


class Visitor(SeesPosts, SeesReactions, SeesPeople, SeesProfiles, SeesAlbums, SeesFeeds, SeesNamedFeeds, Searches):
    """A view for an anonymous visitor."""

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
    SeesNamedFeeds,
    ReadsForYou,
    FollowsTags,
    MemberSearches,
    FindsContacts,
    Complains,
    Listens,
    LogsIn,
    Invites,
):
    """A member to act as, without a password: a caller with access to the network may act as any member."""

    def __init__(self, network: Network, member: Member) -> None:
        super().__init__(network, member.id, member.name)
        self.albums = OwnAlbums(network, member.id)
        self.lists = OwnLists(network, member.id)
        self.feeds = OwnFeeds(network, member.id)
        self.filters = OwnFilters(network, member.id)
        self.notifications = OwnNotifications(network, member.id)
        self.conversations = OwnConversations(network, member.id)
        self.scheduled = OwnScheduled(network, member.id)
        self.held = OwnHeld(network, member.id)
        self.moderation = Moderation(network, Actor(member.id, member.name))
