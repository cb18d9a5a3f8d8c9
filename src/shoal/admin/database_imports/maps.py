"""Import maps: TOML files that assign the tables and columns of a database to the fields of an import.

    issuer = "https://old.example"

    [[posts]]
    table = "articles"
    watermark = "updated_at"
    fields = { id = "id", author = "user_id", text = { column = "body", html = true }, created_at = "published_at" }

Every key is checked: an unknown one is refused with the nearest known name. Values are converted row by row; a value that does
not fit rejects its row with the names of the field and the column, and never ends the import.
"""

from __future__ import annotations

import contextlib
import difflib
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property, partial
from hashlib import blake2b
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from shoal.admin.archives.formats.plain_text import plain
from shoal.admin.imports.records import moment_of
from shoal.core.errors import InvalidInput, ShoalError
from shoal.core.external_ids import ExternalKind, external_id
from shoal.core.ids import now_ms
from shoal.core.model import Visibility

KINDS: Mapping[str, Mapping[str, str]] = {
    "members": {
        "id": "id",
        "name": "text",
        "display_name": "text",
        "note": "text",
        "language": "text",
        "created_at": "time",
        "updated_at": "time",
        "avatar": "text",
        "avatar_url": "text",
        "header": "text",
        "header_url": "text",
    },
    "follows": {"follower": "id", "followee": "id", "created_at": "time"},
    "media": {"id": "id", "post": "id", "path": "text", "url": "text", "description": "text"},
    "posts": {
        "id": "id",
        "author": "id",
        "title": "text",
        "text": "text",
        "spoiler": "text",
        "tags": "tags",
        "visibility": "visibility",
        "sensitive": "flag",
        "language": "text",
        "created_at": "time",
        "updated_at": "time",
        "deleted_at": "present",
        "kind": "text",
        "data": "json",
    },
    "comments": {
        "id": "id",
        "author": "id",
        "post": "id",
        "title": "text",
        "text": "text",
        "spoiler": "text",
        "tags": "tags",
        "visibility": "visibility",
        "sensitive": "flag",
        "language": "text",
        "created_at": "time",
        "updated_at": "time",
        "deleted_at": "present",
    },
    "shares": {"member": "id", "post": "id", "visibility": "visibility", "created_at": "time"},
    "likes": {"member": "id", "post": "id", "created_at": "time"},
    "bookmarks": {"member": "id", "post": "id", "created_at": "time"},
    "mutes": {"member": "id", "other": "id", "notifications": "flag"},
    "blocks": {"member": "id", "other": "id"},
}
"""The fields of each kind of section, with the type of their values. Sections are imported in this order."""

_REQUIRED = {
    "members": ("id", "name"),
    "follows": ("follower", "followee"),
    "media": ("post",),
    "posts": ("id", "author", "created_at"),
    "comments": ("id", "author", "post", "created_at"),
    "shares": ("member", "post"),
    "likes": ("member", "post"),
    "bookmarks": ("member", "post"),
    "mutes": ("member", "other"),
    "blocks": ("member", "other"),
}
PICTURES = frozenset({"avatar", "avatar_url", "header", "header_url"})
OWN_IDS = {"posts": ExternalKind.POSTS, "comments": ExternalKind.COMMENTS, "media": ExternalKind.MEDIA}
"""The kind of external ids in the field `id` of each section, if the section has no `ids`."""
_UNITS = {"seconds": 1_000.0, "milliseconds": 1.0, "microseconds": 0.001}
_TRUE, _FALSE = frozenset({"true", "t", "yes", "y", "1"}), frozenset({"false", "f", "no", "n", "0", ""})
MAX_BYTES = 256 * 1024
"""Maximum bytes of a map."""
MAX_SECTIONS = 50
_MAX_KEY = 4
_SHOWN = 60
_NOT_PRESENT = "neither a time nor true or false"
_PACKAGE = "shoal.admin.database_imports"

Row = Mapping[str, Any]


class Rejected(NamedTuple):
    """A value that does not fit. `reason` names the field and the column, and not the value, so that equal reasons are counted."""

    reason: str
    value: str


class RowError(Exception):
    """The row cannot be imported."""

    def __init__(self, rejected: Rejected) -> None:
        super().__init__(rejected.reason)
        self.rejected = rejected


