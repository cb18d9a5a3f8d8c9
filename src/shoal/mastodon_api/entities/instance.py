"""JSON entities that describe this server: instance, activity, languages, nodeinfo and WebFinger."""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.mastodon_api.entities.moderation import Rule
from shoal.mastodon_api.entities.statuses import Account


class AccountsAllowed(msgspec.Struct, kw_only=True):
    """Limits on an account."""

    max_featured_tags: int
    max_pinned_statuses: int
    max_followed_tags: int
    signup_work: int
    """Bits of proof of work required for sign-up; 0 for none."""


class StatusesAllowed(msgspec.Struct, kw_only=True):
    """Limits on a status."""

    max_characters: int
    max_media_attachments: int
    characters_reserved_per_url: int
    supported_mime_types: list[str]


class MediaAllowed(msgspec.Struct, kw_only=True):
    """Accepted media files; sizes in bytes and pixels."""

    supported_mime_types: list[str]
    description_limit: int
    image_size_limit: int
    image_matrix_limit: int
    video_size_limit: int
    video_frame_rate_limit: int
    video_matrix_limit: int


class PollsAllowed(msgspec.Struct, kw_only=True):
    """Limits on a poll; expiry in seconds."""

    max_options: int
    max_characters_per_option: int
    min_expiration: int
    max_expiration: int


class ReactionsAllowed(msgspec.Struct):
    """Limits on emoji reactions."""

    max_reactions: int
    """Different emoji per account and status."""


class Configuration(msgspec.Struct, kw_only=True):
    """Limits on accounts, statuses, emoji, media and polls."""

    accounts: AccountsAllowed
    statuses: StatusesAllowed
    reactions: ReactionsAllowed
    media_attachments: MediaAllowed
    polls: PollsAllowed


class InstanceUrls(msgspec.Struct, kw_only=True):
    """URLs of this server's pages and streams; null for missing pages."""

    streaming: str
    status: str | None
    about: str | None
    privacy_policy: str | None
    terms_of_service: str | None


class PushKey(msgspec.Struct):
    """The public key of web push."""

    public_key: str


class Translation(msgspec.Struct):
    """Whether statuses can be translated."""

    enabled: bool


class Access(msgspec.Struct):
    """Who may read a feed, for local and remote posts: `public`, `authenticated` or `disabled`."""

    local: str
    remote: str


class TimelinesAccess(msgspec.Struct, kw_only=True):
    """Who may read each kind of timeline."""

    live_feeds: Access
    hashtag_feeds: Access
    trending_link_feeds: Access


class ConfigurationV2(Configuration, kw_only=True):
    """The configuration of the server in the format of API v2."""

    urls: InstanceUrls
    vapid: PushKey
    translation: Translation
    timelines_access: TimelinesAccess
    limited_federation: bool


class StreamingUrl(msgspec.Struct):
    """The URL of the streaming API."""

    streaming_api: str


class Stats(msgspec.Struct):
    """The size of the network."""

    user_count: int
    status_count: int
    domain_count: int


class InstanceV1(msgspec.Struct, kw_only=True):
    """This server in the format of API v1."""

    uri: str
    title: str
    short_description: str
    description: str
    email: str
    version: str
    urls: StreamingUrl
    stats: Stats
    thumbnail: str | None
    languages: list[str]
    registrations: bool
    approval_required: bool
    invites_enabled: bool
    configuration: Configuration
    contact_account: Account | None
    rules: list[Rule]


class ActiveUsers(msgspec.Struct):
    """Members who posted in the last 30 days."""

    active_month: int


class Usage(msgspec.Struct):
    """Usage of this server."""

    users: ActiveUsers


class Thumbnail(msgspec.Struct):
    """The image of the server."""

    url: str
    blurhash: str | None
    versions: dict[str, str]
    """The image for screens with one (`@1x`) and two (`@2x`) pixels per point."""


class Registrations(msgspec.Struct, kw_only=True):
    """The conditions of signing up."""

    enabled: bool
    approval_required: bool
    reason_required: bool | None
    message: str | None
    min_age: int | None
    url: str | None


class Contact(msgspec.Struct):
    """How to contact the operator."""

    email: str
    account: Account | None


class Icon(msgspec.Struct, kw_only=True):
    """An icon of this server, of the size `WxH`."""

    src: str
    size: str


class InstanceV2(msgspec.Struct, kw_only=True):
    """This server in the format of API v2."""

    domain: str
    title: str
    version: str
    source_url: str
    description: str
    usage: Usage
    thumbnail: Thumbnail
    icon: list[Icon]
    languages: list[str]
    configuration: ConfigurationV2
    registrations: Registrations
    api_versions: dict[str, int]
    contact: Contact
    rules: list[Rule]


class NodeinfoLink(msgspec.Struct):
    """A link to a version of the nodeinfo document."""

    rel: str
    href: str


class NodeinfoLinks(msgspec.Struct):
    """Links to the nodeinfo documents."""

    links: list[NodeinfoLink]


class Nodeinfo(msgspec.Struct, kw_only=True):
    """The software and size of this server, in the nodeinfo 2.0 schema."""

    version: str
    software: dict[str, str]
    protocols: list[str]
    services: dict[str, list[str]]
    openRegistrations: bool  # noqa: N815 (nodeinfo's own word)
    usage: dict[str, Any]
    metadata: dict[str, Any]


class Activity(msgspec.Struct):
    """The activity of a week. `week` is its start in Unix seconds. All numbers are strings."""

    week: str
    statuses: str
    logins: str
    registrations: str


class ExtendedDescription(msgspec.Struct):
    """The extended description of the server, as HTML."""

    updated_at: str | None
    content: str


class Language(msgspec.Struct):
    """A language of statuses."""

    code: str
    name: str


class WebFingerLink(msgspec.Struct, omit_defaults=True):
    """A link of an account."""

    rel: str
    type: str
    href: str


class WebFinger(msgspec.Struct):
    """The identity and links of an account (RFC 7033)."""

    subject: str
    aliases: list[str]
    links: list[WebFingerLink]
