"""From what Shoal keeps to what the Mastodon API shows: one function an entity, each of them pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from shoal.api.entities import clients as client_entities
from shoal.api.entities import statuses as entities
from shoal.api.entities.addresses import Addresses
from shoal.api.entities.media_presenter import attachment
from shoal.core.filters import Filter
from shoal.core.ids import milliseconds_of
from shoal.core.media_files import still_of
from shoal.core.model import App, Media, Member, Post, Role, Share, Token, Visibility
from shoal.core.visibility import Relation
from shoal.queries.hydration import Filtered, PollView, Profile
from shoal.words.languages import language_tag

WIRE_VISIBILITY = {
    Visibility.PUBLIC: "public",
    Visibility.UNLISTED: "unlisted",
    Visibility.FOLLOWERS: "private",
    Visibility.DIRECT: "direct",
}
VISIBILITY = {wire: visibility for visibility, wire in WIRE_VISIBILITY.items()}


def moment(milliseconds: int) -> str:
    """Unix milliseconds as clients parse it: three digits of a second, and a Z."""
    whole = datetime.fromtimestamp(milliseconds // 1000, UTC).replace(tzinfo=None).isoformat()
    return f"{whole}.{milliseconds % 1000:03d}Z"


def account(profile: Profile, at: Addresses) -> entities.Account:
    """A member, as others see them."""
    return entities.Account(**_account(profile, at))


def credential_account(profile: Profile, at: Addresses, requests: int = 0) -> entities.CredentialAccount:
    """A member, as they see themselves; so many ask to follow them."""
    member = profile.member
    source = entities.Source(
        privacy=WIRE_VISIBILITY[member.default_visibility],
        sensitive=member.default_sensitive,
        language=language_tag(member.default_language),
        note=member.note,
        fields=[entities.Field(field.name, field.value) for field in member.fields],
        discoverable=member.discoverable,
        indexable=member.indexable,
        hide_collections=member.hides_connections,
        follow_requests_count=requests,
        attribution_domains=list(member.attribution_domains),
        quote_policy=member.quote_policy,
    )
    extras = entities.MemberExtras(member.folds_shares, member.place_precision.value)
    return entities.CredentialAccount(**_account(profile, at), source=source, role=role(member.role), shoal=extras)


def role(held: Role) -> entities.Role:
    """Return a member's role, with its permissions."""
    return _ROLES[held]


# The bits of Mastodon: a moderator sees the dashboard (8) and the log (4), and handles users (1024), reports (16) and
# trends (256); an admin has them all.
_ROLES = {
    Role.NONE: entities.Role(),
    Role.MODERATOR: entities.Role(id="1", name="Moderator", permissions="1308", highlighted=True),
    Role.ADMIN: entities.Role(id="2", name="Admin", permissions=str((1 << 20) - 1), highlighted=True),
}


def _roles(member: Member) -> list[entities.AccountRole]:
    held = role(member.role)
    return [entities.AccountRole(id=held.id, name=held.name)] if held.highlighted else []


def _account(profile: Profile, at: Addresses) -> dict[str, Any]:
    member = profile.member
    url, avatar, header = at.account(member.name), at.avatar(member.avatar), at.header(member.header)
    return {
        "id": str(member.id),
        "username": member.name,
        "acct": member.name,
        "url": url,
        "uri": url,
        "display_name": member.display_name,
        "note": at.html(member.note, member.mentions),
        "avatar": avatar,
        "avatar_static": at.avatar(still_of(member.avatar)),
        "header": header,
        "header_static": at.header(still_of(member.header)),
        "fields": [
            entities.Field(field.name, _inline(at.html(field.value, member.mentions))) for field in member.fields
        ],
        "bot": member.bot,
        "discoverable": member.discoverable,
        "indexable": member.indexable,
        "noindex": not member.indexable,
        "locked": member.locked,
        "hide_collections": member.hides_connections,
        "roles": _roles(member),
        "created_at": moment(member.created_at),
        "statuses_count": profile.posts,
        "followers_count": profile.followers,
        "following_count": profile.following,
        "limited": member.silenced or UNSET,
        "suspended": (member.suspended and not member.pending) or UNSET,
    }


def _inline(html: str) -> str:
    """A row of a table is no paragraph."""
    return html.removeprefix("<p>").removesuffix("</p>")