class FieldMap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The source of a field: a column with conversions, or a constant."""

    column: str = ""
    columns: tuple[str, ...] = ()
    """Instead of one column: the columns of a text, joined by spaces, or those of an object, which are its properties."""
    value: str | int | float | bool | None = None
    """A constant, instead of a column."""
    default: str | int | float | bool | None = None
    """The value for rows in which the column is null or empty."""
    values: dict[str, str | bool] = {}
    """Replacements by the text of the value. A value without a replacement is rejected unless `values` has the key `*`."""
    prefix: str = ""
    """Text that is put before a value that is not empty."""
    html: bool = False
    """Whether the text is HTML, which is converted to plain text."""
    split: str = ""
    """The separator of a text with several tags."""
    time: str = ""
    """`seconds`, `milliseconds` or `microseconds` since 1970, or a format of `strptime`; otherwise ISO 8601 or a number."""
    zone: str = ""
    """The time zone of times without an offset; UTC otherwise."""
    ids: str = ""
    """Of a reference to a post: `posts` or `comments`, the kind of ids that it contains."""


class Section(msgspec.Struct, frozen=True, dict=True):
    """A table or query whose rows become objects of one kind."""

    kind: str
    fields: Mapping[str, FieldMap]
    table: str = ""
    query: str = ""
    key: tuple[str, ...] = ("id",)
    """Columns that identify a row, and order the rows."""
    watermark: str = ""
    """A column that never decreases. A repeated import reads only rows that are not older than the newest imported one."""
    ids: ExternalKind = ExternalKind.POSTS

    @property
    def title(self) -> str:
        return f"{self.kind} ({self.table or 'query'})"

    @property
    def order(self) -> tuple[str, ...]:
        """The columns by which rows are read.

        Comments are read by time, so that a comment follows its parent.
        """
        created = self.fields["created_at"].column if self.kind == "comments" else ""
        first = self.watermark or created
        return (first, *(column for column in self.key if column != first)) if first else self.key

    @property
    def columns(self) -> tuple[str, ...]:
        named = (column for spec in self.fields.values() for column in (spec.column, *spec.columns) if column)
        # The rows of media are found by their post, so their order only serves to list them equally each time.
        return tuple(dict.fromkeys((*named, *self.order)))

    @property
    def digest(self) -> str:
        """A name for the progress of this section. It changes with the map, which selects and rejects rows."""
        fields = msgspec.json.encode(self.fields, order="deterministic").decode()
        whole = "\n".join((self.kind, self.table, self.query, self.watermark, *self.order, self.ids, fields))
        return f"{self.kind}-{blake2b(whole.encode(), digest_size=8).hexdigest()}"

    def converted(self, row: Row) -> dict[str, Any]:
        """Return the fields of a row. Raises `RowError` for a value that does not fit."""
        return {name: convert(row) for name, convert in self._converters.items()}

    @cached_property
    def _converters(self) -> Mapping[str, Callable[[Row], Any]]:
        return {name: _converter(self.kind, name, spec) for name, spec in self.fields.items()}

    def where(self, row: Row) -> str:
        """Return the key of a row, for reports."""
        return "/".join(as_id(row.get(column)) for column in self.key)


class ImportMap(msgspec.Struct, frozen=True):
    issuer: str
    """The product whose ids the rows have, such as its URL."""
    sections: tuple[Section, ...]

    @property
    def has_files(self) -> bool:
        return any(section.kind == "media" or PICTURES & section.fields.keys() for section in self.sections)

    def of(self, kind: str) -> list[Section]:
        return [section for section in self.sections if section.kind == kind]


def ready_maps() -> list[str]:
    """Return the names of the maps that are part of Shoal."""
    folder = resources.files(_PACKAGE) / "ready_maps"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def read_map(name: str) -> str:
    """Return the text of the map in a file, or of the ready map with this name. Raises `InvalidInput`."""
    known = ready_maps()
    path = Path(name)
    try:
        if name in known:
            return (resources.files(_PACKAGE) / "ready_maps" / f"{name}.toml").read_text(encoding="utf-8")
        if path.stat().st_size > MAX_BYTES:
            raise InvalidInput(f"map: at most {MAX_BYTES} bytes (got {path.stat().st_size})")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidInput(f"map: no file {name}, and no ready map of this name ({', '.join(known)})") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"map: {name} cannot be read: {error}") from error


def parse_map(text: str, issuer: str = "") -> ImportMap:
    """Parse a map. `issuer` replaces that of the map. Raises `InvalidInput`, which names the key that is wrong."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"map: not valid TOML: {error}") from error
    _known(found, ("issuer", *KINDS), "map")
    named = issuer or found.get("issuer", "")
    if not isinstance(named, str) or not named:
        raise InvalidInput(
            "issuer: name the product that the ids belong to, such as its URL, in the map or by --issuer"
        )
    external_id(named, "1")
    sections = []
    for kind in KINDS:
        listed = found.get(kind, [])
        tables = [listed] if isinstance(listed, dict) else listed
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise InvalidInput(f"{kind}: expected a table, or several as [[{kind}]]")
        sections += [
            _section(kind, table, f"{kind}[{at}]" if len(tables) > 1 else kind) for at, table in enumerate(tables)
        ]
    if not sections:
        raise InvalidInput(f"map: no section; expected one of {', '.join(KINDS)}")
    if len(sections) > MAX_SECTIONS:
        raise InvalidInput(f"map: at most {MAX_SECTIONS} sections (got {len(sections)})")
    return ImportMap(named, tuple(sections))


