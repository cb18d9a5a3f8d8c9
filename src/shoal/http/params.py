"""Request parameters: merge the query string and the body into one dictionary, and convert it to a typed struct.

JSON, urlencoded and multipart bodies are accepted with every method, including GET, and every method may omit the body. Body values
override query values. Files become `Upload`; their declared content type is ignored because clients send none or a wrong one.

Brackets follow Rails: `a[k]=v` is a dictionary, `a[]=1&a[]=2` a list, and `a[][name]=` a list of dictionaries in which a repeated
name starts the next one. `a[0][name]=` is a dictionary with numbers as keys, which `convert` reads as a list. The last value of a
repeated plain name is kept, unless the caller asks for an error. A name with unbalanced brackets is taken literally.

Conversion is as lenient as Mastodon's server about how a value is written: numbers and booleans as strings, any text or number that
does not mean false as true, one value for a list, a dictionary with numbers as keys for a list, null and (except for texts) "" for
a missing value, "undefined" and "null" for a missing object or optional id; a field that may be UNSET or None takes them as None.
Every refusal is an `InvalidInput` that names the field and the allowed values.
"""

from __future__ import annotations

import base64
import binascii
import logging
import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import cache
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import inspect
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from shoal.core.errors import InvalidInput, NotFound, TooLarge
from shoal.core.ids import MAX_ID
from shoal.http.bodies import Intake, Spool, Upload, pieces, read_body
from shoal.http.errors import Malformed, OAuthRefused, refusal
from shoal.http.routes import LISTS

__all__ = ["MAX_BODY", "CursorId", "Id", "Limit", "Params", "Upload", "convert", "read_params"]

T = TypeVar("T")


class _Whole(type):
    """Metaclass of the integer types of parameters.

    Their values are plain `int`s, because encoders and stores reject subclasses.
    """

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, int)


class Id(int, metaclass=_Whole):
    """A parameter that is an id. A malformed or too large id raises `NotFound`, because no object can have it."""


class CursorId(int, metaclass=_Whole):
    """A parameter that is a cursor, which is an id. It is 0 if missing or malformed, and the greatest id if too large."""


class Limit(int, metaclass=_Whole):
    """A parameter that is a page size. A malformed value becomes 0, which selects the default size."""


