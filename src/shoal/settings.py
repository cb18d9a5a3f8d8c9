"""Every setting: its default and its unit, read once from the environment and a TOML file into one frozen value.

`SHOAL_<NAME>` in the environment wins over `<name>` in the file that `SHOAL_CONFIG` names (or `shoal.toml`, if there is one).
A setting that may hold a secret can also be the text of a file: of the one that `SHOAL_<NAME>_FILE` names, or of the systemd
credential `shoal.<name>`.
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


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a Shoal runs. Docstrings give the unit."""

    store: str | dict[str, str] = "sqlite:///shoal.db"
    """Where the graph is: `sqlite:///path`, `postgresql://host/database`, `dynamodb://table?region=...`, `memory://`, or a shard
    map such as `{"0-31": url, "32-63": url}`."""
    timelines: str = "memory://"
    """Where home timelines are: `memory://` (one process), `redis://user:password@host:port` or
    `redis+cluster://host:port,host:port` (`rediss` for TLS). There, several processes share them, and with them rate limits and
    what is known to be fresh."""
    broker: str = ""
    """The broker that carries events to workers: `amqp://user:password@host:port/`, with several `host:port,host:port` of a
    cluster, `amqps` for TLS; empty: they are claimed from the store."""
    tags: str = ""
    """Where the tag cloud is counted: a URL as for `store`; empty: beside the first store."""
    tag_merge_tags: Annotated[int, msgspec.Meta(ge=1, le=50_000)] = 5_000
    """Changed tags that make a collector merge them into the tag cloud, about as many at once; 1 to 50,000."""
    tag_merge_increments: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 500
    """Increments that make it merge, however few tags they change; 1 to 1,000."""
    tag_merge_seconds: Annotated[float, msgspec.Meta(ge=0, le=60)] = 1.0
    """Seconds after which it merges whatever has come; 0 to 60. The cloud is about as much behind."""
    tag_merge_pause_seconds: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.0
    """Seconds that it rests between two merges while more waits, so that a backlog leaves the store to others; 0 to 60."""
    search: str = ""
    """Where the search index is: `sqlite:///path`, `postgresql://host/database`, `memory://` (one process); empty: beside the
    first store, or nowhere when that is DynamoDB."""
    run_consequences: bool = True
    """Whether a web process works off events; false where `shoal worker` does."""
    media: str = ""
    """Where pictures are: `file:///directory`, `s3://bucket/prefix?endpoint=...`, `memory://`; empty: beside the store."""
    base_url: str = ""
    """How clients reach the server, `https://example.org`; empty: `http://<host>:<port>`."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 8500
    """TCP port to listen on; 0 takes a free one."""
    metrics_host: str = "127.0.0.1"
    """Address on which metrics are told. It should not be one that everybody can reach."""
    metrics_port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 0
    """TCP port where `GET /metrics` tells metrics for Prometheus; 0: nowhere. Of several processes that one command starts, the
    first has this port, and each other one the next."""
    trusted_proxies: Annotated[tuple[str, ...], msgspec.Meta(max_length=1_000)] = ("127.0.0.0/8", "::1")
    """Addresses and networks of proxies whose `X-Forwarded-For` is believed; a list in TOML, JSON in the environment."""
    connections_per_address: Count = 256
    """Connections that one address (/64 of IPv6) may have to one process, and a /48 of IPv6 four times as many; 0: no limit."""
    title: str = "Shoal"
    """Name of this network."""
    description: str = "A social network on Shoal."
    """One sentence about this network, plain text."""
    contact_email: str = ""
    """E-mail address for questions of members."""
    mail: str = ""
    """Where mail goes: `smtp://user:password@host:587`, `smtps://user:password@host:465`, or `file:///directory` while one
    develops; empty: no mail is sent, and forgotten passwords are for operators."""
    mail_from: str = ""
    """Sender of mail: `post@example.org`, or `Name <post@example.org>`; empty: `no-reply@` and the host of `base_url`."""
    email_confirmation: Literal["none", "asked", "required"] = "asked"
    """Whether new members get a mail by which they confirm their address, where mail is set up: `none`; `asked`; `required`: they
    cannot do anything before, and are deleted after 7 days."""
    push_key: str = ""
    """Private key for web push, as `shoal push key` prints it: the same for all processes, and kept secret; empty: one that is made
    and kept beside the store (`<store>.push-key`) on SQLite, and no web push with other stores."""
    push_networks: Annotated[tuple[str, ...], msgspec.Meta(max_length=1_000)] = ()
    """Networks beside the public internet that web push may send to, as `10.1.0.0/16`: a list in TOML, JSON in the environment."""
    contact_account: str = ""
    """User name of the member whom clients name as the contact."""
    rules: Annotated[tuple[str, ...], msgspec.Meta(max_length=100)] = ()
    """Rules of this network, one text each: a list in TOML, JSON in the environment."""
    registrations: bool = True
    """Whether anybody may sign up over HTTP."""
    approval: bool = False
    """Whether those who sign up wait until a moderator lets them in."""
    signup_work: Annotated[int, msgspec.Meta(ge=0, le=20)] = 0
    """Bits of work that the browser of somebody who signs up has to prove, against programs that do so by the thousand; 0 to 20.
    8 take a quarter of a second to a second, each further one twice as long. Without a proof, so without scripts or by an app, one
    waits for approval; 0: no work."""
    invitations: Literal["off", "staff", "members"] = "off"
    """Members who may invite others by links, through which they sign up also where `registrations` is false, and without waiting
    for `approval`: `off`, nobody; `staff`, moderators and admins; `members`, everybody."""
    staff_second_factor: bool = False
    """Whether moderators and admins can act as such only once they have a second factor."""
    public_pages: bool = True
    """Whether people who are not logged in may look at profiles, posts, tags and Explore in the web app."""
    token_days: Annotated[int, msgspec.Meta(ge=0, le=36_500)] = 365
    """Days after which the token of an app ends that nobody uses; 0 to 36,500, 0: never."""
    password_grant: bool = True
    """Whether clients may exchange a name and password for a token."""
    max_post_characters: Positive = 5_000
    """Characters in a post, a link counting as 23."""
    max_media_per_post: Positive = 4
    """Pictures in a post; a video or sound stands alone."""
    max_upload_bytes: Positive = 16 * 1024 * 1024
    """Bytes of an uploaded picture."""
    max_pixels: Positive = 40_000_000
    """Pixels of an uploaded picture."""
    feed_edge: Annotated[int, msgspec.Meta(ge=640, le=8_192)] = 2_560
    """Pixels of the longer edge of the largest copy of a picture that a feed shows; 640 to 8,192."""
    keep_originals: bool = False
    """Whether larger pictures are also kept in full resolution (without metadata), as `shoal.original_url`."""
    max_member_bytes: Positive = 10_000_000_000
    """Bytes of all pictures, videos and sounds of a member, as they are stored."""
    max_video_bytes: Positive = 40 * 1024 * 1024
    """Bytes of an uploaded video or sound. They are taken where `ffmpeg` is installed."""
    max_video_seconds: Positive = 600
    """Maximum playing time of an uploaded video or sound, in seconds."""
    max_archive_bytes: Annotated[int, msgspec.Meta(ge=0)] = 1024 * 1024 * 1024
    """Bytes of an archive of another network that a member sends in the web app to have it taken in; 0: members send none."""
    archives: str = ""
    """Folder where such archives lie until they are taken in; empty: `<store>.archives` beside an SQLite store, else
    `shoal.archives`. Several web processes share it, so it must be one for all of them."""
    max_follows: Positive = 7_500
    """Members whom one may follow; whoever has more followers may follow a tenth more than those. An import may bring more."""
    leaving_days: Annotated[int, msgspec.Meta(ge=0, le=365)] = 30
    """Days in which a member who deletes their account may come back; 0 to 365, 0: everything is deleted at once."""
    recipe: dict[str, float | dict[str, float]] = {}
    """Weights of the feed ranked by interest, for members who chose none: a table in TOML, JSON in the environment, as
    `docs/ranking.md` says; empty: the balanced ones."""
    for_you_list: bool = False
    """Whether every member has a list "For you" with the feed ranked by interest, for clients that know only home and lists."""
    reports_to_hold: Count = 3
    """Members whose reports take a post out of public lists until a moderator has closed one; 0: no post is held."""
    reporter_age_days: Annotated[float, msgspec.Meta(ge=0, le=365)] = 3.0
    """Days for which one must have been a member for a report to count there; 0 to 365."""
    timeline_length: Positive = 800
    """Entries that a warm home timeline holds."""
    timeline_members: Positive = 100_000
    """Warm home timelines that are kept in memory, where `timelines` is `memory://`: 8 bytes an entry, so 6.4 KB each."""
    timeline_idle_days: Days = 14.0
    """Days without a read after which a home timeline becomes cold."""
    loud_from: Positive = 500_000
    """Followers above which a member's posts are pulled when read instead of pushed when written: the warm ones, or all where
    several processes share timelines. With fewer than half as many followers they are pushed again."""
    object_cache: Positive = 100_000
    """Kilobytes of objects kept decoded in memory; counts, short lists and JSON may take three times as much."""
    answer_cache: Count = 72_000
    """Kilobytes of whole answers (home pages, threads, profiles; of the API, and as pages) that are used again while nothing they
    were made of has changed: a home page is 25 to 35, in the web app 80. At most twice as much; 0: none."""
    tombstone_days: Days = 30.0
    """Days for which ended associations are remembered, so that a late repeat cannot revive them."""
    audit_days: Annotated[float, msgspec.Meta(ge=0, le=36_500)] = 365.0
    """Days for which entries of the audit log are kept; 0: for good."""
    follow_history_days: Annotated[float, msgspec.Meta(ge=0, le=3_650)] = 400.0
    """Days for which the end of a follow is remembered, so that the two members can look up when they followed each other and
    each how their followers grew; 0 to 3,650, 0: not at all."""
    rate_limits: bool = True
    """Whether requests are limited per member and address."""
    limits: dict[str, str] = {}
    """How many requests of each class, for what is not to be as on the API page: `{"api": "600/5m", "signup": "off"}`; requests
    and a time in s, m or h."""
    requests_at_work: Count = 256
    """Requests that one process works on at a time; 0: as many as come."""
    requests_waiting: Count = 1_024
    """Requests that wait for others to be done; any further one is refused at once (503)."""
    waiting_seconds: Seconds = 5.0
    """Seconds that a request waits before it is refused (503)."""
    most_behind_seconds: Annotated[float, msgspec.Meta(ge=0, le=3_600)] = 3.0
    """Seconds that deliveries may be behind where one process has the store: beyond a third of that some of the new posts and
    shares are refused (503), the more the later deliveries are, and at it all; 0: none."""
    development: bool = False
    """Whether pages for those who work on Shoal are served: `/dev/components` shows every part of a page in all its states."""
    log_format: Literal["text", "json"] = "text"
    """Form of the log: `text`, or `json`, one object a line."""
    request_log: Literal["off", "slow", "all"] = "slow"
    """Requests and runs of jobs that have a line in the log: `off`, none; `slow`, those that take `slow_ms`; `all`."""
    slow_ms: Annotated[float, msgspec.Meta(ge=1, le=60_000)] = 500.0
    """Milliseconds from which on a request or a run of a job is slow: `shoal why-slow` tells where they went; 1 to 60,000."""
    opentelemetry: bool = False
    """Whether requests and jobs are sent as spans over OTLP, as the variables `OTEL_*` say; needs `pip install -e '.[otel]'`."""
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    """Lowest severity of the entries of Shoal itself on standard error. Libraries log warnings and errors only."""


_TABLES = {
    "store": "shard map",
    "limits": "table",
    "rules": "list",
    "trusted_proxies": "list",
    "push_networks": "list",
    "recipe": "table",
}
"""Settings that the environment gives as JSON."""

SECRET = ("store", "timelines", "broker", "tags", "search", "media", "mail", "push_key")
"""Settings that may hold a secret: keys, and URLs with passwords."""
_CREDENTIALS = "CREDENTIALS_DIRECTORY"
"""The variable in which systemd names the folder of the credentials of a service."""
_SECRET_BYTES = 64 * 1024
"""Most bytes of the file of a secret; the longest is a shard map."""


class SettingsError(ValueError):
    """A setting that does not exist, or a value that it does not take."""


def build(**values: Any) -> Settings:
    """Make settings of these values alone; None is the default. Raises `SettingsError`."""
    given = {name: value for name, value in values.items() if value is not None}
    try:
        for name, what in _TABLES.items():
            # A store may also be a plain URL.
            if isinstance(text := given.get(name), str) and (name != "store" or text.startswith("{")):
                del given[name]
                if text:
                    given[name] = _json(f"the {what} in {name}", text)
        return msgspec.convert(given, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"settings: {error}") from error


def _json(what: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise SettingsError(f"settings: {what} is not JSON: {error}") from error


def load(environ: Mapping[str, str] = os.environ, **overrides: Any) -> Settings:
    """Read settings from a TOML file, the environment and `overrides`, the last one winning; None is no override."""
    values: dict[str, Any] = _from_file(environ)
    for name in Settings.__struct_fields__:
        if (text := environ.get(f"SHOAL_{name.upper()}")) is not None:
            values[name] = text
    values.update({name: secret_text(name, path) for name, path in secret_files(environ).items()})
    values.update({name: value for name, value in overrides.items() if value is not None})
    return build(**values)


def secret_files(environ: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """Return the files that give settings their values, by the name of the setting.

    Raises `SettingsError` for a setting that is given in more than one way, and for a file of one that holds no secret.
    """
    for variable in environ:
        name = variable.removeprefix("SHOAL_").removesuffix("_FILE").lower()
        if variable == _file_variable(name) and name not in SECRET and name in Settings.__struct_fields__:
            raise SettingsError(f"settings: {variable}: only these are taken from files: {', '.join(SECRET)}")
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
            raise SettingsError(f"settings: {name} is given more than once: by {' and by '.join(given)}")
        found.update((name, path) for path in given.values() if path is not None)
    return found


def _file_variable(name: str) -> str:
    return f"SHOAL_{name.upper()}_FILE"


def secret_text(name: str, path: Path) -> str:
    """Read a secret: all of its file but one newline at the end. Raises `SettingsError`, without anything that it says."""
    try:
        with path.open("rb") as file:
            data = file.read(_SECRET_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"settings: {name}: {path} cannot be read: {error.strerror}") from error
    if len(data) > _SECRET_BYTES:
        raise SettingsError(f"settings: {name}: {path} is longer than {_SECRET_BYTES:,} bytes")
    try:
        text = data.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError:
        raise SettingsError(f"settings: {name}: {path} is not a text in UTF-8") from None
    if not text:
        raise SettingsError(f"settings: {name}: {path} is empty")
    return text


def environment(settings: Settings) -> dict[str, str]:
    """Return the variables that give a child process these settings, whatever its own environment and file say."""
    given = {f"SHOAL_{name.upper()}": _as_text(getattr(settings, name)) for name in settings.__struct_fields__}
    # They may hold what came from files, which the child must not be given once more.
    return {**given, **{_file_variable(name): "" for name in SECRET}, _CREDENTIALS: ""}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def config_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the settings file that `SHOAL_CONFIG` names, or `shoal.toml`; it need not exist."""
    return Path(environ.get("SHOAL_CONFIG") or "shoal.toml")


def _from_file(environ: Mapping[str, str]) -> dict[str, Any]:
    path = config_path(environ)
    if not path.exists():
        if environ.get("SHOAL_CONFIG"):
            raise SettingsError(f"settings: the file {path} is not there: name another with --config or SHOAL_CONFIG")
        return {}
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings: {path} is not TOML: {error}") from error