def _known(given: Iterable[str], known: Iterable[str], where: str) -> None:
    expected = list(known)
    for name in given:
        if name not in expected:
            near = difflib.get_close_matches(name, expected, 1)
            hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(expected)}"
            raise InvalidInput(f"{where}: unknown key {name!r}; {hint}")


def _section(kind: str, given: dict[str, Any], where: str) -> Section:
    _known(given, ("table", "query", "key", "watermark", "ids", "fields"), where)
    types = {"table": str, "query": str, "watermark": str, "ids": str, "fields": dict}
    for name, type_ in types.items():
        if name in given and not isinstance(given[name], type_):
            raise InvalidInput(f"{where}.{name}: expected {'a table' if type_ is dict else 'a text'}")
    key = _key(given.get("key", "id"), where)
    table, query = given.get("table", ""), given.get("query", "")
    if bool(table) == bool(query):
        raise InvalidInput(f"{where}: expected either table or query")
    if kind == "media" and "watermark" in given:
        raise InvalidInput(f"{where}.watermark: media are read with their posts, so they have no watermark")
    fields = _fields(kind, given.get("fields", {}), where)
    ids = given.get("ids")
    if ids is not None and kind not in OWN_IDS:
        raise InvalidInput(f"{where}.ids: only posts, comments and media have ids of a kind")
    return Section(
        kind=kind,
        fields=fields,
        table=table,
        query=query.strip().rstrip(";"),
        key=key,
        watermark=given.get("watermark", ""),
        ids=_kind_of_ids(ids, f"{where}.ids") if ids is not None else OWN_IDS.get(kind, ExternalKind.POSTS),
    )


def _key(given: object, where: str) -> tuple[str, ...]:
    columns = [given] if isinstance(given, str) else given
    if (
        not isinstance(columns, list)
        or not columns
        or not all(isinstance(column, str) and column for column in columns)
    ):
        raise InvalidInput(f"{where}.key: expected the name of a column, or a list of names")
    if len(columns) > _MAX_KEY:
        raise InvalidInput(f"{where}.key: at most {_MAX_KEY} columns (got {len(columns)})")
    return tuple(columns)


def _kind_of_ids(given: str, where: str) -> ExternalKind:
    try:
        return ExternalKind(given)
    except ValueError:
        raise InvalidInput(f"{where}: expected one of {', '.join(ExternalKind)} (got {given!r})") from None


def _fields(kind: str, given: dict[str, Any], where: str) -> dict[str, FieldMap]:
    _known(given, KINDS[kind], f"{where}.fields")
    fields = {name: _field(kind, name, spec, f"{where}.fields.{name}") for name, spec in given.items()}
    for name in _REQUIRED[kind]:
        if name not in fields:
            raise InvalidInput(f"{where}.fields: {name} is missing")
    if kind == "media" and ("path" in fields) == ("url" in fields):
        raise InvalidInput(f"{where}.fields: expected either path or url")
    for which in ("avatar", "header"):
        if which in fields and f"{which}_url" in fields:
            raise InvalidInput(f"{where}.fields: expected either {which} or {which}_url")
    if kind == "media" and not fields["post"].column:
        raise InvalidInput(f"{where}.fields.post: expected a column")
    return fields


