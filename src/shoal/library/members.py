"""Profiles of members, their sessions and passwords, invitations, and contacts from other networks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import UNSET

from shoal.admin.export import export
from shoal.commands import account_deletions, credentials, invitations, second_factor, sessions, tags
from shoal.commands import members as member_commands
from shoal.commands.account_deletions import Farewell
from shoal.commands.members import ProfileChange as ProfileChanges
from shoal.commands.sessions import Session, Sessions
from shoal.core.credentials import new_key
from shoal.core.errors import NotFound
from shoal.core.licenses import License, LicenseName
from shoal.core.model import Member, QuotePolicy, Visibility
from shoal.core.places import PlacePrecision
from shoal.core.signup import Invitation
from shoal.graph.access import access_member
from shoal.library.acting import Acting, AnyMember, PrecisionName, Seeing, VisibilityName, id_of, one_of, part
from shoal.queries import members as member_queries
from shoal.queries import tags as tag_queries
from shoal.queries.hydration import Entry, Profile, profiles_by_id
from shoal.queries.members import ContactsFound, Received
from shoal.queries.posts import pinned
from shoal.queries.tags import Featured


class SeesProfiles(Seeing):
    """Profiles as a viewer sees them."""

    async def profile_of(self, who: AnyMember) -> Profile:
        """Return a member with the numbers of followers, followees and posts. Raises `NotFound`, or `Gone` if suspended."""
        member = await access_member(self._reads.graph, await self._resolve(who), showing=())
        found = await self.profiles_of(member)
        if not found:
            raise NotFound("Record not found")
        return found[0]

    async def profiles_of(self, *several: AnyMember) -> list[Profile]:
        """Return profiles in the given order, without suspended and deleted members. Raises `NotFound` for an unknown user name."""
        ids = [await self._resolve(who) for who in several]
        return await profiles_by_id(self._reads.graph, self._viewer, ids)

    async def received_by(self, who: AnyMember) -> Received:
        """Return the total likes and shares of a member's posts, without posts that the viewer cannot find, such as direct posts.

        Raises `NotFound`, `Gone`.
        """
        member = await access_member(self._reads.graph, await self._resolve(who))
        return await member_queries.received(self._reads, self._viewer, member.id)

    async def pinned_by(self, who: AnyMember) -> list[Entry]:
        """Return the pinned posts of a profile. Raises `NotFound`, `Gone`."""
        member = await access_member(self._reads.graph, await self._resolve(who))
        return await pinned(self._reads, self._viewer, member.id)

    async def featured_by(self, who: AnyMember) -> list[Featured]:
        """Return the featured tags of a profile, each with the number of the member's posts. Raises `NotFound`, `Gone`."""
        member = await access_member(self._reads.graph, await self._resolve(who))
        return await tag_queries.featured(self._reads.graph, member.id)


