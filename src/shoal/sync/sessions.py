"""Where a member is logged in, the password, and taking the own data away.

Made from `shoal.library.members` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from pathlib import Path

from shoal.commands.account_deletions import Farewell
from shoal.commands.sessions import Session, Sessions
from shoal.library import members as awaited
from shoal.sync.calling import Acting


class LogsIn(Acting):
    """Logins of a member, and the member's own data."""

    _awaited: awaited.LogsIn

    def sessions(self, before: int | None = None, limit: int = 40) -> Sessions:
        """A page of the logins, newest first: those of apps and of browsers. Raises `Unavailable`."""
        return self._loop.call(self._awaited.sessions(before, limit))

    def end_session(self, session: Session | int) -> None:
        """End a login: its token is worth nothing from now on. Raises `NotFound`."""
        self._loop.call(self._awaited.end_session(session))

    def end_sessions(self, kept: Session | int | None = None) -> int:
        """End all logins, except the `kept` one, and return how many there were."""
        return self._loop.call(self._awaited.end_sessions(kept))

    def change_password(self, current: str, new: str) -> None:
        """Replace the password, and end all logins. Raises `InvalidInput` for a wrong or unfit one (`TooShort`, `TooLarge`)."""
        self._loop.call(self._awaited.change_password(current, new))

    def second_factor_key(self) -> str:
        """A new key for an authenticator app, to be given to `turn_on_second_factor`. Nothing is kept."""
        return self._loop.call(self._awaited.second_factor_key())

    def turn_on_second_factor(self, password: str, key: str, code: str) -> list[str]:
        """Ask for a code at every login from now on, and return ten recovery codes, which nobody is told again.

        `code` is what the app makes of the `key` now. Raises `InvalidInput` for a wrong password or code, and `NotAllowed` where
        it is on already.
        """
        return self._loop.call(self._awaited.turn_on_second_factor(password, key, code))

    def turn_off_second_factor(self, password: str, code: str) -> None:
        """Ask for no codes any more. Raises `InvalidInput` for a wrong password or code (of the app, or for recovery)."""
        self._loop.call(self._awaited.turn_off_second_factor(password, code))

    def new_recovery_codes(self, code: str) -> list[str]:
        """Ten other recovery codes in place of those that are left.

        Raises `InvalidInput` for a wrong code, and `NotAllowed` where the second factor is off.
        """
        return self._loop.call(self._awaited.new_recovery_codes(code))

    def change_email(self, password: str, address: str) -> None:
        """Have a mail sent to another address, whose link makes it the member's. The setting `mail` is needed.

        Raises `InvalidInput` for a wrong password or a malformed address, `Taken` for one that somebody has, and `NotAllowed` for
        a member who changed theirs too often.
        """
        self._loop.call(self._awaited.change_email(password, address))

    def ask_confirmation(self) -> None:
        """Have the mail sent (again) by which the member confirms the address they have. Raises `NotFound`."""
        self._loop.call(self._awaited.ask_confirmation())

    def leave(self, password: str) -> Farewell:
        """Delete the account: it is hidden now, and deleted with everything in it when the days to come back are over.

        All logins end. `Shoal.come_back` undoes it before then; `Shoal.receipt` opens with the receipt, which nobody can be told
        again. Raises `InvalidInput` for a wrong password.
        """
        return self._loop.call(self._awaited.leave(password))

    def export(self, to: str | Path) -> int:
        """Write all own data to a directory or a `.zip` file, and return how many files of media could not be found.

        Raises `InvalidInput` where something is in the way.
        """
        return self._loop.call(self._awaited.export(to))