class Json:
    """A parameter that is any JSON value. A string is parsed as JSON, because all values in a form are strings."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


class _HasNul(Exception):
    """A parameter contains the character U+0000, which PostgreSQL cannot store."""


_ABSENT = object()
"""Result of a fixer for a value that counts as missing."""

Fixer = Callable[[Any], object]
"""Prepares the value of a parameter for msgspec."""

_UNDEFINED = frozenset({"undefined", "null"})
"""Strings that JavaScript clients send in a form for a missing object, optional id, or list of objects or ids."""


def convert(params: Mapping[str, object], type: type[T]) -> T:  # noqa: A002 (msgspec.convert's own word)
    """Return the struct for these parameters, ignoring unknown ones.

    Raises `InvalidInput`, and `NotFound` for an invalid `Id`.
    """
    try:
        fixers = fixers_of(type)  # type: ignore[arg-type]  # every type is hashable
        return msgspec.convert(_fix_fields(params, fixers), type, strict=False, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise refusal(str(error), type) from None


@cache
def fixers_of(kind: type[Any]) -> dict[str, Fixer | None]:
    """Return, by field name, the function that prepares a parameter for msgspec; None for fields that need none.

    The first call for a type is slow, so the application makes it at startup.
    """
    info = inspect.type_info(kind)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{kind!r} is not a msgspec.Struct")
    return {field.encode_name: _field_fixer(field) for field in info.fields}


def _fix_fields(params: Mapping[str, object], fixers: Mapping[str, Fixer | None]) -> dict[str, object]:
    fixed = {}
    for name, fix in fixers.items():
        value = params.get(name)
        if value is None and not (name in params and isinstance(fix, _Clearable)):
            continue
        if fix is not None:
            try:
                value = fix(value)
            except _HasNul:
                raise InvalidInput(f"{name} must not contain the character U+0000", field=name) from None
            if value is _ABSENT:
                continue
        fixed[name] = value
    return fixed


class _Clearable:
    """A `Fixer` for a field that may be UNSET or None. It converts an empty value to None."""

    def __init__(self, fix: Fixer | None) -> None:
        self._fix = fix

    def __call__(self, value: object) -> object:
        fixed = value if self._fix is None or value is None else self._fix(value)
        # To clear a dictionary, a form sends its fields with empty values. `_fix` omits such fields, and returns {}.
        return None if fixed is _ABSENT or fixed == {} else fixed


def _field_fixer(field: inspect.Field) -> Fixer | None:
    fix = _fixer(field.type)
    if not field.required and _is_id(field.type):
        fix = _unless_undefined(_fix_blank)
    # msgspec reports no default for a field whose default is UNSET, though such a field is not required.
    unset = not field.required and field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
    return _Clearable(fix) if unset and _may_be_none(field.type) else fix


def _may_be_none(info: inspect.Type) -> bool:
    return isinstance(info, inspect.UnionType) and any(isinstance(kind, inspect.NoneType) for kind in info.types)


def _is_id(info: inspect.Type) -> bool:
    if isinstance(info, inspect.Metadata):
        return _is_id(info.type)
    if isinstance(info, inspect.UnionType):
        return any(map(_is_id, info.types))
    return isinstance(info, inspect.CustomType) and info.cls is Id


def _fixer(info: inspect.Type) -> Fixer | None:
    if isinstance(info, inspect.Metadata):
        return _fixer(info.type)
    if isinstance(info, inspect.UnionType):
        some = [kind for kind in info.types if not isinstance(kind, inspect.NoneType)]
        return _fixer(some[0]) if len(some) == 1 else None
    if isinstance(info, LISTS):
        fix = _list_fixer(_fixer(info.item_type))
        return (
            _unless_undefined(fix) if isinstance(info.item_type, inspect.StructType) or _is_id(info.item_type) else fix
        )
    if isinstance(info, inspect.StructType):
        return _unless_undefined(_struct_fixer(fixers_of(info.cls)))
    if isinstance(info, inspect.StrType):
        return _fix_text
    if isinstance(info, inspect.BoolType):
        return _fix_bool
    if isinstance(info, inspect.FloatType):
        return _fix_float
    return None if isinstance(info, inspect.DictType) else _fix_blank


def _unless_undefined(fix: Fixer) -> Fixer:
    def fix_defined(value: Any) -> object:
        only = value[0] if isinstance(value, list) and len(value) == 1 else value
        return _ABSENT if isinstance(only, str) and only in _UNDEFINED else fix(value)

    return fix_defined


def _struct_fixer(fixers: Mapping[str, Fixer | None]) -> Fixer:
    def fix(value: Any) -> object:
        if isinstance(value, dict):
            return _fix_fields(value, fixers)
        return _ABSENT if value == "" else value

    return fix


def _list_fixer(fix_item: Fixer | None) -> Fixer:
    def fix(value: Any) -> object:
        items = _items(value)
        # `a[]=` is the empty list in a form.
        given = [item for item in items if item is not None and item != ""]
        if fix_item is None:
            return given
        return [item for item in map(fix_item, given) if item is not _ABSENT]

    return fix


def _items(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and value and all(key.isdecimal() and len(key) < 10 for key in value):
        return [value[key] for key in sorted(value, key=int)]
    return [value]


def _fix_text(value: Any) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and "\0" in value:
        raise _HasNul
    return value


_FALSE = frozenset({"0", "f", "false", "off"})
"""Spellings of false, ignoring case. In Rails `False` is true, but Python clients never mean that."""


def _fix_bool(value: Any) -> object:
    if isinstance(value, str):
        return _ABSENT if value == "" else value.lower() not in _FALSE
    return bool(value) if isinstance(value, int | float) else value


def _fix_float(value: Any) -> object:
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            return _fix_blank(value)
        # NaN would pass every comparison with a maximum, so return a text, which msgspec refuses.
        return number if math.isfinite(number) else "not finite"
    return value


def _fix_blank(value: Any) -> object:
    return _ABSENT if value == "" else value


def _decode(kind: type[Any], value: Any) -> object:
    """Decode the custom types of this module (the `dec_hook` of msgspec)."""
    if kind is Id:
        number = _integer(value)
        if number is None or abs(number) > MAX_ID:
            raise NotFound("Record not found")
        return number
    if kind in (CursorId, Limit):
        return min(max(_integer(value) or 0, 0), MAX_ID)
    if kind is Upload and isinstance(value, str):
        return _inline_file(value)
    return Json(_decoded_json(value)) if kind is Json else value


def _inline_file(text: str) -> object:
    """Decode a Base64 `data:` URL (RFC 2397), in which a JSON body contains a file.

    Any other text is returned unchanged.
    """
    head, comma, body = text.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return text
    try:
        return Upload("", base64.b64decode(body, validate=True))
    except binascii.Error:
        raise InvalidInput("the text of a file field is not valid Base64") from None


def _decoded_json(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise InvalidInput("the text of a JSON field is not valid JSON") from None


def _integer(value: Any) -> int | None:
    """Return the number in at most 40 ASCII digits; None for any other value.

    `int` would also accept spaces, underscores and other scripts.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) <= 40 and value.isascii() and value.removeprefix("-").isdigit():
        return int(value)
    return None


MAX_DEPTH = 8
"""Maximum nesting of a name or a JSON value."""

