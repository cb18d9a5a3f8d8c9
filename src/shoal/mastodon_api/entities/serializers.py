"""Pure functions that convert domain values to Mastodon entities, and the URLs in them.

There is one function per entity: accounts, media attachments, polls, filters, relationships, lists, preferences, applications and
tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import UNSET, UnsetType

from shoal import gazetteer
from shoal.core.filters import Filter
from shoal.core.ids import milliseconds_of
from shoal.core.licenses import License
from shoal.core.media_files import MISSING_AVATAR, MISSING_HEADER, still_of
from shoal.core.model import (
    App,
    Media,
    MediaKind,
    MediaState,
    Member,
    MemberList,
    Mention,
    Post,
    Role,
    Share,
    Token,
    Visibility,
)
from shoal.core.photo_details import PhotoDetails
from shoal.core.places import Location, Place
from shoal.core.ranking.recipes import Recipe, recipe_link
from shoal.core.text import to_html
from shoal.core.visibility import Relation
from shoal.i18n import language_tag
from shoal.mastodon_api.entities import statuses as entities
from shoal.mastodon_api.entities.statuses import Account, MediaAttachment, MediaExtras, Meta, Original, Point, Size
from shoal.queries.follows import FollowersOfDay, FollowPeriod, RelationshipHistory
from shoal.queries.hydration import Filtered, PollView, Profile
from shoal.queries.tags import Featured


class Addresses(msgspec.Struct, frozen=True):
    """The root URL and the domain of this server, and the URLs of its pages, objects and files."""

    root: str
    """`https://example.org`, without a trailing slash."""
    domain: str
    """The domain of this server in `@user@domain`."""

    @property
    def netloc(self) -> str:
        return urlsplit(self.root).netloc

    @property
    def path(self) -> str:
        """The path of the root URL without a trailing slash; empty if the root has no path."""
        return urlsplit(self.root).path

    @property
    def names(self) -> frozenset[str]:
        """The names of this server in URLs and in addresses such as `@ann@our.domain`: its domain and `host:port`, lower case."""
        return frozenset((self.domain.lower(), self.netloc.lower()))

    def account(self, name: str) -> str:
        return f"{self.root}/@{name}"

    def status(self, name: str, id_: int) -> str:
        """Return the URL of a post or share. It ends with the id, because clients read the id there."""
        return f"{self.root}/@{name}/{id_}"

    def tag(self, name: str) -> str:
        return f"{self.root}/tags/{quote(name)}"

    def recipe(self, recipe: Recipe) -> str:
        """Return the URL of the page that shows a ranking recipe, on which the viewer can adopt the recipe."""
        return recipe_link(self.root, recipe)

    def media(self, key: str) -> str:
        return f"{self.root}/media/{key}"

    def download(self, key: str) -> str:
        return f"{self.media(key)}?download"

    def avatar(self, key: str) -> str:
        return self.media(key) if key else self.root + MISSING_AVATAR

    def header(self, key: str) -> str:
        return self.media(key) if key else self.root + MISSING_HEADER

    def html(self, text: str, mentions: Iterable[Mention] = ()) -> str:
        """Return a member's text as HTML. Mentions, tags and URLs become links."""
        urls = {mention.name: self.account(mention.name) for mention in mentions}
        return to_html(text, mentions=urls, tag_url=self.tag, domain=self.domain)


_CHANNELS = {1: "mono", 2: "stereo"}


def attachment(media: Media, at: Addresses, *, downloads: bool = False) -> MediaAttachment:
    """Return a media attachment. `downloads` means that the author of the post allows downloads of its photos."""
    return MediaAttachment(
        id=str(media.id),
        type=media.kind.value,
        url=at.media(media.key) if media.state is MediaState.READY else None,
        preview_url=at.media(media.preview_key) if media.preview_key else None,
        meta=_meta(media),
        description=media.description or None,
        blurhash=media.blurhash or None,
        shoal=_media_extras(media, at, downloads=downloads and bool(media.largest_key)),
    )


def _media_extras(media: Media, at: Addresses, *, downloads: bool) -> MediaExtras | UnsetType:
    details = media.shown_details
    if details is None and not downloads:
        return UNSET
    return MediaExtras(
        original_url=at.download(media.largest_key) if downloads else UNSET,
        details=UNSET if details is None else _photo_details(details),
    )


