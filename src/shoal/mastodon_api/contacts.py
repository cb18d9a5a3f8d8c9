"""Contacts: find accounts by hashed e-mail addresses or in an export. Submitted data is not stored."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.commands.members import contact_salt
from shoal.core.email import ALGORITHM, BITS, MOST_HASHES
from shoal.core.errors import InvalidInput
from shoal.core.handles import MAX_ARCHIVE_BYTES, MAX_HANDLE, MOST_HANDLES
from shoal.http.params import Upload
from shoal.http.responses import raw
from shoal.mastodon_api.context import FORM, Context, Router, actor
from shoal.mastodon_api.entities.statuses import Account
from shoal.queries.members import ContactsFound, contacts_by_hash, followees_by_handle, followees_in_archive

router = Router(scope="read:follows")


class HashTerms(msgspec.Struct, kw_only=True):
    """How clients must hash e-mail addresses."""

    salt: str
    """The HMAC key, in hexadecimal."""
    algorithm: str
    """`HMAC-SHA256` of the address in UTF-8, lower case and without surrounding spaces."""
    bits: int
    """How many bits of a hash to send, as lower-case hexadecimal digits."""
    most: int
    """Maximum number of hashes per request."""


class FoundContact(msgspec.Struct, kw_only=True):
    """An account that may match an entry of the request."""

    account: Account
    given: str
    """The hash, or the normalized external account: `ann@mastodon.social`, `ann@instagram.com`,
    `ann.bsky.social@bsky.app`."""
    match: str
    """`email`: the e-mail address matches, and its owner allows to be found by it; `link`: the profile links to the
    external account; `name`: only the user name matches. None of them proves identity."""
    following: bool
    requested: bool


class FoundContacts(msgspec.Struct, kw_only=True):
    """Matching accounts: first those that the caller does not follow, then those that the caller follows.

    In each part, the most reliable match is first.
    """

    contacts: list[FoundContact]
    asked: int
    """The number of distinct hashes or external accounts in the request."""
    unreadable: int
    """The number of entries without a usable name, such as the numeric ids of X."""
    more: bool
    """Whether there are more than the 500 matches that a response contains. A long list may be sent in parts."""


_Hash = Annotated[str, Meta(max_length=BITS // 4)]
_Handle = Annotated[str, Meta(max_length=MAX_HANDLE)]


class HashesParams(msgspec.Struct, frozen=True, kw_only=True):
    hashes: Annotated[tuple[_Hash, ...], Meta(max_length=MOST_HASHES)]
    """64 hexadecimal digits each, computed as described by `GET /api/shoal/v1/contacts/salt`."""


class FollowListParams(msgspec.Struct, frozen=True):
    """Accounts that the caller follows on another network: a file from its archive, or a list of handles."""

    file: Upload | None = None
    """`following_accounts.csv` of Mastodon, `following.json` of Pixelfed or Instagram, `following.js` of X, follows of
    Bluesky as JSON, or a list of handles as CSV or JSON; at most 4 MiB."""
    handles: Annotated[tuple[_Handle, ...], Meta(max_length=MOST_HANDLES)] = ()
    """A handle such as `ann@mastodon.social`, `ann.bsky.social` or `https://instagram.com/ann`."""


@router.get("/api/shoal/v1/contacts/salt", answer=HashTerms)
async def get_hash_terms(context: Context, _params: None) -> object:
    """Return the salt and algorithm with which clients hash e-mail addresses before sending them."""
    salt = await contact_salt(context.app.writes)
    return HashTerms(salt=salt, algorithm=ALGORITHM, bits=BITS, most=MOST_HASHES)


@router.post("/api/shoal/v1/contacts", limit_class="contacts", answer=FoundContacts, max_body=4 * FORM)
async def find_by_hashes(context: Context, params: HashesParams) -> object:
    """Find accounts by hashed e-mail addresses. Only accounts that allow it are found."""
    return _shown(context, await contacts_by_hash(context.app.reads, actor(context), params.hashes))


@router.post(
    "/api/shoal/v1/contacts/archive",
    limit_class="archives",
    answer=FoundContacts,
    max_body=MAX_ARCHIVE_BYTES + FORM,
)
async def find_in_archive(context: Context, params: FollowListParams) -> object:
    """Find accounts of people whom the caller follows on another network, by a file of its archive or by handles."""
    app_context, viewer = context.app, actor(context)
    if (params.file is None) is not bool(params.handles):
        raise InvalidInput("file: give either an archive file or handles, not both", field="file")
    if params.file is None:
        return _shown(context, await followees_by_handle(app_context.reads, viewer, params.handles))
    archive = params.file.data
    params.file.close()
    return _shown(context, await followees_in_archive(app_context.reads, viewer, archive))


def _shown(context: Context, found: ContactsFound) -> FoundContacts:
    return FoundContacts(
        contacts=[
            FoundContact(
                account=raw(context.app.present.account(match.profile)),
                given=match.given,
                match=match.match,
                following=match.following,
                requested=match.requested,
            )
            for match in found.matches
        ],
        asked=found.asked,
        unreadable=found.unreadable,
        more=found.more,
    )