MAX_FIELDS = 1000
"""Maximum number of values in a request, at all levels."""


def unfold(pairs: Iterable[tuple[str, object]], *, once: bool = False) -> dict[str, object]:
    """Convert names such as `a[k]=2` to a nested dictionary. Raises `Malformed` for contradicting names (`a=1&a[k]=2`).

    With `once`, a repeated plain name raises `OAuthRefused` (RFC 6749, section 3.1).
    """
    tree: dict[str, object] = {}
    for count, (name, value) in enumerate(pairs):
        if count >= MAX_FIELDS:
            raise InvalidInput(f"at most {MAX_FIELDS} fields may be sent")
        if "[" in name:
            keys = _keys(name)
            _put(tree, keys[0], keys[1:], value)
        elif once and name in tree:
            raise OAuthRefused("invalid_request", f"`{name[:80]}` is given more than once")
        elif isinstance(tree.get(name), dict | list):
            raise Malformed(f"`{name[:80]}` is given both as a single value and as a list")
        else:
            tree[name] = value
    return tree


def _keys(name: str) -> list[str]:
    head, _, rest = name.partition("[")
    if not head or not rest.endswith("]"):
        return [name]
    keys = rest[:-1].split("][")
    if len(keys) >= MAX_DEPTH:
        raise InvalidInput(f"names may have at most {MAX_DEPTH} levels")
    return [name] if any("[" in key or "]" in key for key in keys) else [head, *keys]


def _put(tree: dict[str, object], key: str, rest: list[str], value: object) -> None:
    if not rest:
        tree[key] = value
        return
    child = tree.setdefault(key, [] if rest[0] == "" else {})
    if isinstance(child, list) and rest[0] == "":
        _append(child, rest[1:], value)
    elif isinstance(child, dict) and rest[0] != "":
        _put(child, rest[0], rest[1:], value)
    else:
        raise Malformed(f"`{key[:80]}` is given both as a list and as an object")


def _append(items: list[object], rest: list[str], value: object) -> None:
    if not rest:
        items.append(value)
        return
    if rest[0] == "":
        raise Malformed("nested lists cannot be sent in a form")
    last = items[-1] if items else None
    if not isinstance(last, dict) or _holds(last, rest):
        last = {}
        items.append(last)
    _put(last, rest[0], rest[1:], value)


def _holds(tree: dict[str, object], keys: list[str]) -> bool:
    """Return whether the tree has a value at this path. For a repeated path, `_append` begins a new dictionary."""
    for key in keys[:-1]:
        child = tree.get(key)
        if not isinstance(child, dict):
            return False
        tree = child
    return keys[-1] != "" and keys[-1] in tree


Params = dict[str, object]
"""Wire names to strings, numbers, booleans, None, `Upload`s, lists and dictionaries."""

MAX_BODY = 1 << 16
"""Default maximum of a body, in bytes."""

MAX_WORDS = 1 << 20
"""Maximum of a JSON or urlencoded body, in bytes.

A larger body could need much memory: 40 MB of brackets become gigabytes of lists.
"""


_MULTIPART = b"multipart/form-data"
# The parser logs every malformed body, which any client can send.
logging.getLogger("python_multipart").setLevel(logging.ERROR)


async def read_params(
    request: Request, intake: Intake, *, max_body: int = MAX_BODY, max_fields: int = MAX_FIELDS, once: bool = False
) -> Params:
    """Return all parameters of a request.

    Raises `Malformed` (400), `InvalidInput` (422), `TooLarge` (413) or `Unavailable` (503). `max_fields` is for JSON. With `once`,
    a parameter that is repeated in the query or in a form is refused: see `unfold`.
    """
    params = query_params(request.scope["query_string"], once=once)
    headers = request.headers
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return params
    kind, options = parse_options_header(headers.get("content-type", ""))
    if kind == _MULTIPART:
        params.update(unfold(await _multipart(pieces(request, max_body), options, intake), once=once))
    elif body := await _words(request, intake, max_body):
        params.update(_parse(body, kind, max_fields, once=once))
    return params


def query_params(query: bytes, *, once: bool = False) -> Params:
    """Return the parameters in a query string. Raises as `read_params`."""
    return unfold(_form(query), once=once) if query else {}


async def _words(request: Request, intake: Intake, max_body: int) -> bytes:
    try:
        return await read_body(request, intake, min(max_body, MAX_WORDS))
    except TooLarge:
        if max_body > MAX_WORDS:
            raise TooLarge(f"a body other than multipart may have at most {MAX_WORDS} bytes") from None
        raise


def is_multipart(request: Request) -> bool:
    return parse_options_header(request.headers.get("content-type", ""))[0] == _MULTIPART


