"""Shoal as a library: open a network, act as its members.

    async with Shoal.open("sqlite:///shoal.db") as shoal:
        ann = await shoal.register("ann")
        bob = await shoal.register("bob")
        await bob.follow(ann)
        post = await ann.create("Low tide at #dawn")
        await bob.like(post)
        print([entry.post.text for entry in await bob.list_public_feed(0, 9)])

Whatever a method takes as a member may be a handle, a `Member`, an id or a user name; as a post, an `Entry`, a `Post`, a
`Share` or an id. Every method may raise the errors of `shoal.core.errors`, whose messages are safe to show.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import msgspec

from shoal import settings as configuration
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.model import Media, Member, Place, Post, Revision, Share, Visibility
from shoal.core.visibility import Relation
from shoal.feeds import home, live, people, thread, user
from shoal.feeds.discover import related, trends
from shoal.feeds.hydrate import Entry, Profile, hydrate, profiles_by_id
from shoal.feeds.live import News
from shoal.feeds.people import Likers, People, Received
from shoal.feeds.pipeline import Page
from shoal.feeds.pull import Cursor
from shoal.feeds.reads import Reads
from shoal.feeds.revisions import revisions
from shoal.feeds.thread import Thread
from shoal.graph.access import access_member, access_post
from shoal.graph.contract import MAX_TIME
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS
from shoal.ops.blocklists import Blocklists
from shoal.services import media, members, moderation, posts, reactions, relationships
from shoal.services.members import Profile as ProfileChanges
from shoal.services.posts import Draft
from shoal.tagcloud.likeness import RelatedTag
from shoal.tagcloud.words import MAX_WORDS, Counted, Shown
from shoal.wiring import Network, open_network

MAX_POSITION = 2_000
"""The farthest position that a list by positions reaches; further on, use cursors."""

AnyPost: TypeAlias = Entry | Post | Share | int
AnyMember: TypeAlias = "Handle | Member | Profile | int | str"


class Shoal:
    """An open network."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.tags = Tags(network.reads)
        self.blocklists = Blocklists(network.writes)

    @staticmethod
    @asynccontextmanager
    async def open(url: str | dict[str, str] = "sqlite:///shoal.db", **settings: Any) -> AsyncIterator[Shoal]:
        """Open (and create, where there is none) the network at a store URL or shard map, until the block ends.

        `settings` are those of `shoal.settings.Settings`, by name. Raises `Unavailable` when another process has it.
        """
        async with open_network(configuration.build(store=url, **settings)) as network:
            yield Shoal(network)

    async def register(self, name: str, password: str | None = None, **profile: Any) -> Handle:
        """A new member: `[a-z0-9_]{1,30}`, in any case. `profile` may give `email`, `display_name` and `note`."""
        return Handle(self.network, await members.register(self.network.writes, name, password=password, **profile))

    async def log_in(self, name_or_email: str, password: str) -> Handle:
        """The member with this password. Raises `Unauthenticated`."""
        return Handle(self.network, await members.log_in(self.network.writes, name_or_email, password))

    async def member(self, who: AnyMember) -> Handle:
        """A handle for a member. Raises `NotFound`."""
        if isinstance(who, Handle):
            return who
        if isinstance(who, str):
            found = await members.find(self.network.writes, who)
            if found is None:
                raise NotFound(f"there is no member {who!r}")
            return Handle(self.network, found)
        return Handle(self.network, await access_member(self.network.store, _member_id(who)))

    async def suspend(self, who: AnyMember) -> None:
        """From now on nobody sees the member or what they posted, and they cannot log in. Raises `NotFound`."""
        await moderation.suspend(self.network.writes, await self._id_of(who))

    async def restore(self, who: AnyMember) -> None:
        """Undo `suspend`."""
        await moderation.restore(self.network.writes, await self._id_of(who))

    async def _id_of(self, who: AnyMember) -> int:
        """Also of one who is suspended."""
        return (await self.member(who)).id if isinstance(who, str) else _member_id(who)

    async def hide(self, post: AnyPost) -> Post:
        """Take a post out of everybody's sight but its author's; its tags do not count any more. Raises `NotFound`."""
        return await moderation.hide(self.network.writes, _post_id(post))

    async def reveal(self, post: AnyPost) -> Post:
        """Undo `hide`."""
        return await moderation.reveal(self.network.writes, _post_id(post))

    async def settle(self, patience: float = 60.0) -> None:
        """Return when everything that follows from what was done so far has happened: fan-out, above all."""
        await self.network.settle(patience)


