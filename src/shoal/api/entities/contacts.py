"""JSON shapes of friends from elsewhere."""

from __future__ import annotations

import msgspec

from shoal.api.entities.statuses import Account


class FoundContact(msgspec.Struct, kw_only=True):
    """An account that may be meant by what the caller sent."""

    account: Account
    given: str
    """The account elsewhere in its one form: `ann@mastodon.social`, `ann@instagram.com`, `ann.bsky.social@bsky.app`."""
    match: str
    """`link`: their profile names the account elsewhere; `name`: only the user name is the same. Neither is proved."""
    following: bool
    requested: bool


class FoundContacts(msgspec.Struct, kw_only=True):
    """Accounts that were found: those whom the caller does not follow first, and of these the surer ones first."""

    contacts: list[FoundContact]
    asked: int
    """Different accounts elsewhere that were looked for."""
    unreadable: int
    """Entries that name nobody, such as the numbers of X."""
    more: bool
    """Whether more were found than the 500 that an answer has. A list may be sent in parts."""
