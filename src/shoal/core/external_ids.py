"""External ids: the ids of members and other objects in another product, and user names for members whom that product proposes."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from shoal.core.errors import InvalidInput, TooLarge
from shoal.core.model import Node
from shoal.core.text import MAX_USER_NAME, normalized

MAX_BYTES = 255
"""Maximum bytes of an issuer, and of an id."""
MAX_PER_MEMBER = 5
_SHORT = 16
_DEFAULT_NAME = "member"
_NUMBERED = 10
_RANDOM_NAMES = 4


class ExternalId(NamedTuple):
    """The id of a member or another object at an issuer. Both are compared exactly, byte by byte."""

    issuer: str
    id: str

    @property
    def digest(self) -> str:
        """A hash that identifies the pair: it is unambiguous and has a fixed length."""
        issuer = self.issuer.encode()
        return sha256(len(issuer).to_bytes(2) + issuer + self.id.encode()).hexdigest()

    @property
    def short_digest(self) -> str:
        """The beginning of the digest, by which the audit log distinguishes external ids without naming them."""
        return self.digest[:_SHORT]

    def __str__(self) -> str:
        return f"{quote(self.issuer, safe='')}:{quote(self.id, safe='')}"


class ExternalLink(Node, frozen=True, tag="external_link"):
    """A link of an external id to a member. The key of the external id refers to it, and it is on the member's shard.

    Each attempt to link an external id uses a new id, so that a delayed request can neither complete nor undo a later one.
    """

    member_id: int = 0
    """0 if the link was given up before it was made. The object then prevents the delayed commit that would make it."""
    issuer: str = ""
    subject: str = ""
    own: bool = False
    """Whether the member linked it themselves: in the settings, or at a sign-up with an address that they had to confirm."""
    updated: int = 0
    """When the row of the member was last changed, when an import read it (Unix ms); 0 if the import did not read this time."""
    profile: str = ""
    """The digest of the profile that the import stored (`profile_digest`), by which a later one recognizes a change made here."""
    applying: str = ""
    """The digest of a profile that an import is storing, or was when it was interrupted."""
    pictures: bool = False
    """Whether an import has stored the avatar and the header of the member, so that it does not do so again."""

    @property
    def external(self) -> ExternalId:
        return ExternalId(self.issuer, self.subject)


class ExternalKind(StrEnum):
    """A kind of objects with external ids. Ids of different kinds may be equal."""

    POSTS = "posts"
    COMMENTS = "comments"
    MEDIA = "media"


DELETED_MEMBERS = "deleted_members"
"""The kind of external ids of members who deleted their account, so that a repeated import does not create them again."""


class ExternalObject(Node, frozen=True, tag="external_object"):
    """The object that has an external id. It is on the shard of its key and, like the key, remains when the object is deleted."""

    object_id: int = 0
    updated: int = 0
    """When the row of the object was last changed, when an import read it (Unix ms); 0 if the import did not read this time."""
    applying: int = 0
    """The time of a change that an import is applying, or was when it was interrupted (Unix ms)."""


def profile_digest(display_name: str, note: str) -> str:
    return sha256(f"{len(display_name)}:{display_name}{note}".encode()).hexdigest()[:_SHORT]


def external_id(issuer: str, id_: str) -> ExternalId:
    """Return an external id. Raises `InvalidInput` if a part is empty, longer than 255 bytes, or has an invalid character."""
    for field, text in (("issuer", issuer), ("id", id_)):
        if not text:
            raise InvalidInput(f"{field}: this must not be empty", field=field)
        if "\0" in text:
            raise InvalidInput(f"{field}: this must not contain the character U+0000", field=field)
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise InvalidInput(f"{field}: this must not contain a lone surrogate", field=field) from None
        if size > MAX_BYTES:
            raise TooLarge(f"{field}: at most {MAX_BYTES} bytes (got {size})", field=field)
    return ExternalId(issuer, id_)


_ENCODED = re.compile(r"(?:[!-$&-9;-~]|%[0-9A-Fa-f]{2})*")
"""Visible ASCII characters except the colon, and percent-encoded bytes."""


def parse_external_id(text: str) -> ExternalId:
    """Return the external id written as `ISSUER:ID`, with both parts percent-encoded. Raises `InvalidInput`."""
    issuer, colon, id_ = text.partition(":")
    if not colon or not _ENCODED.fullmatch(issuer) or not _ENCODED.fullmatch(id_):
        raise InvalidInput("expected ISSUER:ID, both percent-encoded, so that there is one colon")
    try:
        return external_id(unquote_to_bytes(issuer).decode(), unquote_to_bytes(id_).decode())
    except UnicodeDecodeError:
        raise InvalidInput("expected ISSUER:ID in UTF-8, percent-encoded") from None


def name_candidates(proposed: str) -> Iterator[str]:
    """Yield user names in order of preference for a proposed name: `ann`, `ann_2` ... `ann_9`, `ann_48211903`.

    Other characters than a-z, 0-9 and underscore are replaced. The names may be taken, reserved or blocked.
    """
    plain = re.sub(r"[^a-z0-9]+", "_", re.sub(r"[^\x00-\x7f]", "", normalized("NFKD", proposed[:500]).lower()))
    base = plain.strip("_") or _DEFAULT_NAME
    yield base[:MAX_USER_NAME]
    for ending in (*range(2, _NUMBERED), *(secrets.randbelow(10**8) for _ in range(_RANDOM_NAMES))):
        yield f"{base[: MAX_USER_NAME - 9].rstrip('_')}_{ending}"
