"""Friends from elsewhere: accounts found by what the caller knows of them. Nothing that is sent is kept."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.api import rows
from shoal.api.context import Context
from shoal.api.entities.contacts import FoundContact, FoundContacts
from shoal.api.http.convert import Upload
from shoal.api.http.replies import raw
from shoal.api.listing import actor
from shoal.core.archives import MAX_ARCHIVE_BYTES, MOST_HANDLES
from shoal.core.errors import InvalidInput
from shoal.core.handles import MAX_HANDLE
from shoal.feeds.discover.contacts import ContactsFound, followees_by_handle, followees_in_archive

_CONTACTS = "/api/shoal/v1/contacts"

_Handle = Annotated[str, Meta(max_length=MAX_HANDLE)]


class FollowListParams(msgspec.Struct, frozen=True):
    """Whom the caller follows elsewhere: a file of another network's archive, or handles. One of the two."""

    file: Upload | None = None
    """`following_accounts.csv` of Mastodon, `following.json` of Pixelfed or Instagram, `following.js` of X, follows of Bluesky
    as JSON, or a list of handles as CSV or JSON; at most 4 MiB."""
    handles: Annotated[tuple[_Handle, ...], Meta(max_length=MOST_HANDLES)] = ()
    """Such as `ann@mastodon.social`, `ann.bsky.social` or `https://instagram.com/ann`."""


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


ROUTES = (
    rows.route(
        "POST",
        f"{_CONTACTS}/archive",
        in_archive,
        scope="read:follows",
        limit_class="archives",
        params=FollowListParams,
        max_body=MAX_ARCHIVE_BYTES + rows.FORM,
        answer=FoundContacts,
    ),
)