def _parse(body: bytes, kind: bytes, max_fields: int, *, once: bool) -> Params:
    if kind == b"application/x-www-form-urlencoded":
        return unfold(_form(body), once=once)
    # Users of Mastodon.py and curl send JSON with the content type of a form. Only JSON begins with a brace.
    if kind.endswith((b"/json", b"+json")) or body.lstrip()[:1] == b"{":
        return _json(body, max_fields)
    if not kind:
        return unfold(_form(body), once=once)
    raise Malformed("the body must be application/json, application/x-www-form-urlencoded or multipart/form-data")


def _form(raw: bytes) -> list[tuple[str, str]]:
    if raw.count(b"&") >= MAX_FIELDS:
        raise InvalidInput(f"at most {MAX_FIELDS} fields may be sent")
    try:
        return parse_qsl(raw.decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise Malformed("the request is not valid UTF-8") from None


def _json(body: bytes, max_fields: int) -> Params:
    try:
        value = msgspec.json.decode(body)
    except UnicodeDecodeError:
        raise Malformed("the request is not valid UTF-8") from None
    except (msgspec.DecodeError, RecursionError):
        raise Malformed("the body is not valid JSON") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Malformed("the body must be a JSON object")
    _check_size(value, max_fields)
    return value


def _check_size(value: dict[str, object], max_fields: int) -> None:
    """Raise an error for JSON with too many levels or values, checking level by level."""
    level: list[object] = [value]
    count = 0
    for _ in range(MAX_DEPTH):
        level = [child for item in level for child in _children(item)]
        count += len(level)
        if count > max_fields:
            raise InvalidInput(f"at most {max_fields} fields may be sent")
        if not level:
            return
    if any(isinstance(item, dict | list) for item in level):
        raise InvalidInput(f"the JSON may have at most {MAX_DEPTH} levels")


def _children(item: object) -> list[object]:
    if isinstance(item, dict):
        return list(item.values())
    return item if isinstance(item, list) else []


class _Parts:
    def __init__(self, intake: Intake) -> None:
        self.fields: list[tuple[str, object]] = []
        self.ended = False
        self.words = 0
        """Bytes of the parts that are not files."""
        self._intake = intake
        self._name = self._value = b""
        self._headers: dict[bytes, bytes] = {}
        self._chunks: list[bytes] = []
        self._file: Spool | None = None

    def begin(self) -> None:
        if len(self.fields) >= MAX_FIELDS:
            raise InvalidInput(f"at most {MAX_FIELDS} fields may be sent")
        self._headers, self._chunks, self._file = {}, [], None

    def header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += self._counted(data[start:end])

    def header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += self._counted(data[start:end])

    def header_end(self) -> None:
        self._headers[self._name.lower()] = self._value
        self._name = self._value = b""

    def headers_end(self) -> None:
        """Begin a file if the headers of this part have a file name."""
        options = parse_options_header(self._headers.get(b"content-disposition", b""))[1]
        if b"name" not in options:
            raise Malformed("a part of the body has no name")
        self._options = options
        if b"filename" in options:
            self._file = self._intake.file(options[b"filename"].decode("utf-8", "replace"))

    def data(self, data: bytes, start: int, end: int) -> None:
        if self._file is None:
            self._chunks.append(self._counted(data[start:end]))
        else:
            self._file.write(data[start:end])

    def part_end(self) -> None:
        name = _text(self._options[b"name"])
        if self._file is None:
            self.fields.append((name, _text(b"".join(self._chunks))))
        elif self._file.size or self._file.filename:  # an empty file field of a browser has neither
            self.fields.append((name, self._file))

    def end(self) -> None:
        self.ended = True

    def _counted(self, data: bytes) -> bytes:
        self.words += len(data)
        if self.words > MAX_WORDS:
            raise TooLarge(f"form fields other than files may have at most {MAX_WORDS} bytes in total")
        return data


async def _multipart(
    body: AsyncIterator[bytes], options: Mapping[bytes, bytes], intake: Intake
) -> list[tuple[str, object]]:
    parts = _Parts(intake)
    try:
        parser = MultipartParser(
            options.get(b"boundary", b""),
            {
                "on_part_begin": parts.begin,
                "on_header_field": parts.header_name,
                "on_header_value": parts.header_value,
                "on_header_end": parts.header_end,
                "on_headers_finished": parts.headers_end,
                "on_part_data": parts.data,
                "on_part_end": parts.part_end,
                "on_end": parts.end,
            },
        )
        counted = 0
        async for chunk in body:
            parser.write(chunk)
            await intake.settle()
            await intake.hold(parts.words - counted)
            counted = parts.words
    except FormParserError:
        raise Malformed("the multipart body is malformed") from None
    if not options.get(b"boundary") or not parts.ended:
        raise Malformed("the multipart body has no boundary or is cut off")
    return parts.fields


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Malformed("the request is not valid UTF-8") from None
