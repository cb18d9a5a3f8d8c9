"""A member's invitations: links by which others sign up.

Made from `shoal.library.members` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from shoal.core.signup import Invitation
from shoal.library import members as awaited
from shoal.sync.calling import Acting


class Invites(Acting):
    """Invitations of a member."""

    _awaited: awaited.Invites

    def invite(self, uses: int = 1, *, days: float = 7.0, follow: bool = False) -> Invitation:
        """Make an invitation for so many uses and days: the link ends with its `code`, `/invite/<code>`.

        With `follow`, those who come by it follow the member. For moderators and admins 0 stands for any number of uses, and for no
        end. Raises `NotAllowed` where the setting `invitations` does not let the member invite, and `InvalidInput` for numbers that
        are not allowed, and for one open invitation too many.
        """
        return self._loop.call(self._awaited.invite(uses, days=days, follow=follow))

    def invitations(self) -> list[Invitation]:
        """All invitations, newest first, with those that are over or used up. Raises `Unavailable`."""
        return self._loop.call(self._awaited.invitations())

    def end_invitation(self, invitation: Invitation | int) -> None:
        """End an invitation: nobody signs up by it any more. Raises `NotFound`."""
        self._loop.call(self._awaited.end_invitation(invitation))
