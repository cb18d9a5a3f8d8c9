"""Friends from elsewhere: members whom one already knows from another network."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.commands import members as salts
from shoal.library.acting import Acting
from shoal.queries import members
from shoal.queries.members import ContactsFound


class FindsContacts(Acting):
    """Looking for members by what one knows of them. Nothing that is given here is kept."""

    async def contact_salt(self) -> str:
        """The salt under which e-mail addresses are hashed here (`shoal.hash_address`), in hexadecimal digits."""
        return await salts.contact_salt(self._writes)

    async def find_contacts(self, hashes: Sequence[str]) -> ContactsFound:
        """Find members by hashes of their e-mail addresses: those who allow it (`update_profile(findable_by_email=True)`).

        Raises `InvalidInput` for what is no hash, and `TooLarge` past 2,000.
        """
        return await members.contacts_by_hash(self._reads, self.id, hashes)

    async def find_followees(self, archive: bytes) -> ContactsFound:
        """Find members by the follow list in another network's archive: a file of Mastodon, Pixelfed, Instagram, X or Bluesky.

        Raises `InvalidInput` for a file that is none, and `TooLarge` past 4 MiB or 10,000 accounts.
        """
        return await members.followees_in_archive(self._reads, self.id, archive)

    async def find_handles(self, handles: Sequence[str]) -> ContactsFound:
        """Find members by accounts elsewhere, such as `ann@mastodon.social` or `https://instagram.com/ann`.

        Raises `TooLarge` past 10,000.
        """
        return await members.followees_by_handle(self._reads, self.id, handles)