class HasProfile(SeesProfiles, Acting):
    """A member's own profile."""

    async def profile(self) -> Profile:
        """Return the member's own profile. Raises `NotFound`, and `Gone` for a suspended member."""
        return await self.profile_of(self.id)

    async def received(self) -> Received:
        """Return the total likes and shares of all of this member's posts, in O(1). Raises `Gone` for a suspended member."""
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
        shows_photo_details: bool | None = None,
        default_license: License | LicenseName | None = None,
        allows_downloads: bool | None = None,
        default_visibility: Visibility | VisibilityName | None = None,
        default_sensitive: bool | None = None,
        default_language: str | None = None,
        attribution_domains: Sequence[str] | None = None,
        quote_policy: QuotePolicy | None = None,
        place_precision: PlacePrecision | PrecisionName | None = None,
        location: str | None = None,
        shows_location: bool | None = None,
        avatar: bytes | None = None,
        header: bytes | None = None,
    ) -> Member:
        """Change the given fields of the member's profile; None keeps a value.

        `place_precision` is how places of new posts are stored: "exact", or rounded to "100m", "1km" (the default) or "10km",
        or as the coordinates of the town ("city"); "none" omits places. Existing posts do not change. `location` is the town or
        country where the member lives, such as "Palermo, Italy"; "" deletes it. `location` needs the extra `places`. With
        `findable_by_email`, members who know the e-mail address can find this member by it (`find_contacts`).
        `shows_photo_details`, `default_license` and `allows_downloads` apply to new photos and posts. Raises `InvalidInput`
        (`TooLarge`, `Unsupported`, `Unfit`).
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
            shows_photo_details=shows_photo_details,
            default_license=None if default_license is None else one_of(License, default_license, "default_license"),
            allows_downloads=allows_downloads,
            default_visibility=shown,
            default_sensitive=default_sensitive,
            default_language=default_language,
            attribution_domains=attribution_domains,
            quote_policy=quote_policy,
            place_precision=exactly,
            location=UNSET if location is None else await member_commands.location_of(location),
            shows_location=shows_location,
            avatar=avatar,
            header=header,
        )
        return await member_commands.update_profile(self._writes, self.id, changes)

    async def remove_avatar(self) -> Member:
        """Remove the avatar. Raises `Gone` for a suspended member."""
        return await member_commands.remove_picture(self._writes, self.id, "avatar")

    async def remove_header(self) -> Member:
        """Remove the header picture. Raises `Gone` for a suspended member."""
        return await member_commands.remove_picture(self._writes, self.id, "header")

    async def feature(self, tag: str) -> Featured:
        """Feature a tag on the member's profile. Raises `InvalidInput` for an invalid tag and for too many tags."""
        featured = await tags.feature(self._writes, self.id, tag)
        return (await tag_queries.counted(self._reads.graph, self.id, (featured,)))[0]

    async def unfeature(self, tag: str) -> None:
        """Undo `feature`. Raises `InvalidInput` for an invalid tag."""
        await tags.unfeature(self._writes, self.id, tag)

    async def featurable(self) -> list[str]:
        """Return the tags that this member used most recently and does not feature. Raises `Unavailable`."""
        return await tag_queries.suggested(self._reads, self.id)


class LogsIn(Acting):
    """Sessions and credentials of a member, and the member's own data."""

    async def sessions(self, before: int | None = None, limit: int = 40) -> Sessions:
        """Return a page of the sessions of apps and browsers, newest first. Raises `Unavailable`."""
        cursor = part(before, limit)
        return await sessions.page(self._writes, self.id, cursor)

    async def end_session(self, session: Session | int) -> None:
        """End a session and revoke its token. Raises `NotFound`."""
        id_ = session if isinstance(session, int) else session.token.id
        await sessions.end(self._writes, self.id, id_)

    async def end_sessions(self, kept: Session | int | None = None) -> int:
        """End all sessions except `kept`, and return how many were ended."""
        id_ = kept if isinstance(kept, int) else kept.token.id if kept else 0
        return await sessions.end_others(self._writes, self.id, id_)

    async def change_password(self, current: str, new: str) -> None:
        """Change the password, which ends all sessions.

        Raises `InvalidInput` for a wrong current password or an invalid new one (`TooShort`, `TooLarge`), and `NotAllowed` for a
        member without a password.
        """
        await credentials.change_password(self._writes, self.id, current, new)

    async def second_factor_key(self) -> str:
        """Return a new key for an authenticator app, to pass to `turn_on_second_factor`. It is not stored."""
        return new_key()

    async def turn_on_second_factor(self, password: str, key: str, code: str) -> list[str]:
        """Require a code at every login, and return ten recovery codes, which are shown only once.

        `code` is the current code of the app for the `key`. Raises `InvalidInput` for a wrong password or code, and `NotAllowed`
        if the second factor is on already, or the member has no password.
        """
        return await second_factor.turn_on(self._writes, self.id, password, key, code)

    async def turn_off_second_factor(self, password: str, code: str) -> None:
        """Turn the second factor off. The code may be a recovery code.

        Raises `InvalidInput` for a wrong password or code, and `NotAllowed` for a member without a password.
        """
        await second_factor.turn_off(self._writes, self.id, password, code)

    async def new_recovery_codes(self, code: str) -> list[str]:
        """Replace the remaining recovery codes by ten new ones, and return them.

        Raises `InvalidInput` for a wrong code, and `NotAllowed` if the second factor is off.
        """
        return await second_factor.new_codes(self._writes, self.id, code)

    async def change_email(self, password: str, address: str) -> None:
        """Request a change of the e-mail address: a link in a mail to the new address confirms it. Requires the setting `mail`.

        Raises `InvalidInput` for a wrong password or a malformed address, `Taken` if the address is in use, and `NotAllowed` if the
        member changed theirs too often, or has no password.
        """
        await credentials.ask_change(self._writes, self.id, password, address)

    async def ask_confirmation(self) -> None:
        """Send another confirmation mail to the current address. Raises `NotFound`."""
        await credentials.ask_confirmation(self._writes, await access_member(self._writes.graph, self.id))

    async def leave(self, password: str) -> Farewell:
        """Hide the account now, end all sessions, and delete the account with all data after the grace period.

        `Shoal.come_back` undoes this during the grace period. The `receipt` in the result is for `Shoal.receipt`, and cannot be
        read again.
        Raises `InvalidInput` for a wrong password, and `NotAllowed` for a member without a password.
        """
        return await account_deletions.leave(self._writes, self.id, password)

    async def export(self, to: str | Path) -> int:
        """Write all data of the member to a directory or a `.zip` file, and return the number of missing media files.

        Raises `InvalidInput` if the target exists.
        """
        return await export(self._network, self.name, Path(to))