class Tags:
    """The tag cloud, as everybody may see it."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    async def cloud(self, order: str = "all", limit: int = MAX_WORDS) -> Shown:
        """The first tags (at most 200) by `all` uses, by those of the last `hour`, `day` or `week`, or `rising`."""
        return await self._reads.tags.cloud(order, limit)

    async def tag(self, name: str) -> Counted | None:
        """A tag in numbers; None for one that nobody uses."""
        return await self._reads.tags.tag(name)

    async def related(self, name: str, limit: int = 20) -> list[RelatedTag]:
        """Tags that go with a tag, the most like first; at most 40."""
        return await related.related(self._reads, name, limit)


class Handle:
    """A member to act as. It asks no password: whoever holds the network holds its members."""

    def __init__(self, network: Network, member: Member) -> None:
        self._network = network
        self._writes = network.writes
        self._reads = network.reads
        self.id = member.id
        self.name = member.name

    def __repr__(self) -> str:
        return f"<member {self.name}>"

    # Posts

    async def create(
        self,
        text: str = "",
        *,
        media: Sequence[Media | int] = (),
        visibility: Visibility | str = Visibility.PUBLIC,
        spoiler: str = "",
        sensitive: bool = False,
        language: str = "",
        place: Place | tuple[float, float] | None = None,
        data: Any = None,
        request: str = "",
    ) -> Post:
        """A new post. `data` is any JSON of at most 64 KiB; the same `request` within an hour gives the same post."""
        self._writes.pressure.check()
        draft = Draft(
            text=text,
            media=[_id(picture) for picture in media],
            visibility=_visibility(visibility),
            spoiler=spoiler,
            sensitive=sensitive,
            language=language,
            place=place,
            data=data,
        )
        return await posts.create(self._writes, self.id, draft, request=request)

    async def comment(
        self, post: AnyPost, text: str, *, visibility: Visibility | str | None = None, request: str = ""
    ) -> Post:
        """A comment on a post; as visible as the post unless said otherwise."""
        self._writes.pressure.check()
        parent = await access_post(self._network.store, self.id, _post_id(post))
        shown = parent.visibility if visibility is None else _visibility(visibility)
        draft = Draft(text=text, parent_id=parent.id, visibility=shown)
        return await posts.create(self._writes, self.id, draft, request=request)

    async def read(self, post: AnyPost) -> Entry:
        """A post as this member sees it, with its counts. Raises `NotFound`."""
        found = await hydrate(self._network.store, self.id, (_post_id(post),), unasked=False)
        if not found:
            raise NotFound("Record not found")
        return found[0]

    async def update(self, post: AnyPost, text: str, **changes: Any) -> Post:
        """Give an own post a new text; `changes` are other fields of `services.posts.Draft`. Fields not named stay."""
        node = await access_post(self._network.store, self.id, _post_id(post))
        kept = {
            "media": node.media,
            "spoiler": node.spoiler,
            "sensitive": node.sensitive,
            "language": node.language,
            "place": node.place,
            "data": node.data,
        }
        return await posts.update(self._writes, self.id, node.id, Draft(text=text, **{**kept, **changes}))

    async def delete(self, post: AnyPost) -> Post:
        """Delete an own post; what it was is returned."""
        return await posts.delete(self._writes, self.id, _post_id(post))

    async def history(self, post: AnyPost) -> list[Revision]:
        """What a post said before its edits, oldest first."""
        return await revisions(self._network.store, self.id, _post_id(post))

    async def upload(self, picture: bytes, *, description: str = "") -> Media:
        """Store a picture, for use in posts."""
        return await media.upload(self._writes, self.id, picture, description=description)

    # Reactions

    async def like(self, post: AnyPost) -> None:
        """Like a post."""
        await reactions.like(self._writes, self.id, _post_id(post))

    async def unlike(self, post: AnyPost) -> None:
        """Take a like back."""
        await reactions.unlike(self._writes, self.id, _post_id(post))

    async def share(self, post: AnyPost) -> Share:
        """Show a post to one's followers."""
        self._writes.pressure.check()
        return await reactions.share(self._writes, self.id, _post_id(post))

    async def unshare(self, post: AnyPost) -> None:
        """Take a share back."""
        await reactions.unshare(self._writes, self.id, _post_id(post))

    async def bookmark(self, post: AnyPost) -> None:
        """Keep a post for later."""
        await reactions.bookmark(self._writes, self.id, _post_id(post))

    async def unbookmark(self, post: AnyPost) -> None:
        """Keep it no longer."""
        await reactions.unbookmark(self._writes, self.id, _post_id(post))

    async def likers(self, post: AnyPost, newest: int = 5) -> Likers:
        """How many like a post, and the newest few."""
        return await people.likers(self._reads, self.id, _post_id(post), newest)

    async def received(self) -> Received:
        """Total likes and shares of everything this member posted, in O(1)."""
        return await people.received(self._reads, self.id)

    # People

    async def follow(self, who: AnyMember) -> Relation:
        """See what they post."""
        return await relationships.follow(self._writes, self.id, await self._resolve(who))

    async def unfollow(self, who: AnyMember) -> Relation:
        """See it no longer."""
        return await relationships.unfollow(self._writes, self.id, await self._resolve(who))

    async def follow_tag(self, tag: str) -> str:
        """See public posts under a tag; its canonical form."""
        return await relationships.follow_tag(self._writes, self.id, tag)

    async def unfollow_tag(self, tag: str) -> str:
        """See them no longer."""
        return await relationships.unfollow_tag(self._writes, self.id, tag)

    async def block(self, who: AnyMember) -> Relation:
        """Neither sees the other."""
        return await relationships.block(self._writes, self.id, await self._resolve(who))

    async def unblock(self, who: AnyMember) -> Relation:
        """The block ends."""
        return await relationships.unblock(self._writes, self.id, await self._resolve(who))

    async def mute(self, who: AnyMember) -> Relation:
        """Their posts come no more, and they do not learn of it."""
        return await relationships.mute(self._writes, self.id, await self._resolve(who))

    async def unmute(self, who: AnyMember) -> Relation:
        """The mute ends."""
        return await relationships.unmute(self._writes, self.id, await self._resolve(who))

    async def followers(self, before: int = MAX_TIME, limit: int = people.PAGE) -> People:
        """Who follows this member, newest first; `before` is the `next` of the page before."""
        return await people.page(self._reads, self.id, self.id, FOLLOWED_BY, Cursor(before=before, limit=limit))

    async def following(self, before: int = MAX_TIME, limit: int = people.PAGE) -> People:
        """Whom this member follows, newest first."""
        return await people.page(self._reads, self.id, self.id, FOLLOWS, Cursor(before=before, limit=limit))

    async def profile(self) -> Profile:
        """The member with the numbers of followers, followees and posts."""
        found = await profiles_by_id(self._network.store, self.id, (self.id,))
        if not found:
            raise NotFound("Record not found")
        return found[0]

    async def update_profile(self, **changes: Any) -> Member:
        """Change the profile: the fields of `services.members.Profile`."""
        return await members.update_profile(self._writes, self.id, ProfileChanges(**changes))

    # Feeds

    async def home(self, before: int = MAX_TIME, limit: int = 20) -> Page:
        """A page of the home timeline, newest first; `before` is the `next` of the page before."""
        return await home.page(self._reads, self.id, Cursor(before=before, limit=limit))

    def live(self, after: str | None = None) -> AsyncGenerator[News, None]:
        """What happens in the home timeline, from the first step on or since the `position` of earlier news.

        Ends when the network closes. News are `Arrived` and `Edited`, which have an `entry`, `Removed`, which has an `id`, and
        `Refresh`: something may have been missed, so read `home` again. The same may be told twice. Raises `Unavailable`.
        """
        return live.news(self._reads, self._network.hub, self.id, after)

    async def cloud(self, limit: int = MAX_WORDS) -> Shown:
        """The tag cloud as this member would have it; each word says why it is there."""
        return await trends.for_you(self._reads, self.id, limit)

    async def posts(self, of: AnyMember | None = None, before: int = MAX_TIME, limit: int = 20) -> Page:
        """A page of what one member (oneself, by default) posted and shared, as this member may see it."""
        member = self.id if of is None else await self._resolve(of)
        return await user.page(self._reads, self.id, member, Cursor(before=before, limit=limit))

    async def thread(self, post: AnyPost) -> Thread:
        """What a post answers, and what answers it."""
        return await thread.thread(self._reads, self.id, _post_id(post), above=4_096, below=4_096)

    async def replies(self, post: AnyPost, before: int = MAX_TIME, limit: int = 20) -> Page:
        """A page of the comments on a post itself, newest first."""
        return await thread.replies(self._reads, self.id, _post_id(post), Cursor(before=before, limit=limit))

    async def list_recent(self, a: int = 0, b: int = 19) -> list[Entry]:
        """What this member posted, positions `a` to `b` (both included, 0 is the newest, at most 2,000)."""
        first, last = _positions(a, b)
        return await _between(lambda cursor: user.page(self._reads, self.id, self.id, cursor), first, last)

    async def list_public_feed(self, a: int = 0, b: int = 19) -> list[Entry]:
        """The home timeline, positions `a` to `b` (both included, 0 is the newest, at most 2,000)."""
        first, last = _positions(a, b)
        return await _between(lambda cursor: home.page(self._reads, self.id, cursor), first, last)

    async def _resolve(self, who: AnyMember) -> int:
        if isinstance(who, str):
            found = await members.find(self._writes, who)
            if found is None:
                raise NotFound(f"there is no member {who!r}")
            return found.id
        return who.id if isinstance(who, Handle) else _member_id(who)


