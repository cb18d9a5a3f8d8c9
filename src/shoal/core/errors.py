"""Errors that Shoal raises on purpose, with messages that are safe to show to users.

Every message says what was wrong and what is allowed. Anything else that is raised is "internal": logged in full, shown
as one fixed sentence. One table in `http/errors.py` maps these errors to statuses.
"""

from __future__ import annotations

import re

_ERRNO = re.compile(r"\[Errno -?\d+\] ")


class ShoalError(Exception):
    """The root of everything Shoal raises on purpose; `str(error)` may be shown to anybody."""


class InvalidInput(ShoalError):
    """A value is malformed, missing or past its maximum. `field` names it, in the caller's words."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class TooLarge(InvalidInput):
    """More bytes, pixels or items than the stated maximum."""


class TooShort(InvalidInput):
    """Fewer characters than are needed."""


class Reserved(InvalidInput):
    """A name that only the operator may give."""


class Unsupported(InvalidInput):
    """A file of a type that is not accepted."""


class Unfit(InvalidInput):
    """A combination or a moment that is not allowed, though each value by itself is valid."""


class UnexpectedMentions(Unfit):
    """A post that mentions members its author did not list as expected; `member_ids` are the unexpected ones."""

    def __init__(self, member_ids: tuple[int, ...]) -> None:
        super().__init__("Post would be sent to unexpected accounts", field="allowed_mentions")
        self.member_ids = member_ids


class Taken(InvalidInput):
    """A name that must be unique belongs to somebody already."""


class Disallowed(InvalidInput):
    """A value that moderators have blocked, such as an e-mail address at a certain domain."""


class Unauthenticated(ShoalError):
    """No token, or one that is unknown, expired or revoked; or a wrong password."""


class CodeNeeded(Unauthenticated):
    """The password is right, and a code of the second factor is missing."""


class InvalidToken(Unauthenticated):
    """A token that is unknown, expired or revoked."""

    def __init__(self) -> None:
        super().__init__("The access token is invalid")


class NotAllowed(ShoalError):
    """The caller is known, and may not do this."""


class Leaving(NotAllowed):
    """The member asked for their account to be deleted; they may come back (`come_back`) before that begins."""


class Unconfirmed(NotAllowed):
    """The member must first open the link in a mail, which shows that the address is theirs."""


class SecondFactorNeeded(NotAllowed):
    """The network asks moderators and admins for a second factor, and this one has none."""

    def __init__(self) -> None:
        super().__init__("Moderators and admins need a second factor here: turn it on in the settings of the web app")


class NotFound(ShoalError):
    """There is no such thing, or none that the viewer may know of: the two look alike everywhere."""


class Gone(ShoalError):
    """The thing existed, and was removed for good (a suspended member)."""


class Conflict(ShoalError):
    """Somebody changed the thing in between; reading it again and repeating is safe."""


class TooMany(ShoalError):
    """A rate limit; `retry_after` in seconds."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class TooManyMails(TooMany):
    """Several mails were asked for already, for one account or from one network."""


class Unavailable(ShoalError):
    """The store cannot take this now; nothing was done and the same request may be sent again after `retry_after` seconds."""

    def __init__(self, message: str, *, retry_after: float = 5.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class OutcomeUnknown(Unavailable):
    """A change was sent to the store, and no answer came back: it may have been stored, or not.

    Nothing that belongs to the change may be undone. Read again to learn the outcome, or repeat a request that is recognised.
    """


class NotYet(Unavailable):
    """Other work comes first; this will have its turn."""

    rest_seconds = 0.5
    """How long a job rests that met it."""


class NewerNeeded(NotYet):
    """A newer Shoal wrote this, and only a newer one can read it or act on it."""

    rest_seconds = 5.0


class InUse(Unavailable):
    """Another process has the store open."""


class StorageFull(Unavailable):
    """The disk has no room. Nothing was stored; reading goes on."""


def is_refusal(error: BaseException) -> bool:
    """Return whether it is certain that nothing was stored, so that files made for the change can be deleted."""
    return isinstance(error, ShoalError) and not isinstance(error, OutcomeUnknown)


def of_other_version(found: int, ours: int) -> str:
    """Return what is wrong, and what to do, about a store whose tables have another schema version."""
    if found > ours:
        return f"was written by a newer Shoal (schema version {found}; this one reads {ours}): use that one, or a newer one"
    return f"is of an older Shoal (schema version {found}; this one reads {ours}): start `shoal serve` once, which upgrades it"


def missing_package(package: str, extra: str) -> str:
    """Say which optional dependency of Shoal has a package that is not installed, and how to install it."""
    return f"needs the package {package}: run `pip install -e '.[{extra}]'` in the directory with Shoal's source"


def with_cause(error: Exception) -> str:
    """Describe an error to the operator: when something cannot be reached, with what the system says of it."""
    words = in_words(error)
    cause: BaseException | None = error
    while isinstance(cause, ShoalError):
        cause = cause.__cause__
    if not isinstance(error, Unavailable) or not isinstance(cause, Exception):
        return words
    why = " ".join((in_words(cause) or type(cause).__name__).split())
    return words if why in words else f"{words} ({why})"


def in_words(error: Exception) -> str:
    """Describe an error in one line, with the path that it is about, and without the system's error number."""
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"{error.filename} is not there"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return _ERRNO.sub("", str(error))
