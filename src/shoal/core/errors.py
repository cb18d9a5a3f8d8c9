"""Errors that Shoal raises on purpose, with messages that are safe to show to users.

Every message states the fault and the allowed values. Any other exception is "internal": logged in full, and shown as one fixed
sentence. One table in `shoal.http.errors` maps these errors to statuses.
"""

from __future__ import annotations

import re

_ERRNO = re.compile(r"\[Errno -?\d+\] ")


class ShoalError(Exception):
    """The base class of Shoal's errors; `str(error)` may be shown to any user."""


class InvalidInput(ShoalError):
    """A value is malformed, missing or past its maximum. `field` names it, in the caller's terms."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class TooLarge(InvalidInput):
    """More bytes, pixels or items than the stated maximum."""


class TooShort(InvalidInput):
    """Fewer characters than the minimum."""


class Reserved(InvalidInput):
    """A name that only the operator may assign."""


class Unsupported(InvalidInput):
    """A file type that is not accepted."""


class Unfit(InvalidInput):
    """A combination of values, or a time, that is not allowed, although each value is valid by itself."""


class Rejected(Unfit):
    """Content that a check before publication refused. The message is the reason for the author."""


class UnexpectedMentions(Unfit):
    """A post that mentions members other than those its author expected; `member_ids` are the unexpected ones."""

    def __init__(self, member_ids: tuple[int, ...]) -> None:
        super().__init__("Post would be sent to unexpected accounts", field="allowed_mentions")
        self.member_ids = member_ids


class Taken(InvalidInput):
    """A unique name or value that is in use."""


class Disallowed(InvalidInput):
    """A value that moderators have blocked, such as an email address at a certain domain."""


class Unauthenticated(ShoalError):
    """A missing, unknown, expired or revoked token, or a wrong password."""


class CodeNeeded(Unauthenticated):
    """The password is correct, and a second-factor code is missing."""


class InvalidToken(Unauthenticated):
    def __init__(self) -> None:
        super().__init__("The access token is invalid")


class NotAllowed(ShoalError):
    """The caller is authenticated, but not allowed to do this."""


class Leaving(NotAllowed):
    """The member requested the deletion of their account. They may cancel it (`come_back`) until it begins."""


class Unconfirmed(NotAllowed):
    """The member must first open the confirmation link in a mail."""


class SecondFactorNeeded(NotAllowed):
    """The server requires a second factor of moderators and admins, and this member has none."""

    def __init__(self) -> None:
        super().__init__("Moderators and admins need a second factor here: turn it on in the settings of the web app")


class NotFound(ShoalError):
    """The object does not exist, or is hidden from the viewer. No response distinguishes the two cases."""


class Gone(ShoalError):
    """The object existed and was removed permanently, such as the profile of a suspended member."""


class Held(ShoalError):
    """The content was stored, and becomes public once it is approved (`core.publishing`). `held_id` is its id."""

    def __init__(self, held_id: int) -> None:
        super().__init__("This is not public yet: it is waiting for approval by a moderator")
        self.held_id = held_id


class Conflict(ShoalError):
    """The object was changed concurrently; it is safe to read it again and retry."""


class TooMany(ShoalError):
    """A rate limit was exceeded; retry after `retry_after` seconds."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class TooManyStreams(TooMany):
    """A member, a socket or the process has the maximum number of streams, which the message states."""


class TooManyMails(TooMany):
    """Too many mails were requested, for one account or from one IP address range."""


class Unavailable(ShoalError):
    """The store is unavailable; nothing was done, and the request may be retried after `retry_after` seconds."""

    def __init__(self, message: str, *, retry_after: float = 5.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class OutcomeUnknown(Unavailable):
    """A change was sent to the store without a response: it may have been stored, or not.

    The caller must not undo related work, for example delete uploaded files. Read again to learn the outcome, or retry an
    idempotent request.
    """


class NotYet(Unavailable):
    """Other work has to be done first; retry later."""

    backoff_seconds = 0.5
    """Seconds after which a job that raises this is retried."""


class NewerNeeded(NotYet):
    """The data were written by a newer Shoal, and only a newer Shoal can read or process them."""

    backoff_seconds = 5.0


class InUse(Unavailable):
    """Another process has the store open."""


class StorageFull(Unavailable):
    """The disk is full. Nothing was stored; reads still work."""


def is_refusal(error: BaseException) -> bool:
    """Return whether the error guarantees that nothing was stored, so that files created for the change can be deleted."""
    return isinstance(error, ShoalError) and not isinstance(error, OutcomeUnknown | Held)


def of_other_version(found: int, ours: int) -> str:
    """Describe a store whose schema version is not the supported one, and how to fix it."""
    if found > ours:
        return f"has schema version {found}, but this Shoal supports {ours}: run the newer Shoal that wrote it"
    return f"has schema version {found}, but this Shoal requires {ours}: start `shoal serve` once to upgrade it"


def missing_package(package: str, extra: str) -> str:
    return f"needs the package {package}: run `pip install -e '.[{extra}]'` in the directory with Shoal's source"


def with_cause(error: Exception) -> str:
    """Describe an error to the operator. The description of `Unavailable` includes the operating system's message."""
    words = in_words(error)
    cause: BaseException | None = error
    while isinstance(cause, ShoalError):
        cause = cause.__cause__
    if not isinstance(error, Unavailable) or not isinstance(cause, Exception):
        return words
    why = " ".join((in_words(cause) or type(cause).__name__).split())
    return words if why in words else f"{words} ({why})"


def in_words(error: Exception) -> str:
    """Describe an error of the operating system in one line, with the path but without the error number."""
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"{error.filename} does not exist"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return _ERRNO.sub("", str(error))
