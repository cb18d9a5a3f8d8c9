"""Profiles of members, their sessions and passwords, invitations, and contacts from other networks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shoal.admin.export import export
from shoal.commands import account_deletions, credentials, invitations, second_factor, sessions, tags
from shoal.commands import members as member_commands
from shoal.commands.account_deletions import Farewell
from shoal.commands.members import ProfileChange as ProfileChanges
from shoal.commands.sessions import Session, Sessions
from shoal.core.credentials import new_key
from shoal.core.errors import NotFound
from shoal.core.model import Member, QuotePolicy, Visibility
from shoal.core.places import PlacePrecision
from shoal.core.signup import Invitation
from shoal.graph.access import access_member
from shoal.library.acting import Acting, AnyMember, PrecisionName, Seeing, VisibilityName, one_of, part
from shoal.queries import members as member_queries
from shoal.queries import tags as tag_queries
from shoal.queries.hydration import Entry, Profile, profiles_by_id
from shoal.queries.members import ContactsFound, Received
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
        return await member_commands.update_profile(self._writes, self.id, changes)

    async def remove_avatar(self) -> Member:
        """Take the picture of the profile away. Raises `Gone` for a suspended member."""
        return await member_commands.remove_picture(self._writes, self.id, "avatar")

    async def remove_header(self) -> Member:
        """Take the picture at the head of the profile away. Raises `Gone` for a suspended member."""
        return await member_commands.remove_picture(self._writes, self.id, "header")

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


class LogsIn(Acting):
    """Logins of a member, and the member's own data."""

    async def sessions(self, before: int | None = None, limit: int = 40) -> Sessions:
        """A page of the logins, newest first: those of apps and of browsers. Raises `Unavailable`."""
        cursor = part(before, limit)
        return await sessions.page(self._writes, self.id, cursor)

    async def end_session(self, session: Session | int) -> None:
        """End a login: its token is worth nothing from now on. Raises `NotFound`."""
        id_ = session if isinstance(session, int) else session.token.id
        await sessions.end(self._writes, self.id, id_)

    async def end_sessions(self, kept: Session | int | None = None) -> int:
        """End all logins, except the `kept` one, and return how many there were."""
        id_ = kept if isinstance(kept, int) else kept.token.id if kept else 0
        return await sessions.end_others(self._writes, self.id, id_)

    async def change_password(self, current: str, new: str) -> None:
        """Replace the password, and end all logins. Raises `InvalidInput` for a wrong or unfit one (`TooShort`, `TooLarge`)."""
        await credentials.change_password(self._writes, self.id, current, new)

    async def second_factor_key(self) -> str:
        """A new key for an authenticator app, to be given to `turn_on_second_factor`. Nothing is kept."""
        return new_key()

    async def turn_on_second_factor(self, password: str, key: str, code: str) -> list[str]:
        """Ask for a code at every login from now on, and return ten recovery codes, which nobody is told again.

        `code` is what the app makes of the `key` now. Raises `InvalidInput` for a wrong password or code, and `NotAllowed` where
        it is on already.
        """
        return await second_factor.turn_on(self._writes, self.id, password, key, code)

    async def turn_off_second_factor(self, password: str, code: str) -> None:
        """Ask for no codes any more. Raises `InvalidInput` for a wrong password or code (of the app, or for recovery)."""
        await second_factor.turn_off(self._writes, self.id, password, code)

    async def new_recovery_codes(self, code: str) -> list[str]:
        """Ten other recovery codes in place of those that are left.

        Raises `InvalidInput` for a wrong code, and `NotAllowed` where the second factor is off.
        """
        return await second_factor.new_codes(self._writes, self.id, code)

    async def change_email(self, password: str, address: str) -> None:
        """Have a mail sent to another address, whose link makes it the member's. The setting `mail` is needed.

        Raises `InvalidInput` for a wrong password or a malformed address, `Taken` for one that somebody has, and `NotAllowed` for
        a member who changed theirs too often.
        """
        await credentials.ask_change(self._writes, self.id, password, address)

    async def ask_confirmation(self) -> None:
        """Have the mail sent (again) by which the member confirms the address they have. Raises `NotFound`."""
        await credentials.ask_confirmation(self._writes, await access_member(self._writes.graph, self.id))

    async def leave(self, password: str) -> Farewell:
        """Delete the account: it is hidden now, and deleted with everything in it when the days to come back are over.

        All logins end. `Shoal.come_back` undoes it before then; `Shoal.receipt` opens with the receipt, which nobody can be told
        again. Raises `InvalidInput` for a wrong password.
        """
        return await account_deletions.leave(self._writes, self.id, password)

    async def export(self, to: str | Path) -> int:
        """Write all own data to a directory or a `.zip` file, and return how many files of media could not be found.

        Raises `InvalidInput` where something is in the way.
        """
        return await export(self._network, self.name, Path(to))


class FindsContacts(Acting):
    """Looking for members by what one knows of them. Nothing that is given here is kept."""

    async def contact_salt(self) -> str:
        """The salt under which e-mail addresses are hashed here (`shoal.hash_address`), in hexadecimal digits."""
        return await member_commands.contact_salt(self._writes)

    async def find_contacts(self, hashes: Sequence[str]) -> ContactsFound:
        """Find members by hashes of their e-mail addresses: those who allow it (`update_profile(findable_by_email=True)`).

        Raises `InvalidInput` for what is no hash, and `TooLarge` past 2,000.
        """
        return await member_queries.contacts_by_hash(self._reads, self.id, hashes)

    async def find_followees(self, archive: bytes) -> ContactsFound:
        """Find members by the follow list in another network's archive: a file of Mastodon, Pixelfed, Instagram, X or Bluesky.

        Raises `InvalidInput` for a file that is none, and `TooLarge` past 4 MiB or 10,000 accounts.
        """
        return await member_queries.followees_in_archive(self._reads, self.id, archive)

    async def find_handles(self, handles: Sequence[str]) -> ContactsFound:
        """Find members by accounts elsewhere, such as `ann@mastodon.social` or `https://instagram.com/ann`.

        Raises `TooLarge` past 10,000.
        """
        return await member_queries.followees_by_handle(self._reads, self.id, handles)


class Invites(Acting):
    """Invitations of a member."""

    async def invite(self, uses: int = 1, *, days: float = 7.0, follow: bool = False) -> Invitation:
        """Make an invitation for so many uses and days: the link ends with its `code`, `/invite/<code>`.

        With `follow`, those who come by it follow the member. For moderators and admins 0 stands for any number of uses, and for no
        end. Raises `NotAllowed` where the setting `invitations` does not let the member invite, and `InvalidInput` for numbers that
        are not allowed, and for one open invitation too many.
        """
        return await invitations.create(self._writes, self.id, uses=uses, seconds=round(days * 86_400), follow=follow)

    async def invitations(self) -> list[Invitation]:
        """All invitations, newest first, with those that are over or used up. Raises `Unavailable`."""
        return await invitations.of_member(self._writes, self.id)

    async def end_invitation(self, invitation: Invitation | int) -> None:
        """End an invitation: nobody signs up by it any more. Raises `NotFound`."""
        id_ = invitation if isinstance(invitation, int) else invitation.id
        await invitations.end(self._writes, self.id, id_)