def _field(kind: str, name: str, given: object, where: str) -> FieldMap:
    if isinstance(given, str):
        given = {"column": given}
    if not isinstance(given, dict):
        raise InvalidInput(f"{where}: expected the name of a column, or a table with column or value")
    _known(given, FieldMap.__struct_fields__, where)
    try:
        spec = msgspec.convert(given, FieldMap)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{where}: {error}") from error
    if [bool(spec.column), bool(spec.columns), spec.value is not None].count(True) != 1:
        raise InvalidInput(f"{where}: expected one of column, columns and value")
    type_ = KINDS[kind][name]
    allowed = {
        "time": ("time", "zone"),
        "tags": ("split",),
        "json": ("columns",),
        "text": ("columns", "html"),
        "id": ("ids",),
    }.get(type_, ())
    for option in ("columns", "time", "zone", "split", "html", "ids"):
        if option in given and option not in allowed:
            raise InvalidInput(f"{where}.{option}: not for this field, which is of the type {type_}")
    if spec.ids and name != "post":
        raise InvalidInput(f"{where}.ids: only for references to posts")
    if spec.ids:
        _kind_of_ids(spec.ids, f"{where}.ids")
    if spec.zone:
        try:
            ZoneInfo(spec.zone)
        except (KeyError, OSError, ValueError):
            raise InvalidInput(f"{where}.zone: unknown time zone {spec.zone!r}") from None
    return spec


def as_id(value: object) -> str:
    """Return an id as text: a UUID in its usual form, and a number in decimal."""
    if value is None:
        return ""
    if isinstance(value, memoryview | bytearray):
        value = bytes(value)
    if isinstance(value, bytes):
        # MySQL has UUIDs as 16 bytes.
        return str(UUID(bytes=value)) if len(value) == 16 else _text_or_hex(value)
    if isinstance(value, Decimal | float) and math.isfinite(value) and value == int(value):
        return str(int(value))
    return str(value)


def _text_or_hex(value: bytes) -> str:
    # Ids with replaced characters could be equal.
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.hex()


def _converter(kind: str, name: str, spec: FieldMap) -> Callable[[Row], Any]:
    """Return a function that converts a field of a row. Raises `RowError`."""
    checked = partial(_converted, kind, name, spec)
    if not spec.column or spec.default is not None or spec.values:
        return checked
    # Most fields are a column without options, and are converted directly.
    column, convert = spec.column, _CONVERSIONS[KINDS[kind][name]]

    def converted(row: Row) -> Any:
        try:
            return convert(row.get(column), spec)
        except (ShoalError, ValueError, TypeError, OverflowError):
            return checked(row)

    return converted


def _converted(kind: str, name: str, spec: FieldMap, row: Row) -> Any:
    raw = row.get(spec.column) if spec.column else spec.value
    if spec.columns and KINDS[kind][name] == "json":
        raw = {column: _property(row[column]) for column in spec.columns if row.get(column) is not None}
    elif spec.columns:
        raw = " ".join(filter(None, (_text(row.get(column), FieldMap()).strip() for column in spec.columns)))
    value = spec.default if raw is None or (raw == "" and spec.default is not None) else raw
    type_ = KINDS[kind][name]
    try:
        if spec.values and value is not None:
            text = as_id(value) if not isinstance(value, bool) else str(value).lower()
            if text not in spec.values and "*" not in spec.values:
                raise InvalidInput("this value is not in values")
            value = spec.values.get(text, spec.values.get("*"))
        return _CONVERSIONS[type_](value, spec)
    except (ShoalError, ValueError, TypeError, OverflowError) as error:
        columns = ", ".join(filter(None, (spec.column, *spec.columns)))
        source = f"{name} (column {columns})" if columns else name
        reason = str(error) if isinstance(error, InvalidInput) else "invalid value"
        raise RowError(Rejected(f"{source}: {reason}", repr(raw)[:_SHOWN])) from None


def _text(value: Any, spec: FieldMap) -> str:
    if value is None:
        return ""
    text = value.decode(errors="replace") if isinstance(value, bytes | bytearray) else str(value)
    if spec.html:
        text = plain(text)
    return f"{spec.prefix}{text}" if text else ""


