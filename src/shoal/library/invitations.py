"""A member's invitations: links by which others sign up."""

from __future__ import annotations

from shoal.commands import invitations
from shoal.core.signup import Invitation
from shoal.library.acting import Acting


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
