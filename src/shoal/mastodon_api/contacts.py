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

router = Router()


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


_Hash = Annotated[str, Meta(max_length=BITS // 4)]
_Handle = Annotated[str, Meta(max_length=MAX_HANDLE)]


class HashesParams(msgspec.Struct, frozen=True, kw_only=True):
    """Hashes of e-mail addresses that the caller knows."""

    hashes: Annotated[tuple[_Hash, ...], Meta(max_length=MOST_HASHES)]
    """As `GET /api/shoal/v1/contacts/salt` says, 64 hexadecimal digits each."""


class FollowListParams(msgspec.Struct, frozen=True):
    """Whom the caller follows elsewhere: a file of another network's archive, or handles. One of the two."""

    file: Upload | None = None
    """`following_accounts.csv` of Mastodon, `following.json` of Pixelfed or Instagram, `following.js` of X, follows of Bluesky
    as JSON, or a list of handles as CSV or JSON; at most 4 MiB."""
    handles: Annotated[tuple[_Handle, ...], Meta(max_length=MOST_HANDLES)] = ()
    """Such as `ann@mastodon.social`, `ann.bsky.social` or `https://instagram.com/ann`."""


@router.get("/api/shoal/v1/contacts/salt", scope="read:follows", answer=HashTerms)
async def hash_terms(context: Context, _params: None) -> object:
    """The salt with which a client hashes e-mail addresses before it sends them, and how."""
    salt = await contact_salt(context.deps.writes)
    return HashTerms(salt=salt, algorithm=ALGORITHM, bits=BITS, most=MOST_HASHES)


@router.post(
    "/api/shoal/v1/contacts", scope="read:follows", limit_class="contacts", answer=FoundContacts, max_body=4 * FORM
)
async def by_hashes(context: Context, params: HashesParams) -> object:
    """Accounts of those who allow to be found by their e-mail address, by hashes of addresses that the caller knows."""
    return _shown(context, await contacts_by_hash(context.deps.reads, actor(context), params.hashes))


@router.post(
    "/api/shoal/v1/contacts/archive",
    scope="read:follows",
    limit_class="archives",
    answer=FoundContacts,
    max_body=MAX_ARCHIVE_BYTES + FORM,
)
async def in_archive(context: Context, params: FollowListParams) -> object:
    """Accounts here of those whom the caller follows on another network, by a file of its archive or by handles."""
    front, viewer = context.deps, actor(context)
    if (params.file is None) is not bool(params.handles):
        raise InvalidInput("file: either the file of an archive or handles, and not both", field="file")
    if params.file is None:
        return _shown(context, await followees_by_handle(front.reads, viewer, params.handles))
    archive = params.file.data
    params.file.close()
    return _shown(context, await followees_in_archive(front.reads, viewer, archive))


def _shown(context: Context, found: ContactsFound) -> FoundContacts:
    return FoundContacts(
        contacts=[
            FoundContact(
                account=raw(context.deps.present.account(one.profile)),
                given=one.given,
                match=one.match,
                following=one.following,
                requested=one.requested,
            )
            for one in found.matches
        ],
        asked=found.asked,
        unreadable=found.unreadable,
        more=found.more,
    )
