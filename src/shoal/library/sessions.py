"""Where a member is logged in, the password, and taking the own data away."""

from __future__ import annotations

from pathlib import Path

from shoal.graph.access import access_member
from shoal.library.acting import Acting
from shoal.library.arguments import part
from shoal.ops.transfer.export import export
from shoal.services.leaving import departures
from shoal.services.leaving.departures import Farewell
from shoal.services.login import proofs, renewals, sessions
from shoal.services.login.sessions import Session, Sessions


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

    async def change_password(self, current: str, new: str) -> None:
        """Replace the password, and end all logins. Raises `InvalidInput` for a wrong or unfit one (`TooShort`, `TooLarge`)."""
        await renewals.change_password(self._writes, self.id, current, new)

    async def change_email(self, password: str, address: str) -> None:
        """Have a mail sent to another address, whose link makes it the member's. The setting `mail` is needed.

        Raises `InvalidInput` for a wrong password or a malformed address, `Taken` for one that somebody has, and `NotAllowed` for
        a member who changed theirs too often.
        """
        await proofs.ask_change(self._writes, self.id, password, address)

    async def ask_confirmation(self) -> None:
        """Have the mail sent (again) by which the member confirms the address they have. Raises `NotFound`."""
        await proofs.ask_confirmation(self._writes, await access_member(self._writes.graph, self.id))

    async def leave(self, password: str) -> Farewell:
        """Delete the account: it is hidden now, and deleted with everything in it when the days to come back are over.

        All logins end. `Shoal.come_back` undoes it before then; `Shoal.receipt` opens with the receipt, which nobody can be told
        again. Raises `InvalidInput` for a wrong password.
        """
        return await departures.leave(self._writes, self.id, password)

    async def export(self, to: str | Path) -> int:
        """Write all own data to a directory or a `.zip` file, and return how many files of media could not be found.

        Raises `InvalidInput` where something is in the way.
        """
        return await export(self._network, self.name, Path(to))
