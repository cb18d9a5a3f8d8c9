"""Every setting: its default and its unit, read once from the environment and a TOML file into one frozen value.

`SHOAL_<NAME>` in the environment wins over `<name>` in the file that `SHOAL_CONFIG` names (or `shoal.toml`, if there is one).
A setting that may hold a secret can also be read from a file: the file that `SHOAL_<NAME>_FILE` names, or the systemd credential
`shoal.<name>`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

Positive = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=3_600)]
Days = Annotated[float, msgspec.Meta(gt=0)]
LongText = Annotated[str, msgspec.Meta(max_length=100_000)]


Algorithm = Literal["RS256", "ES256", "EdDSA"]


class Issuer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A product whose signed JWTs are exchanged for tokens of its users. It has either a `jwks_url` or `keys`."""

    audience: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    """The value that the claim `aud` must have or contain."""
    jwks_url: Annotated[str, msgspec.Meta(max_length=2_000)] = ""
    """The https URL of the issuer's public keys (RFC 7517)."""
    keys: Annotated[tuple[dict[str, str | list[str]], ...], msgspec.Meta(max_length=100)] = ()
    """Public keys (JWK), instead of a URL."""
    algorithms: Annotated[tuple[Algorithm, ...], msgspec.Meta(min_length=1, max_length=3)] = ("RS256", "ES256", "EdDSA")
    """Accepted signature algorithms."""
    max_age_seconds: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = 3_600
    """Maximum age of a JWT by its claim `iat`."""
    token_seconds: Annotated[int, msgspec.Meta(ge=60, le=86_400)] = 3_600
    """Maximum seconds for which a token is valid. It expires so long after the JWT was issued, or with the JWT if that is later."""
    single_use: bool = False
    """Whether each JWT is exchanged once, by its claim `jti`, which is then required."""
    apps: Annotated[
        tuple[Annotated[str, msgspec.Meta(pattern="^[0-9]{1,19}$")], ...], msgspec.Meta(max_length=100)
    ] = ()
    """The `client_id` of each app that may exchange JWTs; empty: any app."""
    scopes: Annotated[
        tuple[Annotated[str, msgspec.Meta(pattern="^(read|write|follow|push|profile)(:[a-z]+)?$")], ...],
        msgspec.Meta(min_length=1, max_length=50),
    ] = ("read", "write", "follow", "push", "profile")
    """Scopes that a token may have; each includes its parts."""
    privileged_members: bool = False
    """Whether JWTs are exchanged for members with a role or a second factor. The exchange does not ask for a second factor."""


_Claim = Annotated[str, msgspec.Meta(max_length=100)]


