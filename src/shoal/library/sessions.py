"""Where a member is logged in, the password, and taking the own data away."""

from __future__ import annotations

from pathlib import Path

from shoal.admin.export import export
from shoal.commands import account_deletions, credentials, second_factor, sessions
from shoal.commands.account_deletions import Farewell
from shoal.commands.sessions import Session, Sessions
from shoal.core.credentials import new_key
from shoal.graph.access import access_member
from shoal.library.acting import Acting
from shoal.library.arguments import part


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