def content(
    post: Post, author: str, media: Iterable[Media], app: App | None, at: Addresses, *, data: bool = True
) -> entities.StatusContent:
    """The content of a post, with its `data` or without; `author` is the name of its author."""
    url = at.status(author, post.id)
    return entities.StatusContent(
        id=str(post.id),
        uri=url,
        url=url,
        created_at=moment(post.created_at),
        edited_at=moment(post.edited_at) if post.edited_at else None,
        content=at.html(post.text, post.mentions),
        visibility=WIRE_VISIBILITY[post.visibility],
        sensitive=post.sensitive,
        spoiler_text=post.spoiler,
        language=language_tag(post.language) or None,
        media_attachments=[attachment(item, at) for item in media],
        mentions=[entities.StatusMention(str(id_), name, at.account(name), name) for id_, name in post.mentions],
        tags=[entities.StatusTag(name, at.tag(name)) for name in post.tags],
        application=entities.StatusApplication(app.name, app.website or None) if app else None,
        in_reply_to_id=str(post.parent_id) if post.parent_id else None,
        in_reply_to_account_id=str(post.parent_author_id) if post.parent_author_id else None,
        shoal=_extras(post, data=data),
    )


def _extras(post: Post, *, data: bool) -> entities.Extras | UnsetType:
    if not post.json and post.place is None:
        return UNSET
    return entities.Extras(
        data=msgspec.Raw(post.json.encode()) if post.json and data else UNSET,
        data_bytes=len(post.json.encode()) if post.json and not data else UNSET,
        place=entities.Place(*post.place) if post.place else None,
    )


def share_content(share: Share, sharer: str, at: Addresses) -> entities.StatusContent:
    """Return the share as a status of its own, without text: the text is in the post that it shows."""
    url = at.status(sharer, share.id)
    return entities.StatusContent(
        id=str(share.id),
        uri=url,
        url=url,
        created_at=moment(milliseconds_of(share.id)),
        visibility=WIRE_VISIBILITY[share.visibility],
    )


def poll(view: PollView, viewer: int | None, now: int) -> entities.Poll:
    """A poll at a moment (Unix ms). What each option has may be hidden until the end, from the author as well."""
    shown, over = view.poll, bool(view.poll.expires_at) and view.poll.expires_at <= now
    hidden = shown.hide_totals and not over
    own = viewer == shown.owner_id
    return entities.Poll(
        id=str(shown.id),
        expires_at=moment(shown.expires_at) if shown.expires_at else None,
        expired=over,
        multiple=shown.multiple,
        votes_count=sum(view.votes),
        voters_count=view.voters if shown.multiple else None,
        options=[
            entities.PollOption(option.title, None if hidden else votes)
            for option, votes in zip(shown.options, view.votes, strict=True)
        ],
        voted=UNSET if viewer is None else own or view.choices is not None,
        own_votes=UNSET if viewer is None else list(view.choices or ()),
    )


def filter_summary(found: Filter) -> entities.FilterSummary:
    """A filter, without what it looks for."""
    return entities.FilterSummary(
        id=str(found.id),
        title=found.title,
        context=[context.value for context in found.contexts],
        expires_at=moment(found.expires_at) if found.expires_at else None,
        filter_action=found.action.value,
    )


def filter_result(match: Filtered) -> entities.FilterResult:
    """Return the filter that matches a status, and the keywords or statuses by which it does."""
    return entities.FilterResult(
        filter=filter_summary(match.filter),
        keyword_matches=list(match.keywords) or None,
        status_matches=list(map(str, match.posts)) or None,
    )


def relationship(other_id: int, stand: Relation) -> entities.Relationship:
    """How the caller stands to one member."""
    return entities.Relationship(
        id=str(other_id),
        following=stand.following,
        showing_reblogs=(stand.following or stand.requested) and stand.shares,
        notifying=stand.watching,
        languages=list(filter(language_tag, stand.languages)) or None,
        followed_by=stand.followed_by,
        blocking=stand.blocking,
        blocked_by=stand.blocked_by,
        muting=stand.muting,
        muting_notifications=stand.muting_notifications,
        muting_expires_at=moment(stand.muted_until) if stand.muted_until else None,
        requested=stand.requested,
        requested_by=stand.requested_by,
        endorsed=stand.endorsed,
        note=stand.note,
    )


def application(app: App, push_key: str) -> client_entities.Application:
    """A client program, without its secret. `push_key` is the server's public key for web push; empty for none."""
    return client_entities.Application(**_application(app, push_key))


def credential_application(app: App, secret: str, push_key: str) -> client_entities.CredentialApplication:
    """A client program, with its secret, and the server's public key for web push; empty for none."""
    fields = _application(app, push_key)
    return client_entities.CredentialApplication(**fields, client_id=str(app.id), client_secret=secret)


def _application(app: App, push_key: str) -> dict[str, Any]:
    return {
        "vapid_key": push_key,
        "id": str(app.id),
        "name": app.name,
        "website": app.website or None,
        "scopes": list(app.scopes),
        "redirect_uris": list(app.redirect_uris),
        "redirect_uri": "\n".join(app.redirect_uris),
    }


def token(made: Token, text: str) -> client_entities.Token:
    """A token, the once that its text is known."""
    return client_entities.Token(text, "Bearer", " ".join(made.scopes), milliseconds_of(made.id) // 1000)
