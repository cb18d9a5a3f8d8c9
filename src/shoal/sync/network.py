"""An open network, as an application has it.

Made from `shoal.library.network` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from shoal.commands.account_deletions import Farewell
from shoal.core.model import Departure, Post
from shoal.library import network as awaited
from shoal.library.acting import AnyMember, AnyPost
from shoal.sync.blocklists import KeptBlocklists
from shoal.sync.handle import Handle, Visitor
from shoal.sync.loop_thread import LoopThread
from shoal.sync.moderation import Moderation
from shoal.sync.opening import Opening
from shoal.sync.tags import Tags


class Shoal(Opening):
    """An open network."""

    _awaited: awaited.Shoal

    def __init__(self, loop: LoopThread, of: awaited.Shoal) -> None:
        super().__init__(loop, of)
        self.tags = Tags(loop, of.tags)
        self.blocklists = KeptBlocklists(loop, of.blocklists)
        self.moderation = Moderation(loop, of.moderation)
        self.visitor = Visitor(loop, of.visitor)

    def register(
        self,
        name: str,
        password: str | None = None,
        *,
        email: str = "",
        display_name: str = "",
        note: str = "",
        language: str = "",
        reserved: bool = False,
        pending: bool = False,
        reason: str = "",
        invite_code: str = "",
    ) -> Handle:
        """Make a new member, whose name is `[a-z0-9_]{1,30}`, in any case. Without a password nobody can log in as them.

        The operator may give a `reserved` name. A `pending` member waits for approval; `reason` is for those who decide. With
        an `invite_code` a use of that invitation is counted. Raises `Taken` for a name or an address that somebody has, and
        `InvalidInput` (`Reserved`, `TooShort`, `TooLarge`), also for an invitation that is over or used up.
        """
        return Handle(
            self._loop,
            self._loop.call(
                self._awaited.register(
                    name,
                    password,
                    email=email,
                    display_name=display_name,
                    note=note,
                    language=language,
                    reserved=reserved,
                    pending=pending,
                    reason=reason,
                    invite_code=invite_code,
                )
            ),
        )

    def log_in(self, name_or_email: str, password: str, code: str = "") -> Handle:
        """The member with this password and, if they have a second factor, this code of it.

        Raises `Unauthenticated`, `CodeNeeded` where a code is missing, and `NotAllowed` for one who may not come in.
        """
        return Handle(self._loop, self._loop.call(self._awaited.log_in(name_or_email, password, code)))

    def member(self, who: AnyMember) -> Handle:
        """A handle for a member. Raises `NotFound`, and by id `Gone` for a suspended one."""
        return Handle(self._loop, self._loop.call(self._awaited.member(who)))

    def set_password(self, who: AnyMember, password: str) -> None:
        """Replace a member's password, and end all their logins. Raises `NotFound`, `TooShort` and `TooLarge`."""
        self._loop.call(self._awaited.set_password(who, password))

    def forgot_password(self, name_or_email: str, language: str = "") -> None:
        """Have a mail sent to whoever has this name or address, with a link for another password. The setting `mail` is needed.

        Nothing tells whether there is anybody. `language`: the code of the mail's, "de" for example; empty: the member's.
        Raises `InvalidInput` for an empty text.
        """
        self._loop.call(self._awaited.forgot_password(name_or_email, language))

    def reset_password(self, proof: str, password: str) -> Handle:
        """Replace a forgotten password; `proof` is the end of the link, `/reset/<proof>`. All logins end.

        Raises `Gone` for a link that is over or was used, `TooShort` and `TooLarge`.
        """
        return Handle(self._loop, self._loop.call(self._awaited.reset_password(proof, password)))

    def confirm_email(self, proof: str) -> Handle:
        """Confirm a member's address, or make another theirs; `proof` is the end of the link, `/confirm/<proof>`.

        Raises `Gone` for a link that is over or was used, `Taken` when somebody else has the address by now, and `NotAllowed` for
        a member who changed theirs too often.
        """
        return Handle(self._loop, self._loop.call(self._awaited.confirm_email(proof)))

    def undo_email_change(self, proof: str) -> Handle:
        """Bring the address back that a member had before; `proof` is the end of the link, `/undo/<proof>`. All logins end, and
        passkeys go.

        Raises `Gone` for a link that is over or was used.
        """
        return Handle(self._loop, self._loop.call(self._awaited.undo_email_change(proof)))

    def set_email(self, who: AnyMember, address: str) -> None:
        """Give a member another address, or none (""), without a mail.

        Raises `NotFound`, `InvalidInput`, `Taken`, and `Conflict` for a member without a login.
        """
        self._loop.call(self._awaited.set_email(who, address))

    def come_back(self, name_or_email: str, password: str) -> Handle:
        """Undo `Handle.leave`.

        Raises `Unauthenticated`, and `NotAllowed` for a member who does not leave, or whose deletion has begun.
        """
        return Handle(self._loop, self._loop.call(self._awaited.come_back(name_or_email, password)))

    def receipt(self, text: str) -> Departure:
        """Return how much there was of a member who left, and when it was deleted. Raises `NotFound` for another text."""
        return self._loop.call(self._awaited.receipt(text))

    def delete_member(self, who: AnyMember, days: int = 0) -> Farewell:
        """Delete a member's account in so many days, as `Handle.leave`, without their password.

        Raises `NotFound`, and `NotAllowed` when the deletion has begun.
        """
        return self._loop.call(self._awaited.delete_member(who, days))

    def keep_member(self, who: AnyMember) -> Handle:
        """Undo `Handle.leave` and `delete_member`. Raises `NotFound`, and `NotAllowed` as `come_back`."""
        return Handle(self._loop, self._loop.call(self._awaited.keep_member(who)))

    def suspend(self, who: AnyMember) -> None:
        """Hide a member and all their posts, as `moderation.suspend`. Raises `NotFound`."""
        self._loop.call(self._awaited.suspend(who))

    def restore(self, who: AnyMember) -> None:
        """Undo `suspend`. Raises `NotFound`."""
        self._loop.call(self._awaited.restore(who))

    def hide(self, post: AnyPost) -> Post:
        """Hide a post, as `moderation.hide`. Raises `NotFound`."""
        return self._loop.call(self._awaited.hide(post))

    def reveal(self, post: AnyPost) -> Post:
        """Undo `hide`. Raises `NotFound`."""
        return self._loop.call(self._awaited.reveal(post))

    def settle(self, patience: float = 60.0) -> None:
        """Return when everything that follows from what was done so far has happened: fan-out, above all.

        Raises `TimeoutError` after so many seconds.
        """
        self._loop.call(self._awaited.settle(patience))
