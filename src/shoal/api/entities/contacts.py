"""JSON shapes of friends from elsewhere."""

from __future__ import annotations

import msgspec

from shoal.api.entities.statuses import Account


class HashTerms(msgspec.Struct, kw_only=True):
    """How e-mail addresses are hashed here."""

    salt: str
    """The key of the hash, in hexadecimal digits."""
    algorithm: str
    """`HMAC-SHA256` of the address without spaces around it, in lower case, as UTF-8."""
    bits: int
    """How many bits of a hash are to be sent, as hexadecimal digits in lower case."""
    most: int
    """How many hashes may be sent at once."""


class FoundContact(msgspec.Struct, kw_only=True):
    """An account that may be meant by what the caller sent."""

    account: Account
    given: str
    """The hash, or the account elsewhere in its one form: `ann@mastodon.social`, `ann@instagram.com`,
    `ann.bsky.social@bsky.app`."""
    match: str
    """`email`: they allow to be found by their e-mail address, and this is it; `link`: their profile names the account elsewhere;
    `name`: only the user name is the same. None of them is proved."""
    following: bool
    requested: bool


class FoundContacts(msgspec.Struct, kw_only=True):
    """Accounts that were found: those whom the caller does not follow first, and of these the surer ones first."""

    contacts: list[FoundContact]
    asked: int
    """Different hashes or accounts elsewhere that were looked for."""
    unreadable: int
    """Entries that name nobody, such as the numbers of X."""
    more: bool
    """Whether more were found than the 500 that an answer has. A list may be sent in parts."""