def _photo_details(details: PhotoDetails) -> entities.PhotoDetails:
    return entities.PhotoDetails(
        camera=details.camera or None,
        lens=details.lens or None,
        exposure_time=details.exposure or None,
        aperture=details.aperture or None,
        iso=details.iso or None,
        focal_length=details.focal_length or None,
        taken_at=details.taken or None,
    )


def _meta(media: Media) -> Meta:
    focus = Point(*media.focus)
    small = _size(media.preview_width, media.preview_height) if media.preview_key else UNSET
    if media.state is not MediaState.READY:
        return Meta(small=small, focus=focus)
    if media.kind is MediaKind.IMAGE:
        return Meta(original=Original(**_pixels(media)), small=small, focus=focus)
    sound = _sound(media)
    playback: dict[str, Any] = {"duration": media.duration, "bitrate": media.bitrate}
    if media.kind is MediaKind.AUDIO:
        codec = {name: text for name, text in sound.items() if name != "audio_channels"}
        original = Original(**playback, **codec)
        return Meta(
            original=original, small=small, focus=focus, length=_length(media), duration=media.duration, **sound
        )
    return Meta(
        original=Original(width=media.width, height=media.height, frame_rate=media.frame_rate, **playback),
        small=small,
        focus=focus,
        length=_length(media),
        duration=media.duration,
        fps=round(Fraction(media.frame_rate)),
        **_pixels(media),
        **sound,
    )


def _pixels(media: Media) -> dict[str, Any]:
    width, height = media.width, media.height
    aspect = width / height if height else 0.0
    return {"width": width, "height": height, "size": f"{width}x{height}", "aspect": aspect}


def _size(width: int, height: int) -> Size:
    return Size(width, height, f"{width}x{height}", width / height if height else 0.0)


def _sound(media: Media) -> dict[str, Any]:
    if media.sound is None:
        return {}
    channels = media.sound.channels
    return {
        "audio_encode": media.sound.codec,
        "audio_bitrate": f"{media.sound.rate} Hz",
        "audio_channels": _CHANNELS.get(channels, f"{channels} channels"),
    }


def _length(media: Media) -> str:
    minutes, seconds = divmod(media.duration, 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours}:{minutes:02d}:{seconds:05.2f}"


WIRE_VISIBILITY = {
    Visibility.PUBLIC: "public",
    Visibility.UNLISTED: "unlisted",
    Visibility.FOLLOWERS: "private",
    Visibility.DIRECT: "direct",
}
VISIBILITY = {wire: visibility for visibility, wire in WIRE_VISIBILITY.items()}


