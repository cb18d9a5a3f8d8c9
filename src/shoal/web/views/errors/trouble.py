"""The words of a page about an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from shoal.http.responses import Reply
from shoal.web.views.errors.complaints import complaint
from shoal.web.views.errors.refusals import sentence
from shoal.words.languages import Translated

_PREFIX = "Validation failed: "


class Trouble(msgspec.Struct, frozen=True):
    """An error, as it is told to people."""

    status: int
    title: str
    words: str
    hint: str
    """The next step that the page suggests."""
    request_id: str = ""
    """For whoever asks the operator; only where something went wrong on our side."""
    search: bool = False
    """Whether a search may help."""


def trouble_of(words: Translated, reply: Reply, request_id: str) -> Trouble:
    """Return what is said about a refusal."""
    _ = words.text
    seconds = dict(reply.headers).get("Retry-After", "1")
    told = _told(reply.body)
    said = sentence(complaint(words, told)) if told else ""
    match reply.status:
        case 401:
            return Trouble(401, _("Please log in"), said, _("This page is for members."))
        case 403:
            return Trouble(403, _("This is not open to you"), said, _("Go back, or to the start page."))
        case 404:
            hint = _("It may have been deleted, or the address has a typing error.")
            return Trouble(404, _("There is nothing here"), "", hint, search=True)
        case 410:
            return Trouble(410, _("This is gone"), said, _("It was here, and it will not come back."))
        case 405:
            return Trouble(405, _("This cannot be opened so"), said, _("Go back and try the button again."))
        case 413:
            return Trouble(413, _("This is too large"), said, _("Try again with less or with smaller files."))
        case 429:
            hint = words.plural(
                "Please wait %(n)s second and try again.", "Please wait %(n)s seconds and try again.", int(seconds)
            )
            return Trouble(429, _("That was a lot at once"), "", hint % {"n": words.number(int(seconds))})
        case 503:
            return Trouble(
                503,
                _("One moment"),
                said,
                _("A part of the network is away. Reading may go on; try again in a moment."),
            )
        case 507:
            return Trouble(
                507, _("No room left"), said, _("Nothing was stored. Please tell whoever runs this network.")
            )
        case status if status >= 500:
            hint = _("It was not your fault. If it happens again, tell whoever runs this network the number below.")
            return Trouble(status, _("Something went wrong"), "", hint, request_id)
    return Trouble(reply.status, _("This did not work"), said, _("Go back and try again."))


def _told(body: Any) -> str:
    # What OAuth calls an error is a word for programs; its description is for people.
    error = body.get("error_description") or body.get("error", "") if isinstance(body, Mapping) else ""
    return str(error).removeprefix(_PREFIX)
