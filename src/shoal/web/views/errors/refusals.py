"""Mistakes in a form, each at the field that it is about, in words for people."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from shoal.core.errors import Disallowed, InvalidInput, Reserved, ShoalError, Taken
from shoal.http.errors import Blank, NotAccepted, SeveralErrors
from shoal.web.views.errors.complaints import complaint
from shoal.words.languages import Translated

Wrong = Mapping[str, str]
"""Mistakes by the names of fields; under "" one that is about no field of the form."""
RIGHT: Wrong = MappingProxyType({})


def wrong_of(words: Translated, error: InvalidInput, **known: str) -> dict[str, str]:
    """Return what an error says, field by field. `known`: words for a field that are better than those of the error."""
    found = error.found if isinstance(error, SeveralErrors) else (error,)
    return {one.field or "": _said(words, one, known) for one in found}


def _said(words: Translated, error: InvalidInput, known: Mapping[str, str]) -> str:
    if isinstance(error, Taken):
        return _taken(words, error.field or "")
    if said := _of_kind(words, error):
        return said
    return known.get(error.field or "") or told(words, error)


def _of_kind(words: Translated, error: InvalidInput) -> str:
    """Return what is said of every error of a kind; empty where that depends on the field."""
    _ = words.text
    match error:
        case Blank():
            return _("Please fill this in.")
        case NotAccepted():
            return _("One can join only if one agrees to the rules.")
        case Disallowed():
            return _("Addresses of this provider are not taken here.")
        case Reserved():
            return _("This name is kept for the network itself. Please choose another one.")
    return ""


def _taken(words: Translated, field: str) -> str:
    if field == "email":
        return words.text("Somebody here has this address already. Log in instead, or use another one.")
    return words.text("This name is taken. Please choose another one.")


def told(words: Translated, error: ShoalError | None, field: str = "") -> str:
    """Return the message of an error as a sentence in a language, without the name that its field has in programs; "" for none."""
    known = field or (error.field or "" if isinstance(error, InvalidInput) else "")
    return sentence(complaint(words, bare(str(error), known))) if error else ""


def bare(text: str, field: str) -> str:
    """Return the message of an error without the name of its field, with which it may begin."""
    if field and text.startswith(f"{field} "):
        return f"This {text.removeprefix(field).lstrip()}"
    return text.removeprefix(f"{field}: ") if field else text


def sentence(text: str) -> str:
    """Return a text with a capital at the beginning and a full stop at the end."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")
