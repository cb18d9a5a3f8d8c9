"""JSON entities that describe this server: instance, activity, languages, nodeinfo and WebFinger."""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.mastodon_api.entities.moderation import Rule
from shoal.mastodon_api.entities.statuses import Account


class CustomEmoji(msgspec.Struct, kw_only=True):
    """A picture with a name that stands in texts."""

    shortcode: str
    url: str
    static_url: str
    visible_in_picker: bool
    category: str | None


class AccountsAllowed(msgspec.Struct, kw_only=True):
    """How much an account may have."""

    max_featured_tags: int
    max_pinned_statuses: int
    max_followed_tags: int
    signup_work: int
    """Bits of work that somebody who signs up has to prove; 0: none."""


class StatusesAllowed(msgspec.Struct, kw_only=True):
    """How much a status may hold."""

    max_characters: int
    max_media_attachments: int
    characters_reserved_per_url: int
    supported_mime_types: list[str]


class MediaAllowed(msgspec.Struct, kw_only=True):
    """Which files are taken; sizes in bytes and pixels."""

    supported_mime_types: list[str]
    description_limit: int
    image_size_limit: int
    image_matrix_limit: int
    video_size_limit: int
    video_frame_rate_limit: int
    video_matrix_limit: int


class PollsAllowed(msgspec.Struct, kw_only=True):
    """How large a poll may be; expiration in seconds."""

    max_options: int
    max_characters_per_option: int
    min_expiration: int
    max_expiration: int


class ReactionsAllowed(msgspec.Struct):
    """Limits on emoji on a status."""

    max_reactions: int
    """Emoji that one account may put on one status."""


class Configuration(msgspec.Struct, kw_only=True):
    """Limits on accounts, statuses, emoji, media and polls."""

    accounts: AccountsAllowed
    statuses: StatusesAllowed
    reactions: ReactionsAllowed
    media_attachments: MediaAllowed
    polls: PollsAllowed


class InstanceUrls(msgspec.Struct, kw_only=True):
    """Addresses of this server's pages and of its streams; None for a page that it does not have."""

    streaming: str
    status: str | None
    about: str | None
    privacy_policy: str | None
    terms_of_service: str | None


class PushKey(msgspec.Struct):
    """The key of push messages."""

    public_key: str


class Translation(msgspec.Struct):
    """Whether statuses can be translated."""

    enabled: bool


class Access(msgspec.Struct):
    """The readers of a feed, for local and for remote posts: `public`, `authenticated` or `disabled`."""

    local: str
    remote: str


class TimelinesAccess(msgspec.Struct, kw_only=True):
    """The readers of each kind of timeline."""

    live_feeds: Access
    hashtag_feeds: Access
    trending_link_feeds: Access


class ConfigurationV2(Configuration, kw_only=True):
    """Limits and addresses, in the shape of the second version of the instance."""

    urls: InstanceUrls
    vapid: PushKey
    translation: Translation
    timelines_access: TimelinesAccess
    limited_federation: bool


class StreamingUrl(msgspec.Struct):
    """Where live updates are."""

    streaming_api: str


class Stats(msgspec.Struct):
    """How large the network is."""

    user_count: int
    status_count: int
    domain_count: int


class InstanceV1(msgspec.Struct, kw_only=True):
    """This server, in the older shape."""

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
    """How many posted in the last 30 days."""

    active_month: int


class Usage(msgspec.Struct):
    """How much goes on."""

    users: ActiveUsers


class Thumbnail(msgspec.Struct):
    """A picture for the server."""

    url: str
    blurhash: str | None
    versions: dict[str, str]
    """The picture for screens of one (`@1x`) and two (`@2x`) pixels per point."""


class Registrations(msgspec.Struct, kw_only=True):
    """Conditions of signing up."""

    enabled: bool
    approval_required: bool
    reason_required: bool | None
    message: str | None
    min_age: int | None
    url: str | None


class Contact(msgspec.Struct):
    """Whom to write to."""

    email: str
    account: Account | None


class InstanceV2(msgspec.Struct, kw_only=True):
    """This server, in the newer shape."""

    domain: str
    title: str
    version: str
    source_url: str
    description: str
    usage: Usage
    thumbnail: Thumbnail
    icon: list[Any]
    languages: list[str]
    configuration: ConfigurationV2
    registrations: Registrations
    api_versions: dict[str, int]
    contact: Contact
    rules: list[Rule]


class NodeinfoLink(msgspec.Struct):
    """Where one version of the node information is."""

    rel: str
    href: str


class NodeinfoLinks(msgspec.Struct):
    """Where the node information is."""

    links: list[NodeinfoLink]


class Nodeinfo(msgspec.Struct, kw_only=True):
    """The software of this server and its size, for surveys, by the schema of nodeinfo 2.0."""

    version: str
    software: dict[str, str]
    protocols: list[str]
    services: dict[str, list[str]]
    openRegistrations: bool  # noqa: N815 (nodeinfo's own word)
    usage: dict[str, Any]
    metadata: dict[str, Any]


class Activity(msgspec.Struct):
    """A week in numbers, all of them texts; `week` is its first second, Unix time."""

    week: str
    statuses: str
    logins: str
    registrations: str


class ExtendedDescription(msgspec.Struct):
    """More about the server, as HTML."""

    updated_at: str | None
    content: str


class Language(msgspec.Struct):
    """A language that statuses may be in."""

    code: str
    name: str


class WebFingerLink(msgspec.Struct, omit_defaults=True):
    """Where something of an account is."""

    rel: str
    type: str
    href: str


class WebFinger(msgspec.Struct):
    """Where an account is (RFC 7033)."""

    subject: str
    aliases: list[str]
    links: list[WebFingerLink]