def _id(value: Any, spec: FieldMap) -> str:
    if type(value) is int and not spec.prefix and value.bit_length() < 64:
        return str(value)
    text = as_id(value)
    if not text:
        raise InvalidInput("empty")
    if isinstance(value, Decimal | float) and not math.isfinite(value):
        raise InvalidInput("not a finite number")
    # Only the length and the characters are checked here: the issuer is checked with the map.
    return external_id("x", f"{spec.prefix}{text}").id


def _flag(value: Any, _spec: FieldMap) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, bytes):
        # MySQL has a BIT(1) as a byte.
        value = int.from_bytes(value)
    text = "" if value is None else str(value).lower()
    if text not in _TRUE | _FALSE:
        raise InvalidInput("neither true nor false")
    return text in _TRUE


def _present(value: Any, _spec: FieldMap) -> bool:
    """Return whether a row has a time, or a flag is set. The time 0000-00-00 of MySQL is none."""
    if isinstance(value, date):
        return True
    if isinstance(value, int | float | Decimal):
        if not math.isfinite(value):
            raise InvalidInput(_NOT_PRESENT)
        return value != 0
    with contextlib.suppress(InvalidInput):
        return _flag(value, _spec)
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    # Other texts, such as NULL in a CSV file, must not delete posts.
    if not any(character in "0123456789" for character in text):
        raise InvalidInput(_NOT_PRESENT)
    return any(character in "123456789" for character in text)


def _visibility(value: Any, _spec: FieldMap) -> Visibility:
    # An unknown visibility must not become public.
    if value is None or value == "":
        raise InvalidInput("empty, and the map has no default for it")
    try:
        return Visibility(str(value))
    except ValueError:
        raise InvalidInput(f"expected one of {', '.join(Visibility)}") from None


def _tags(value: Any, spec: FieldMap) -> tuple[str, ...]:
    if isinstance(value, str) and not spec.split and value.startswith("["):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            raise InvalidInput("not a JSON list") from None
    if isinstance(value, list | tuple):
        parts = [str(part) for part in value]
    else:
        text = _text(value, spec)
        parts = text.split(spec.split) if spec.split else text.split()
    return tuple(tag for part in parts if (tag := part.strip().removeprefix("#")))


def _property(value: Any) -> Any:
    """Return the value of a column as a property of an object: a decimal number as a JSON number."""
    if isinstance(value, Decimal) and value.is_finite():
        return int(value) if value == int(value) else float(value)
    return value


def _json(value: Any, _spec: FieldMap) -> Any:
    """Return a JSON value: that of a JSON text, of a JSON column, or of an object of columns; None if it is empty."""
    if isinstance(value, str | bytes):
        try:
            return msgspec.json.decode(value) if value else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise InvalidInput("not JSON") from None
    try:
        # Times and UUIDs become texts.
        return msgspec.to_builtins(value, builtin_types=(), enc_hook=str, str_keys=True)
    except (TypeError, RecursionError):
        raise InvalidInput("not JSON") from None


def _moment(value: Any, spec: FieldMap) -> int:
    """Return a time in Unix milliseconds; 0 for an empty one."""
    if value in (None, ""):
        return 0
    moment = _milliseconds(value, spec)
    if moment > now_ms():
        raise InvalidInput("in the future")
    return moment


def _milliseconds(value: Any, spec: FieldMap) -> int:
    if spec.time in _UNITS:
        return round(float(value) * _UNITS[spec.time])
    if spec.time:
        value = datetime.strptime(str(value), spec.time)  # noqa: DTZ007  # the zone is added below
    elif isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip().upper())
        except ValueError:
            return _number(value)
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)  # noqa: DTZ001  # the zone is added below
    if isinstance(value, datetime):
        zone = ZoneInfo(spec.zone) if spec.zone else UTC
        return round((value if value.tzinfo else value.replace(tzinfo=zone)).timestamp() * 1000)
    return _number(value)


def _number(value: Any) -> int:
    try:
        return moment_of(value)
    except InvalidInput:
        raise InvalidInput("neither ISO 8601 nor a number") from None


_CONVERSIONS: Mapping[str, Callable[[Any, FieldMap], Any]] = {
    "text": _text,
    "id": _id,
    "flag": _flag,
    "visibility": _visibility,
    "tags": _tags,
    "time": _moment,
    "json": _json,
    "present": _present,
}