def moment(milliseconds: int) -> str:
    whole = datetime.fromtimestamp(milliseconds // 1000, UTC).replace(tzinfo=None).isoformat()
    return f"{whole}.{milliseconds % 1000:03d}Z"


def account(profile: Profile, at: Addresses) -> entities.Account:
    shown = profile.member.location if profile.member.shows_location else None
    extras = entities.AccountExtras(location=_location(shown)) if shown is not None else UNSET
    return entities.Account(**_account(profile, at), shoal=extras)


def _location(location: Location | None) -> entities.Location | None:
    return entities.Location(location.country, location.town or None) if location is not None else None


def credential_account(profile: Profile, at: Addresses, requests: int = 0) -> entities.CredentialAccount:
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
    extras = entities.MemberExtras(
        location=_location(member.location),
        aggregate_reblogs=member.folds_shares,
        place_precision=member.place_precision.value,
        shows_location=member.shows_location,
        shows_photo_details=member.shows_photo_details,
        default_license=member.default_license,
        allows_downloads=member.allows_downloads,
    )
    return entities.CredentialAccount(**_account(profile, at), source=source, role=role(member.role), shoal=extras)


def role(value: Role) -> entities.Role:
    return _ROLES[value]


# Mastodon's permission bits. A moderator may view the dashboard (8) and the log (4), and manage users (1024), reports
# (16) and trends (256). An admin has all bits.
_ROLES = {
    Role.NONE: entities.Role(),
    Role.MODERATOR: entities.Role(id="1", name="Moderator", permissions="1308", highlighted=True),
    Role.ADMIN: entities.Role(id="2", name="Admin", permissions=str((1 << 20) - 1), highlighted=True),
}


def _roles(member: Member) -> list[entities.AccountRole]:
    own = role(member.role)
    return [entities.AccountRole(id=own.id, name=own.name)] if own.highlighted else []


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
    return html.removeprefix("<p>").removesuffix("</p>")


def content(
    post: Post, author: str, media: Iterable[Media], app: App | None, at: Addresses, *, data: bool = True
) -> entities.StatusContent:
    """Return the fields of a status that change only with an edit. The post's custom `data` may be left out."""
    url = at.status(author, post.id)
    return entities.StatusContent(
        id=str(post.id),
        uri=url,
        url=url,
        created_at=moment(post.created_at),
        edited_at=moment(post.edited_at) if post.edited_at else None,
        content=at.html(post.shown_text, post.mentions),
        card=_card(post),
        visibility=WIRE_VISIBILITY[post.visibility],
        sensitive=post.sensitive,
        spoiler_text=post.spoiler,
        language=language_tag(post.language) or None,
        media_attachments=[attachment(item, at, downloads=post.downloads) for item in media],
        mentions=[entities.StatusMention(str(id_), name, at.account(name), name) for id_, name in post.mentions],
        tags=[entities.StatusTag(name, at.tag(name)) for name in post.tags],
        application=entities.StatusApplication(app.name, app.website or None) if app else None,
        in_reply_to_id=str(post.parent_id) if post.parent_id else None,
        in_reply_to_account_id=str(post.parent_author_id) if post.parent_author_id else None,
        shoal=_extras(post, data=data),
    )


def _card(post: Post) -> entities.PreviewCard | None:
    shown = post.presentation
    if shown is None or not shown.link:
        return None
    return entities.PreviewCard(url=shown.link, title=shown.title or shown.link, image=shown.image or None)


def _extras(post: Post, *, data: bool) -> entities.Extras | UnsetType:
    licensed = post.license is not License.RESERVED
    if not (post.json or post.place or licensed or post.downloads):
        return UNSET
    return entities.Extras(
        data=msgspec.Raw(post.json.encode()) if post.json and data else UNSET,
        data_bytes=len(post.json.encode()) if post.json and not data else UNSET,
        kind=post.kind or UNSET,
        kind_version=post.kind_version or UNSET,
        place=_place(post.place) if post.place else None,
        license=post.license if licensed else UNSET,
        license_url=post.license.url if licensed else UNSET,
        downloads=post.downloads,
    )


def _place(place: Place) -> entities.Place:
    towns = gazetteer.installed()
    town = towns.town_near(place) if towns is not None else None
    return entities.Place(*place, town.name, town.country) if town is not None else entities.Place(*place)


def share_content(share: Share, sharer: str, at: Addresses) -> entities.StatusContent:
    """Return the fields of a share as a separate status. Its text is empty, because the shared post has the text."""
    url = at.status(sharer, share.id)
    return entities.StatusContent(
        id=str(share.id),
        uri=url,
        url=url,
        created_at=moment(milliseconds_of(share.id)),
        visibility=WIRE_VISIBILITY[share.visibility],
    )


def poll(view: PollView, viewer: int | None, now: int) -> entities.Poll:
    """Return a poll at a time (Unix ms). Until it closes, a poll may hide the votes per option, even from its author."""
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
    return entities.FilterSummary(
        id=str(found.id),
        title=found.title,
        context=[context.value for context in found.contexts],
        expires_at=moment(found.expires_at) if found.expires_at else None,
        filter_action=found.action.value,
    )


def filter_result(match: Filtered) -> entities.FilterResult:
    return entities.FilterResult(
        filter=filter_summary(match.filter),
        keyword_matches=list(match.keywords) or None,
        status_matches=list(map(str, match.posts)) or None,
    )


def relationship(other_id: int, relation: Relation) -> entities.Relationship:
    return entities.Relationship(
        id=str(other_id),
        following=relation.following,
        showing_reblogs=(relation.following or relation.requested) and relation.shares,
        notifying=relation.watching,
        languages=list(filter(language_tag, relation.languages)) or None,
        followed_by=relation.followed_by,
        blocking=relation.blocking,
        blocked_by=relation.blocked_by,
        muting=relation.muting,
        muting_notifications=relation.muting_notifications,
        muting_expires_at=moment(relation.muted_until) if relation.muted_until else None,
        requested=relation.requested,
        requested_by=relation.requested_by,
        endorsed=relation.endorsed,
        note=relation.note,
    )


def application(app: App, push_key: str) -> entities.Application:
    """Return an app without its secret. `push_key` is the server's public key for web push, or empty."""
    return entities.Application(**_application(app, push_key))


def credential_application(app: App, secret: str, push_key: str) -> entities.CredentialApplication:
    """Return an app with its secret. `push_key` is the server's public key for web push, or empty."""
    fields = _application(app, push_key)
    return entities.CredentialApplication(**fields, client_id=str(app.id), client_secret=secret)


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


ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105  # a name, no token


def token(made: Token, text: str) -> entities.Token:
    at = milliseconds_of(made.id)
    shown = entities.Token(text, "Bearer", " ".join(made.scopes), at // 1000)
    if made.expires_at:
        shown.expires_in, shown.issued_token_type = (made.expires_at - at) // 1000, ACCESS_TOKEN
    return shown


class MutedAccount(Account, kw_only=True):
    """An account that the caller mutes; `mute_expires_at` is null for a permanent mute."""

    mute_expires_at: str | None


class FamiliarFollowers(msgspec.Struct):
    """Followers of an account whom the caller also follows."""

    id: str
    accounts: list[Account]


class FollowedPeriod(msgspec.Struct):
    """A period of a follow. `since` is null if the start is unknown. `until` is null if the follow has not ended."""

    since: str | None
    until: str | None


class RelationshipTimes(msgspec.Struct):
    """When the caller and an account followed each other, newest first; at most 20 periods in each direction."""

    id: str
    following: list[FollowedPeriod]
    """When the caller followed the account."""
    followed_by: list[FollowedPeriod]
    """When the account followed the caller."""
    known_since: str
    """Follows that ended before this time are not recorded."""


class FollowersAtDay(msgspec.Struct):
    """The number of followers at the end of a day (UTC), or now for today, and how many follows began and ended that day."""

    day: str
    followers: int
    gained: int
    lost: int


class FeaturedTag(msgspec.Struct, kw_only=True):
    """A tag featured on a profile; `last_status_at` is a date."""

    id: str
    name: str
    url: str
    statuses_count: str
    last_status_at: str | None


class UserList(msgspec.Struct, kw_only=True):
    """A list that a member made of accounts. The accounts are requested separately."""

    id: str
    title: str
    replies_policy: str
    exclusive: bool


class Preferences(msgspec.Struct, kw_only=True):
    """A member's default settings for posting and reading."""

    visibility: str = msgspec.field(name="posting:default:visibility")
    sensitive: bool = msgspec.field(name="posting:default:sensitive")
    language: str | None = msgspec.field(name="posting:default:language")
    media: str = msgspec.field(name="reading:expand:media", default="default")
    spoilers: bool = msgspec.field(name="reading:expand:spoilers", default=False)
    gifs: bool = msgspec.field(name="reading:autoplay:gifs", default=False)
    aggregate_reblogs: bool = msgspec.field(name="shoal:aggregate_reblogs", default=True)
    """Whether a status appears once in the home timeline and in lists; set by `shoal[aggregate_reblogs]` of
    `update_credentials`."""
    rankable: bool = msgspec.field(name="shoal:rankable", default=True)
    """Whether the member's statuses may appear in ranked feeds; set by `shoal[rankable]` of `update_credentials`."""
    findable_by_email: bool = msgspec.field(name="shoal:findable_by_email", default=False)
    """Whether people who know the member's e-mail address can find them by it; set by `shoal[findable_by_email]`."""


def featured_tag(found: Featured, at: Addresses) -> FeaturedTag:
    return FeaturedTag(
        id=str(found.place),
        name=found.name,
        url=at.tag(found.name),
        statuses_count=str(found.posts),
        last_status_at=moment(found.newest)[:10] if found.newest else None,
    )


def user_list(found: MemberList) -> UserList:
    return UserList(id=str(found.id), title=found.title, replies_policy=found.replies.value, exclusive=found.exclusive)


def preferences(member: Member) -> Preferences:
    return Preferences(
        visibility=WIRE_VISIBILITY[member.default_visibility],
        sensitive=member.default_sensitive,
        language=language_tag(member.default_language) or None,
        aggregate_reblogs=member.folds_shares,
        rankable=member.rankable,
        findable_by_email=member.findable_by_email,
    )


def relationship_times(id_: int, history: RelationshipHistory) -> RelationshipTimes:
    return RelationshipTimes(
        id=str(id_),
        following=list(map(_followed, history.following)),
        followed_by=list(map(_followed, history.followed_by)),
        known_since=moment(history.known_since),
    )


def _followed(period: FollowPeriod) -> FollowedPeriod:
    since, until = (None if at is None else moment(at) for at in period)
    return FollowedPeriod(since, until)


def followers_at_day(day: FollowersOfDay) -> FollowersAtDay:
    return FollowersAtDay(day.day.isoformat(), day.followers, day.gained, day.lost)