class FindsContacts(Acting):
    """Searches for a member's contacts from other networks. The contacts are not stored."""

    async def contact_salt(self) -> str:
        """Return the salt for hashes of e-mail addresses (`shoal.hash_address`) on this server, in hexadecimal."""
        return await member_commands.contact_salt(self._writes)

    async def find_contacts(self, hashes: Sequence[str]) -> ContactsFound:
        """Find members by hashes of their email addresses, if they allow it (`update_profile(findable_by_email=True)`).

        Raises `InvalidInput` for an invalid hash, and `TooLarge` for more than 2,000.
        """
        return await member_queries.contacts_by_hash(self._reads, self.id, hashes)

    async def find_followees(self, archive: bytes) -> ContactsFound:
        """Find members by the follow list in an archive of Mastodon, Pixelfed, Instagram, X or Bluesky.

        Raises `InvalidInput` for an unknown format, and `TooLarge` above 4 MiB or 10,000 accounts.
        """
        return await member_queries.followees_in_archive(self._reads, self.id, archive)

    async def find_handles(self, handles: Sequence[str]) -> ContactsFound:
        """Find members by their accounts on other networks, such as `ann@mastodon.social` or `https://instagram.com/ann`.

        Raises `TooLarge` for more than 10,000.
        """
        return await member_queries.followees_by_handle(self._reads, self.id, handles)


class Invites(Acting):
    """Invitations of a member."""

    async def invite(self, uses: int = 1, *, days: float = 7.0, follow: bool = False) -> Invitation:
        """Create an invitation, limited in uses and days. The link of an invitation ends with its `code`: `/invite/<code>`.

        With `follow`, new members follow this one. Moderators and admins may pass 0 for unlimited uses or days. Raises
        `NotAllowed` if the setting `invitations` does not let the member invite, and `InvalidInput` for invalid numbers and for
        too many open invitations.
        """
        return await invitations.create(self._writes, self.id, uses=uses, seconds=round(days * 86_400), follow=follow)

    async def invitations(self) -> list[Invitation]:
        """Return all invitations, newest first, including expired and used ones. Raises `Unavailable`."""
        return await invitations.of_member(self._writes, self.id)

    async def end_invitation(self, invitation: Invitation | int) -> None:
        """Revoke an invitation. Raises `NotFound`."""
        await invitations.end(self._writes, self.id, id_of(invitation))