class OidcClaims(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The names of the claims in which a login provider states each value. An empty name means that it has no such claim."""

    user_name: _Claim = "preferred_username"
    name: _Claim = "name"
    email: _Claim = "email"
    email_verified: _Claim = "email_verified"
    """Claim that is true if the provider has verified the address. Any other address is ignored."""


class OidcProvider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An OpenID Connect provider with which members log in."""

    issuer: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    """The provider's issuer, an https URL; its metadata is at `/.well-known/openid-configuration` below it."""
    client_id: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
    """The id with which this server is registered at the provider."""
    client_secret: Annotated[str, msgspec.Meta(max_length=2_000)] = ""
    """The secret of this registration; empty for a public client."""
    title: Annotated[str, msgspec.Meta(min_length=1, max_length=50)]
    """The name on the login button."""
    scopes: Annotated[str, msgspec.Meta(max_length=1_000)] = "openid profile email"
    """The scopes to request, separated by spaces, with `openid`."""
    claims: OidcClaims = OidcClaims()
    """The names of the claims for the user name, name and e-mail address."""
    email_domains: Annotated[tuple[str, ...], msgspec.Meta(max_length=100)] = ()
    """Domains of verified addresses that may log in, compared exactly; empty: all users of the provider may."""
    end_session: bool = False
    """Whether logging out also ends the session at the provider."""
    reauthentication: bool = True
    """Whether members may confirm with it that they own an account: it must state `auth_time` if `max_age` is requested."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of a server. The docstrings state the units."""

    store: str | dict[str, str] = "sqlite:///shoal.db"
    """Store of the graph: `sqlite:///path`, `postgresql://host/database`, `dynamodb://table?region=...`, `memory://`, or a
    shard map of data sources and parts of them, such as `{"0-16,17:0-63": url, "17:64-127,18-63": url}`."""
    timelines: str = "memory://"
    """Store of home timelines: `memory://` (one process), `redis://user:password@host:port` or
    `redis+cluster://host:port,host:port` (`rediss` for TLS), or `dynamodb://table?region=...`, a second table next to a store on
    DynamoDB. On Redis, processes share the timelines, the rate limits and the coherence of their caches; on DynamoDB they share
    the timelines and cache nothing between requests."""
    broker: str = ""
    """Broker that carries events to workers: `amqp://user:password@host:port/`, with several `host:port,host:port` of a
    cluster, `amqps` for TLS; empty: workers claim events from the store."""
    broker_queues: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    """Queues of the broker among which events are divided, equal for all processes; 1 to 64."""
    tags: str = ""
    """Store of the tag cloud: a URL as for `store`; empty: next to the first store."""
    tag_merge_tags: Annotated[int, msgspec.Meta(ge=1, le=50_000)] = 5_000
    """Number of changed tags at which a collector merges them into the tag cloud, and the maximum per merge: a larger
    increment is cut between posts, so only one post with more tags exceeds it; 1 to 50,000."""
    tag_merge_increments: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 500
    """Number of increments at which a collector merges, even if they change few tags; 1 to 1,000."""
    tag_merge_seconds: Annotated[float, msgspec.Meta(ge=0, le=60)] = 1.0
    """Maximum seconds between merges, which is about the delay of the tag cloud; 0 to 60."""
    tag_merge_pause_seconds: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.0
    """Seconds between two merges of a backlog, so that other users of the store keep some of its capacity; 0 to 60."""
    tag_cloud_refresh: Literal["notify", "poll"] = "notify"
    """How this process learns of a new version of the tag cloud: `notify`, collectors notify it, and it checks the store every 10
    seconds in case a message was lost; `poll`, it checks the store every second."""
    search: str | dict[str, str] = ""
    """Store of the search index: `sqlite:///path`, `postgresql://host/database`, `memory://` (one process), or a shard map of
    several; empty: next to the first store, or none if that is DynamoDB."""
    run_consequences: bool = True
    """Whether a web process processes events; false if `shoal worker` does."""
    media: str = ""
    """Store of media files: `file:///directory`, `s3://bucket/prefix?endpoint=...`, `memory://`; empty: next to the store."""
    base_url: str = ""
    """Public URL of the server, `https://example.org`; empty: `http://<host>:<port>`."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 8500
    """TCP port to listen on; 0 for a free one."""
    metrics_host: str = "127.0.0.1"
    """Address on which metrics are served. It should not be public."""
    metrics_port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 0
    """TCP port of `GET /metrics` for Prometheus; 0 for none. If one command starts several processes, they use consecutive
    ports from this one."""
    trusted_proxies: Annotated[tuple[str, ...], msgspec.Meta(max_length=1_000)] = ("127.0.0.0/8", "::1")
    """Addresses and address ranges of proxies whose `X-Forwarded-For` is trusted; a list in TOML, JSON in the environment."""
    connections_per_address: Count = 256
    """Maximum connections of an address (/64 of IPv6) to one process; a /48 of IPv6 may have four times as many; 0: no
    limit."""
    title: str = "Shoal"
    """Name of the network."""
    description: str = "A social network on Shoal."
    """Description of the network in one sentence, plain text."""
    contact_email: str = ""
    """E-mail address for questions of members."""
    mail: str = ""
    """Mail server: `smtp://user:password@host:587`, `smtps://user:password@host:465`, or `file:///directory` for
    development; empty: no mail is sent, and only operators can reset passwords."""
    mail_from: str = ""
    """Sender of mail: `post@example.org`, or `Name <post@example.org>`; empty: `no-reply@` and the host of `base_url`."""
    email_confirmation: Literal["none", "asked", "required"] = "asked"
    """Whether new members confirm their address by a mailed link, if mail is set up: `none`; `asked`; `required`: the account
    is unusable until then, and deleted after 7 days."""
    push_key: str = ""
    """Private key for web push, as printed by `shoal push key`. Keep it secret, and use one key for all processes. Empty: on
    SQLite a key is created next to the store (`<store>.push-key`); with other stores there is no web push."""
    push_networks: Annotated[tuple[str, ...], msgspec.Meta(max_length=1_000)] = ()
    """Address ranges that web push may send to in addition to the public internet, such as `10.1.0.0/16`: a list in TOML, JSON in
    the environment."""
    contact_account: str = ""
    """User name of the member shown as the contact."""
    rules: Annotated[tuple[str, ...], msgspec.Meta(max_length=100)] = ()
    """Rules of the network, one text each: a list in TOML, JSON in the environment."""
    terms_of_service: LongText = ""
    """Terms of service, plain text with blank lines between paragraphs; empty: no page. New members agree to them."""
    privacy_policy: LongText = ""
    """Privacy policy, plain text with blank lines between paragraphs; empty: no page."""
    registrations: bool = True
    """Whether anyone may sign up over HTTP."""
    approval: bool = False
    """Whether sign-ups wait for approval by a moderator."""
    signup_work: Annotated[int, msgspec.Meta(ge=0, le=20)] = 0
    """Bits of the proof of work that a browser does before a sign-up, against automated sign-ups; 0 to 20. 8 bits take a quarter
    of a second to a second, and each further bit doubles that. Sign-ups without a proof (without scripts, or by an app) wait for
    approval; 0: none."""
    invitations: Literal["off", "staff", "members"] = "off"
    """Members who may invite others by links, which allow sign-ups even if `registrations` is false, and without `approval`:
    `off`, no member; `staff`, moderators and admins; `members`, every member."""
    staff_second_factor: bool = False
    """Whether moderators and admins need a second factor to act as such."""
    public_pages: bool = True
    """Whether profiles, posts, tags and Explore in the web app are visible without a login."""
    token_days: Annotated[int, msgspec.Meta(ge=0, le=36_500)] = 365
    """Days without use after which an app's token expires; 0 to 36,500, 0: never."""
    password_grant: bool = True
    """Whether clients may exchange a user name and password for a token."""
    password_login: bool = True
    """Whether members sign up and log in with passwords; false: only with login providers and passkeys, and the web app shows no
    password form."""
    oidc_providers: Annotated[
        dict[Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9_-]{1,32}\Z")], OidcProvider], msgspec.Meta(max_length=20)
    ] = {}
    """OpenID Connect providers with which members log in, by a name for URLs: a table in TOML, JSON in the environment. Each has
    `issuer`, `client_id` and `title`; it may have `client_secret`, `scopes`, `claims`, `email_domains`,
    `end_session` and `reauthentication`."""
    issuers: Annotated[
        dict[Annotated[str, msgspec.Meta(min_length=1, max_length=255)], Issuer], msgspec.Meta(max_length=20)
    ] = {}
    """Products whose users get tokens in exchange for JWTs, by the claim `iss`: a table in TOML, JSON in the environment, such as
    `{"https://shop.example": {"audience": "shoal", "jwks_url": "https://shop.example/jwks.json"}}`. Each has `audience`, and
    `jwks_url` or `keys`; it may have `algorithms`, `max_age_seconds`, `token_seconds`, `single_use`, `apps`, `scopes` and
    `privileged_members`."""
    outgoing_networks: Annotated[tuple[str, ...], msgspec.Meta(max_length=1_000)] = ()
    """Address ranges that URLs in settings, such as a `jwks_url`, may lead to in addition to the public internet: a list in TOML,
    JSON in the environment. For web push, see `push_networks`."""
    webhook_networks: Annotated[tuple[str, ...], msgspec.Meta(max_length=1_000)] = ()
    """Address ranges that webhooks, also those of server keys, may lead to in addition to the public internet: a list in TOML,
    JSON in the environment."""
    moderation_hook: Annotated[str, msgspec.Meta(max_length=2_000)] = ""
    """The https URL that decides about posts, edits, profile changes and uploads before they are public; empty: none."""
    moderation_hook_secret: Annotated[str, msgspec.Meta(max_length=1_000)] = ""
    """The secret that signs requests to `moderation_hook`, as in Standard Webhooks: `whsec_` and at least 24 bytes in Base64."""
    moderation_hook_ms: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 300
    """Milliseconds that the author waits for the decision of the hook; 1 to 10,000."""
    moderation_hook_failure: Literal["allow", "hold"] = "allow"
    """What happens to content when the hook gives no decision: `allow`, it becomes public; `hold`, it waits for a moderator."""
    moderation_direct: bool = False
    """Whether direct messages are checked before they are delivered, too."""
    max_post_characters: Positive = 5_000
    """Maximum characters of a post; a link counts as 23."""
    max_media_per_post: Positive = 10
    """Maximum pictures of a post; a video or sound must be the only attachment."""
    max_upload_bytes: Positive = 16 * 1024 * 1024
    """Maximum bytes of an uploaded picture."""
    max_pixels: Positive = 40_000_000
    """Maximum pixels of an uploaded picture."""
    feed_edge: Annotated[int, msgspec.Meta(ge=640, le=8_192)] = 2_560
    """Pixels of the longer edge of the largest size of a picture in feeds; 640 to 8,192."""
    keep_originals: bool = False
    """Whether larger pictures are also kept in full resolution (without metadata), for downloads that their authors allow."""
    max_member_bytes: Positive = 10_000_000_000
    """Maximum bytes of all stored pictures, videos and sounds of a member."""
    max_video_bytes: Positive = 40 * 1024 * 1024
    """Maximum bytes of an uploaded video or sound. They are accepted if `ffmpeg` is installed."""
    max_video_seconds: Positive = 600
    """Maximum playing time of an uploaded video or sound, in seconds."""
    max_archive_bytes: Annotated[int, msgspec.Meta(ge=0)] = 1024 * 1024 * 1024
    """Maximum bytes of an archive of another network that a member uploads in the web app to import it; 0: no uploads."""
    archives: str = ""
    """Folder of uploaded archives until they are imported, which all web processes share; empty: `<store>.archives` next to an
    SQLite store, else `shoal.archives`."""
    max_follows: Positive = 7_500
    """Maximum number of members that a member may follow, or 1.1 times the number of their followers if that is more. Imports
    may exceed it."""
    leaving_days: Annotated[int, msgspec.Meta(ge=0, le=365)] = 30
    """Days during which a member may cancel the deletion of their account; 0 to 365, 0: it is deleted at once."""
    recipe: dict[str, float | dict[str, float]] = {}
    """Default weights of the feed ranked by interest: a table in TOML, JSON in the environment, as described in
    `docs/ranking.md`; empty: the preset `balanced`."""
    for_you_list: bool = False
    """Whether every member has a list "For you" with the feed ranked by interest, for clients that only know home and lists."""
    reports_to_hold: Count = 3
    """Number of members whose reports remove a post from public lists until a moderator closes one of the reports; 0: reports
    never do."""
    reporter_age_days: Annotated[float, msgspec.Meta(ge=0, le=365)] = 3.0
    """Minimum age in days of an account whose reports count towards `reports_to_hold`; 0 to 365."""
    timeline_length: Positive = 800
    """Maximum entries of a home timeline in memory, on Redis or on DynamoDB."""
    timeline_members: Positive = 100_000
    """Maximum home timelines in memory, if `timelines` is `memory://`: 8 bytes per entry, so 6.4 KB each."""
    timeline_idle_days: Days = 14.0
    """Days without a read after which a home timeline is dropped."""
    high_fan_out_from: Positive = 500_000
    """Number of followers above which a member's posts are pulled on read instead of pushed on write. Only followers with a
    materialized timeline count, or all followers if processes share the timelines. Below half of this number, posts are pushed
    again."""
    object_cache: Positive = 100_000
    """Kilobytes of decoded objects in memory; counts, short lists and JSON may take three times as much."""
    answer_cache: Count = 72_000
    """Kilobytes of cached responses (home pages, threads and profiles of the API and the web app). A home page takes 25 to 35,
    in the web app 80, and 5 to 10 more if processes share a store. The least recently used are evicted; 0: no cache."""
    tombstone_days: Days = 30.0
    """Days for which tombstones of deleted associations are kept, so that a late retry cannot revive them."""
    audit_days: Annotated[float, msgspec.Meta(ge=0, le=36_500)] = 365.0
    """Days for which entries of the audit log are kept; 0: permanently."""
    event_log: Literal["", "on", "off"] = ""
    """Whether the stores keep an event log, which other programs can follow: `on` or `off`; empty: as it was last set, off for a
    new store. Upgrade all processes before you turn it on. A process that starts with `off` deletes the log of all processes."""
    event_log_days: Annotated[float, msgspec.Meta(gt=0, le=3_650)] = 30.0
    """Days for which entries of the event log are kept; at most 3,650."""
    follow_history_days: Annotated[float, msgspec.Meta(ge=0, le=3_650)] = 400.0
    """Days for which ended follows are remembered, so that both members can look up when they followed each other, and how
    their followers grew; 0 to 3,650, 0: not at all."""
    rate_limits: bool = True
    """Whether requests are rate-limited per member and address."""
    limits: dict[str, str] = {}
    """Rate limits that differ from the defaults on the API page: `{"api": "600/5m", "signup": "off"}`, requests and a time in
    s, m or h."""
    requests_at_work: Count = 256
    """Maximum concurrent requests of a process; 0: no limit."""
    requests_waiting: Count = 1_024
    """Maximum requests that wait for a slot; further ones are refused at once (503)."""
    waiting_seconds: Seconds = 5.0
    """Seconds that a request waits for a slot before it is refused (503)."""
    most_behind_seconds: Annotated[float, msgspec.Meta(ge=0, le=3_600)] = 3.0
    """Maximum delay of deliveries in seconds, if a single process has the store: beyond a third of it, an increasing fraction
    of new posts and shares is refused (503), and at the maximum all; 0: none."""
    development: bool = False
    """Whether pages for developers of Shoal are served: `/dev/components` shows every component in all its states."""
    log_format: Literal["text", "json"] = "text"
    """Format of the log: `text`, or `json` with one object per line."""
    request_log: Literal["off", "slow", "all"] = "slow"
    """Requests and job runs to log: `off`, none; `slow`, only slow ones (`slow_ms`); `all`."""
    slow_ms: Annotated[float, msgspec.Meta(ge=1, le=60_000)] = 500.0
    """Milliseconds from which a request or job run is slow: `shoal why-slow` shows where the time went; 1 to 60,000."""
    opentelemetry: bool = False
    """Whether requests and jobs are exported as spans over OTLP, configured by the variables `OTEL_*`; needs `pip install -e
    '.[otel]'`."""
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    """Minimum level of log entries of Shoal on standard error. Libraries log only warnings and errors."""


_TABLES = {
    "store": "shard map",
    "search": "shard map",
    "limits": "table",
    "rules": "list",
    "trusted_proxies": "list",
    "push_networks": "list",
    "outgoing_networks": "list",
    "webhook_networks": "list",
    "issuers": "table",
    "oidc_providers": "table",
    "recipe": "table",
}
"""Settings that are written as JSON in the environment, each with its kind of value."""
RENAMED = {"loud_from": "high_fan_out_from"}
"""Settings that were renamed: the old name, which is still accepted, and the new name."""

SECRET = (
    "store",
    "timelines",
    "broker",
    "tags",
    "search",
    "media",
    "mail",
    "push_key",
    "oidc_providers",
    "moderation_hook_secret",
)
"""Settings that may contain a secret: keys, and URLs with passwords."""
_CREDENTIALS = "CREDENTIALS_DIRECTORY"
_SECRET_BYTES = 64 * 1024
"""Maximum bytes of the file of a secret. A shard map is the longest secret."""


class SettingsError(ValueError):
    pass


def build(**values: Any) -> Settings:
    """Return settings with these values. None and missing values mean the default. Raises `SettingsError`."""
    given = with_new_names({name: value for name, value in values.items() if value is not None})
    try:
        for name, what in _TABLES.items():
            # `store` and `search` may also be plain URLs instead of JSON.
            if isinstance(text := given.get(name), str) and (name not in {"store", "search"} or text.startswith("{")):
                del given[name]
                if text:
                    given[name] = _json(f"the {what} in {name}", text)
        return msgspec.convert(given, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"settings: {error}") from error


def with_new_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Rename settings with an old name to their new names. Raises `SettingsError` if `values` has both names."""
    for old, new in RENAMED.items():
        if old in values and new in values:
            raise SettingsError(f"settings: {old} was renamed to {new}: set only {new}")
    return {RENAMED.get(name, name): value for name, value in values.items()}


def _json(what: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise SettingsError(f"settings: {what} is not valid JSON: {error}") from error


def load(environ: Mapping[str, str] = os.environ, **overrides: Any) -> Settings:
    """Return the settings from a TOML file, the environment and `overrides`.

    The last of these that has a setting determines its value.

    A value of None is ignored.
    """
    variables = {name: environ.get(f"SHOAL_{name.upper()}") for name in (*Settings.__struct_fields__, *RENAMED)}
    values = with_new_names(_from_file(environ))
    values |= with_new_names({name: text for name, text in variables.items() if text is not None})
    values |= {name: secret_text(name, path) for name, path in secret_files(environ).items()}
    values |= with_new_names({name: value for name, value in overrides.items() if value is not None})
    return build(**values)


def secret_files(environ: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """Return the files of secret settings, by name of the setting.

    Raises `SettingsError` for a setting that is set in more than one way, and for a setting that may not be in a file
    because it is no secret.
    """
    for variable in environ:
        name = variable.removeprefix("SHOAL_").removesuffix("_FILE").lower()
        if variable == _file_variable(name) and name not in SECRET and name in Settings.__struct_fields__:
            raise SettingsError(
                f"settings: {variable}: only these settings can be read from files: {', '.join(SECRET)}"
            )
    found: dict[str, Path] = {}
    for name in SECRET:
        given: dict[str, Path | None] = {}
        if (variable := f"SHOAL_{name.upper()}") in environ:
            given[variable] = None
        if named := environ.get(_file_variable(name)):
            given[_file_variable(name)] = Path(named)
        if (folder := environ.get(_CREDENTIALS)) and (path := Path(folder, f"shoal.{name}")).exists():
            given[f"the credential shoal.{name}"] = path
        if len(given) > 1:
            raise SettingsError(f"settings: {name} is set more than once: by {' and by '.join(given)}")
        found.update((name, path) for path in given.values() if path is not None)
    return found


def _file_variable(name: str) -> str:
    return f"SHOAL_{name.upper()}_FILE"


def secret_text(name: str, path: Path) -> str:
    """Return the secret in a file: its contents without a newline at the end.

    Raises `SettingsError` if the file cannot be used. The message never contains the secret.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_SECRET_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"settings: {name}: cannot read {path}: {error.strerror}") from error
    if len(data) > _SECRET_BYTES:
        raise SettingsError(f"settings: {name}: {path} is longer than {_SECRET_BYTES:,} bytes")
    try:
        text = data.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError:
        raise SettingsError(f"settings: {name}: {path} is not UTF-8 text") from None
    if not text:
        raise SettingsError(f"settings: {name}: {path} is empty")
    return text


def environment(settings: Settings) -> dict[str, str]:
    """Return environment variables that pass these settings to a child process.

    They override its environment and its settings file.
    """
    given = {f"SHOAL_{name.upper()}": _as_text(getattr(settings, name)) for name in settings.__struct_fields__}
    # The settings include the secrets from files. Clear the names of these files, because a secret may be set only
    # once.
    return {**given, **{_file_variable(name): "" for name in SECRET}, _CREDENTIALS: ""}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def config_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the settings file, which need not exist: the value of `SHOAL_CONFIG`, or `shoal.toml`."""
    return Path(environ.get("SHOAL_CONFIG") or "shoal.toml")


def _from_file(environ: Mapping[str, str]) -> dict[str, Any]:
    path = config_path(environ)
    if not path.exists():
        if environ.get("SHOAL_CONFIG"):
            raise SettingsError(f"settings: the file {path} does not exist: name another with --config or SHOAL_CONFIG")
        return {}
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings: {path} is not valid TOML: {error}") from error
