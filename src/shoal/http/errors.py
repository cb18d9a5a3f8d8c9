"""The table that maps each error to an HTTP status and a JSON body, and the messages of validation errors.

The table is read from top to bottom. The text of a `ShoalError` is safe to show and is shown. Any other error is logged in full
and answered with one fixed sentence. Errors of msgspec are reworded for the client: the field and its allowed values.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import inspect

from shoal.core import errors
from shoal.core.errors import InvalidInput
from shoal.http.responses import Header, Reply
from shoal.http.routes import inner_types

_log = logging.getLogger("shoal.api")

INTERNAL = "Something went wrong on our side"


class Malformed(errors.InvalidInput):
    """The request cannot be parsed, or lacks a required parameter."""


class NeedsMember(errors.NotAllowed):
    pass


class OutsideScopes(errors.NotAllowed):
    pass


class MethodNotAllowed(errors.ShoalError):
    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = ", ".join(sorted(allowed))
        super().__init__(f"This path takes {self.allowed}")


class RecordInvalid(errors.InvalidInput):
    """An error that Mastodon reports as exactly "Record invalid", a text that clients check."""


class Blank(errors.InvalidInput):
    """A required field is missing or empty."""


class NotAccepted(errors.InvalidInput):
    pass


class ValidationErrors(errors.InvalidInput):
    """Several errors, shown by a form at their fields."""

    def __init__(self, found: Sequence[errors.InvalidInput]) -> None:
        super().__init__(", ".join(map(str, found)))
        self.found = tuple(found)


class OAuthRefused(errors.ShoalError):
    """An OAuth error: `code` is defined in RFC 6749, and the message describes it."""

    def __init__(self, code: str, description: str, *, status: int = 400) -> None:
        super().__init__(description)
        self.code = code
        self.status = status


class Row(NamedTuple):
    """A row of the table of errors: the response to an error class."""

    error: type[errors.ShoalError]
    status: int
    text: str
    """The message of an error without text; if `fixed`, the message of every error of the class."""
    fixed: bool = False


_INVALID = Row(errors.InvalidInput, 422, "Record invalid")

TABLE = (
    Row(Malformed, 400, "The request could not be read"),
    Row(RecordInvalid, 422, "Record invalid", fixed=True),
    Row(errors.TooLarge, 413, "The request is too large"),
    _INVALID,
    Row(errors.Unauthenticated, 401, "The access token is invalid"),
    Row(NeedsMember, 422, "This method requires an authenticated user", fixed=True),
    Row(OutsideScopes, 403, "This action is outside the authorized scopes", fixed=True),
    Row(errors.NotAllowed, 403, "This action is not allowed"),
    Row(MethodNotAllowed, 405, "Method not allowed"),
    # The message is fixed, so that a missing object and a hidden one cannot be distinguished.
    Row(errors.NotFound, 404, "Record not found", fixed=True),
    Row(errors.Gone, 410, "This account is gone"),
    Row(errors.Held, 422, "This is waiting for approval by a moderator"),
    Row(errors.Conflict, 409, "This was changed at the same time; read it again and repeat the request"),
    Row(errors.TooManyStreams, 429, "Too many open streams"),
    Row(errors.TooMany, 429, "Too many requests", fixed=True),
    Row(errors.StorageFull, 507, "The server has no room left for this"),
    Row(errors.OutcomeUnknown, 503, "The server cannot tell whether this was done; look before you try again"),
    Row(errors.Unavailable, 503, "The server cannot do this now; try again in a moment"),
)
"""The table of errors. The first row whose class matches is used, so subclasses precede their parents."""

_CODES: tuple[tuple[type[errors.ShoalError], str], ...] = (
    (errors.Taken, "ERR_TAKEN"),
    (errors.Disallowed, "ERR_BLOCKED"),
    (Blank, "ERR_BLANK"),
    (NotAccepted, "ERR_ACCEPTED"),
    (errors.TooLarge, "ERR_TOO_LONG"),
    (errors.TooShort, "ERR_TOO_SHORT"),
    (errors.Reserved, "ERR_RESERVED"),
    (errors.InvalidInput, "ERR_INVALID"),
)


_BASIC: tuple[Header, ...] = (("WWW-Authenticate", 'Basic realm="Shoal"'),)
"""The header that tells an app how to authenticate (RFC 6749, section 5.2)."""


def reply_for(error: Exception, *, where: str = "") -> Reply:
    """Return the response to an error. `where` identifies the request in the log."""
    if isinstance(error, OAuthRefused):
        refused = {"error": error.code, "error_description": str(error)}
        return Reply(refused, error.status, headers=_BASIC if error.status == 401 else ())
    row = _row(error)
    if row is not None and isinstance(error, errors.ShoalError):
        return Reply(_body(error, row), row.status, _headers(error))
    _log.error("internal error in %s", where, exc_info=error)
    return Reply({"error": INTERNAL}, 500)


def http_status(error: errors.ShoalError) -> int:
    """Return the status with which the HTTP API responds to an error, for an application that embeds the library."""
    return reply_for(error).status


def _row(error: Exception) -> Row | None:
    # Status 413 is for requests and files that are too large. A field that is too long gets the status of invalid input.
    if isinstance(error, errors.TooLarge) and error.field:
        return _INVALID
    return next((row for row in TABLE if isinstance(error, row.error)), None)


def _body(error: errors.ShoalError, row: Row) -> dict[str, object]:
    text = row.text if row.fixed else str(error) or row.text
    # Clients compare the text of `Unfit` errors, so it must not begin with "Validation failed".
    if isinstance(error, errors.Held):
        return {"error": text, "held_id": str(error.held_id)}
    if row.status != 422 or row.fixed or isinstance(error, errors.Unfit) or not isinstance(error, errors.InvalidInput):
        return {"error": text}
    body: dict[str, object] = {"error": f"Validation failed: {text}"}
    details = {found.field: [_detail(found)] for found in _parts(error) if found.field}
    if details:
        body["details"] = details
    return body


def _parts(error: errors.InvalidInput) -> tuple[errors.InvalidInput, ...]:
    return error.found if isinstance(error, ValidationErrors) else (error,)


def _detail(error: errors.InvalidInput) -> dict[str, str]:
    code = next(code for kind, code in _CODES if isinstance(error, kind))
    return {"error": code, "description": str(error)}


def _headers(error: errors.ShoalError) -> tuple[Header, ...]:
    if isinstance(error, errors.TooMany | errors.Unavailable):
        return (("Retry-After", str(max(1, math.ceil(error.retry_after)))),)
    if isinstance(error, MethodNotAllowed):
        return (("Allow", error.allowed),)
    if isinstance(error, errors.Unauthenticated):
        return (("WWW-Authenticate", _bearer("invalid_token" if isinstance(error, errors.InvalidToken) else "")),)
    if isinstance(error, OutsideScopes):
        return (("WWW-Authenticate", _bearer("insufficient_scope")),)
    return ()


def _bearer(code: str) -> str:
    """Return the `WWW-Authenticate` header (RFC 6750, section 3). It contains an error code only if the client sent a token."""
    return f'Bearer realm="Shoal", error="{code}"' if code else 'Bearer realm="Shoal"'


_AT = " - at `$"
_INDEX = re.compile(r"\[[^\[\]]*\]")
_KINDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "Upload": "a file",
    "datetime": "a date and time as in ISO 8601",
}
_UNITS = {"str": "characters", "array": "items", "object": "items"}
_BOUNDS = {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than"}


def refusal(message: str, struct: type[Any]) -> InvalidInput:
    """Return an `InvalidInput` error for msgspec's error message about invalid data.

    If a field is missing, the error is `Malformed`, as in Mastodon.
    """
    # Take the last occurrence: the message may quote a value that contains the same text.
    text, at, path = message.rpartition(_AT)
    text, path = (text, path.removesuffix("`").removeprefix(".")) if at else (message, "")
    if missing := re.match(r"Object missing required field `(.+)`", text):
        field = f"{path}.{missing[1]}".lstrip(".")
        return Malformed(f"{field} is missing", field=field)
    field = path or "the request"
    return InvalidInput(f"{field} {_allowed(text, _without_indexes(path), struct)}", field=field)


def _allowed(text: str, path: str, struct: type[Any]) -> str:
    if text.startswith("Invalid enum value"):
        return f"must be one of {', '.join(filter(None, _choices(struct).get(path, ())))}"
    if match := re.match(r"Expected `(\w+)` of length (<=|>=) (\d+)", text):
        return f"must have {_BOUNDS[match[2]]} {match[3]} {_UNITS.get(match[1], 'items')}"
    if match := re.match(r"Expected `\w+` (<=|>=|<|>) (\S+)", text):
        return f"must be {_BOUNDS[match[1]]} {match[2]}"
    if match := re.match(r"Expected `(\w+)", text):
        return f"must be {_KINDS.get(match[1], 'of another kind')}"
    return "is malformed"


def _choices(struct: type[Any]) -> Mapping[str, tuple[str, ...]]:
    """Return the allowed values of each field that has a fixed set, by its path."""
    found: dict[str, tuple[str, ...]] = {}
    _collect_choices(inspect.type_info(struct), "", found)
    return found


def _collect_choices(info: inspect.Type, path: str, found: dict[str, tuple[str, ...]]) -> None:
    if isinstance(info, inspect.EnumType):
        found[_without_indexes(path)] = tuple(str(member.value) for member in info.cls)
    elif isinstance(info, inspect.LiteralType):
        found[_without_indexes(path.replace(" (values)", ""))] = tuple(map(str, info.values))
    for suffix, inner in inner_types(info):
        _collect_choices(inner, f"{path}{suffix}", found)


def _without_indexes(path: str) -> str:
    return _INDEX.sub("", path).removeprefix(".")