async def _between(read: Callable[[Cursor], Awaitable[Page]], first: int, last: int) -> list[Entry]:
    """Positions are counted from the newest: everything before the first is read too."""
    found: list[Entry] = []
    before: int | None = MAX_TIME
    while before is not None and len(found) <= last:
        page = await read(Cursor(before=before, limit=min(200, last + 1 - len(found))))
        found += page.entries
        before = page.next
    return found[first : last + 1]


def _positions(a: int, b: int) -> tuple[int, int]:
    if not 0 <= a <= b < MAX_POSITION:
        raise InvalidInput(f"positions: 0 <= a <= b < {MAX_POSITION}, not {a} and {b}")
    return a, b


def _member_id(who: Handle | Member | Profile | int) -> int:
    if isinstance(who, Profile):
        return who.member.id
    return who if isinstance(who, int) else who.id


def _post_id(post: AnyPost) -> int:
    return post.post.id if isinstance(post, Entry) else _id(post)


def _id(thing: Post | Share | Media | int) -> int:
    return thing if isinstance(thing, int) else thing.id


def _visibility(value: Visibility | str) -> Visibility:
    try:
        return Visibility(value)
    except ValueError:
        allowed = ", ".join(Visibility)
        raise InvalidInput(f"visibility: one of {allowed}, not {value!r}", field="visibility") from None


def _decoded(data: str) -> Any:
    return msgspec.json.decode(data) if data else None
