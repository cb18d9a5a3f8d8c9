"""Profiles: what stands on them, and how a member changes their own."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.commands import members, tags
from shoal.commands.members import ProfileChange as ProfileChanges
from shoal.core.errors import NotFound
from shoal.core.model import Member, QuotePolicy, Visibility
from shoal.core.places import PlacePrecision
from shoal.graph.access import access_member
from shoal.library.acting import Acting, AnyMember, Seeing
from shoal.library.arguments import PrecisionName, VisibilityName, one_of
from shoal.queries import members as member_queries
from shoal.queries import tags as tag_queries
from shoal.queries.hydration import Entry, Profile, profiles_by_id
from shoal.queries.members import Received
from shoal.queries.posts import pinned
from shoal.queries.tags import Featured


class SeesProfiles(Seeing):
    """Profiles as a viewer sees them."""

    async def profile_of(self, who: AnyMember) -> Profile:
        """A member with the numbers of followers, followees and posts. Raises `NotFound`, and `Gone` for a suspended one."""
        member = await access_member(self._reads.graph, await self._resolve(who))
        found = await self.profiles_of(member)
        if not found:
            raise NotFound("Record not found")
        return found[0]

    async def profiles_of(self, *several: AnyMember) -> list[Profile]:
        """Profiles in the order given, without members who are gone. Raises `NotFound` for a name that nobody has."""
        ids = [await self._resolve(who) for who in several]
        return await profiles_by_id(self._reads.graph, self._viewer, ids)

    async def received_by(self, who: AnyMember) -> Received:
        """Total likes and shares of a member's posts that the viewer may find. Raises `NotFound`, `Gone`."""
        member = await access_member(self._reads.graph, await self._resolve(who))
        return await member_queries.received(self._reads, self._viewer, member.id)

    async def pinned_by(self, who: AnyMember) -> list[Entry]:
        """The posts that stand first on a profile. Raises `NotFound`, `Gone`."""
        member = await access_member(self._reads.graph, await self._resolve(who))
        return await pinned(self._reads, self._viewer, member.id)

    async def featured_by(self, who: AnyMember) -> list[Featured]:
        """The tags on a profile, with how much was posted under each. Raises `NotFound`, `Gone`."""
        member = await access_member(self._reads.graph, await self._resolve(who))
        return await tag_queries.featured(self._reads.graph, member.id)


class HasProfile(SeesProfiles, Acting):
    """A member's own profile."""

    async def profile(self) -> Profile:
        """The own profile. Raises `NotFound`, and `Gone` for a suspended member."""
        return await self.profile_of(self.id)

    async def received(self) -> Received:
        """Total likes and shares of everything this member posted, in O(1). Raises `Gone` for a suspended member."""
        return await self.received_by(self.id)

    async def update_profile(
        self,
        *,
        display_name: str | None = None,
        note: str | None = None,
        fields: Sequence[tuple[str, str]] | None = None,
        bot: bool | None = None,
        discoverable: bool | None = None,
        locked: bool | None = None,
        hides_connections: bool | None = None,
        indexable: bool | None = None,
        folds_shares: bool | None = None,
        rankable: bool | None = None,
        findable_by_email: bool | None = None,
        default_visibility: Visibility | VisibilityName | None = None,
        default_sensitive: bool | None = None,
        default_language: str | None = None,
        attribution_domains: Sequence[str] | None = None,
        quote_policy: QuotePolicy | None = None,
        place_precision: PlacePrecision | PrecisionName | None = None,
        avatar: bytes | None = None,
        header: bytes | None = None,
    ) -> Member:
        """Change the given fields of the own profile; None stays. Raises `InvalidInput` (`TooLarge`, `Unsupported`, `Unfit`).

        `place_precision` says how exactly the places of posts are stored from then on: "exact", or rounded to "100m",
        "1km" (the default) or "10km"; "none" leaves places out. Posts that are there stay as they are. With `findable_by_email`
        those who know the member's e-mail address find them by it (`find_contacts`).
        """
        shown = None if default_visibility is None else one_of(Visibility, default_visibility, "default_visibility")
        exactly = None if place_precision is None else one_of(PlacePrecision, place_precision, "place_precision")
        changes = ProfileChanges(
            display_name=display_name,
            note=note,
            fields=fields,
            bot=bot,
            discoverable=discoverable,
            locked=locked,
            hides_connections=hides_connections,
            indexable=indexable,
            folds_shares=folds_shares,
            rankable=rankable,
            findable_by_email=findable_by_email,
            default_visibility=shown,
            default_sensitive=default_sensitive,
            default_language=default_language,
            attribution_domains=attribution_domains,
            quote_policy=quote_policy,
            place_precision=exactly,
            avatar=avatar,
            header=header,
        )
        return await members.update_profile(self._writes, self.id, changes)

    async def remove_avatar(self) -> Member:
        """Take the picture of the profile away. Raises `Gone` for a suspended member."""
        return await members.remove_picture(self._writes, self.id, "avatar")

    async def remove_header(self) -> Member:
        """Take the picture at the head of the profile away. Raises `Gone` for a suspended member."""
        return await members.remove_picture(self._writes, self.id, "header")

    async def feature(self, tag: str) -> Featured:
        """Show a tag on the own profile. Raises `InvalidInput` for text that is no tag, and for one too many."""
        held = await tags.feature(self._writes, self.id, tag)
        return (await tag_queries.counted(self._reads.graph, self.id, (held,)))[0]

    async def unfeature(self, tag: str) -> None:
        """Show the tag there no longer. Raises `InvalidInput` for text that is no tag."""
        await tags.unfeature(self._writes, self.id, tag)

    async def featurable(self) -> list[str]:
        """The tags that this member used most of late and does not show. Raises `Unavailable`."""
        return await tag_queries.suggested(self._reads, self.id)
