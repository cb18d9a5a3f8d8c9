"""Friends from elsewhere: members whom one already knows from another network.

Made from `shoal.library.members` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.library import members as awaited
from shoal.queries.members import ContactsFound
from shoal.sync.calling import Acting


class FindsContacts(Acting):
    """Looking for members by what one knows of them. Nothing that is given here is kept."""

    _awaited: awaited.FindsContacts

    def contact_salt(self) -> str:
        """The salt under which e-mail addresses are hashed here (`shoal.hash_address`), in hexadecimal digits."""
        return self._loop.call(self._awaited.contact_salt())

    def find_contacts(self, hashes: Sequence[str]) -> ContactsFound:
        """Find members by hashes of their e-mail addresses: those who allow it (`update_profile(findable_by_email=True)`).

        Raises `InvalidInput` for what is no hash, and `TooLarge` past 2,000.
        """
        return self._loop.call(self._awaited.find_contacts(hashes))

    def find_followees(self, archive: bytes) -> ContactsFound:
        """Find members by the follow list in another network's archive: a file of Mastodon, Pixelfed, Instagram, X or Bluesky.

        Raises `InvalidInput` for a file that is none, and `TooLarge` past 4 MiB or 10,000 accounts.
        """
        return self._loop.call(self._awaited.find_followees(archive))

    def find_handles(self, handles: Sequence[str]) -> ContactsFound:
        """Find members by accounts elsewhere, such as `ann@mastodon.social` or `https://instagram.com/ann`.

        Raises `TooLarge` past 10,000.
        """
        return self._loop.call(self._awaited.find_handles(handles))
