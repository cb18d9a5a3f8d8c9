"""Profiles: what stands on them, and how a member changes their own.

Made from `shoal.library.members` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.model import Member, QuotePolicy, Visibility
from shoal.core.places import PlacePrecision
from shoal.library import members as awaited
from shoal.library.acting import AnyMember, PrecisionName, VisibilityName
from shoal.queries.hydration import Entry, Profile
from shoal.queries.members import Received
from shoal.queries.tags import Featured
from shoal.sync.calling import Acting, Calling


class SeesProfiles(Calling):
    """Profiles as a viewer sees them."""

    _awaited: awaited.SeesProfiles

    def profile_of(self, who: AnyMember) -> Profile:
        """A member with the numbers of followers, followees and posts. Raises `NotFound`, and `Gone` for a suspended one."""
        return self._loop.call(self._awaited.profile_of(who))

    def profiles_of(self, *several: AnyMember) -> list[Profile]:
        """Profiles in the order given, without members who are gone. Raises `NotFound` for a name that nobody has."""
        return self._loop.call(self._awaited.profiles_of(*several))

    def received_by(self, who: AnyMember) -> Received:
        """Total likes and shares of a member's posts that the viewer may find. Raises `NotFound`, `Gone`."""
        return self._loop.call(self._awaited.received_by(who))

    def pinned_by(self, who: AnyMember) -> list[Entry]:
        """The posts that stand first on a profile. Raises `NotFound`, `Gone`."""
        return self._loop.call(self._awaited.pinned_by(who))

    def featured_by(self, who: AnyMember) -> list[Featured]:
        """The tags on a profile, with how much was posted under each. Raises `NotFound`, `Gone`."""
        return self._loop.call(self._awaited.featured_by(who))


class HasProfile(SeesProfiles, Acting):
    """A member's own profile."""

    _awaited: awaited.HasProfile

    def profile(self) -> Profile:
        """The own profile. Raises `NotFound`, and `Gone` for a suspended member."""
        return self._loop.call(self._awaited.profile())

    def received(self) -> Received:
        """Total likes and shares of everything this member posted, in O(1). Raises `Gone` for a suspended member."""
        return self._loop.call(self._awaited.received())

    def update_profile(
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
        return self._loop.call(
            self._awaited.update_profile(
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
                default_visibility=default_visibility,
                default_sensitive=default_sensitive,
                default_language=default_language,
                attribution_domains=attribution_domains,
                quote_policy=quote_policy,
                place_precision=place_precision,
                avatar=avatar,
                header=header,
            )
        )

    def remove_avatar(self) -> Member:
        """Take the picture of the profile away. Raises `Gone` for a suspended member."""
        return self._loop.call(self._awaited.remove_avatar())

    def remove_header(self) -> Member:
        """Take the picture at the head of the profile away. Raises `Gone` for a suspended member."""
        return self._loop.call(self._awaited.remove_header())

    def feature(self, tag: str) -> Featured:
        """Show a tag on the own profile. Raises `InvalidInput` for text that is no tag, and for one too many."""
        return self._loop.call(self._awaited.feature(tag))

    def unfeature(self, tag: str) -> None:
        """Show the tag there no longer. Raises `InvalidInput` for text that is no tag."""
        self._loop.call(self._awaited.unfeature(tag))

    def featurable(self) -> list[str]:
        """The tags that this member used most of late and does not show. Raises `Unavailable`."""
        return self._loop.call(self._awaited.featurable())
