"""Request parameters: merge the query string and the body, in any format, into one dictionary.

JSON, urlencoded and multipart bodies are accepted with every method, including GET, and every method may omit the body. Body
values override query values. Files become `Upload`; their declared content type is ignored because clients send none or a wrong
one. `convert.py` turns the dictionary into a typed struct.

Brackets follow Rails: `a[k]=v` is a dictionary, `a[]=1&a[]=2` a list, and `a[][name]=` a list of dictionaries in which a repeated
name starts the next one. `a[0][name]=` is a dictionary of numbers, which `convert` reads as a list. The last value of a repeated
plain name is kept, unless the caller asks for an error. A name with unbalanced brackets is taken literally.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from urllib.parse import parse_qsl

import msgspec
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from shoal.core.errors import InvalidInput, TooLarge
from shoal.http.bodies import pieces, read_body
from shoal.http.convert import CursorId, Id, Limit, Upload, convert
from shoal.http.errors import Malformed, OAuthRefused
from shoal.http.uploads import Intake, Spool

MAX_DEPTH = 8
"""How many levels a name or a JSON value may have."""

MAX_FIELDS = 1000
"""How many values a request may have, in all its levels."""


def unfold(pairs: Iterable[tuple[str, object]], *, once: bool = False) -> dict[str, object]:
    """The tree of all pairs. Names that contradict each other (`a=1&a[k]=2`) are `Malformed`.

    With `once` a plain name that comes twice raises `OAuthRefused`, as RFC 6749, 3.1 asks.
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
            raise Malformed(f"`{name[:80]}` is given both as one value and as several")
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
        raise Malformed(f"`{key[:80]}` is given in two shapes")


def _append(items: list[object], rest: list[str], value: object) -> None:
    if not rest:
        items.append(value)
        return
    if rest[0] == "":
        raise Malformed("lists directly inside lists cannot be sent in a form")
    last = items[-1] if items else None
    if not isinstance(last, dict) or _holds(last, rest):
        last = {}
        items.append(last)
    _put(last, rest[0], rest[1:], value)


def _holds(tree: dict[str, object], keys: list[str]) -> bool:
    """Whether the value is there already, so that another one must belong to the next dictionary of the list."""
    for key in keys[:-1]:
        child = tree.get(key)
        if not isinstance(child, dict):
            return False
        tree = child
    return keys[-1] != "" and keys[-1] in tree


__all__ = ["MAX_BODY", "CursorId", "Id", "Limit", "Params", "Upload", "convert", "read_params"]

Params = dict[str, object]
"""Wire names to strings, numbers, booleans, None, `Upload`s, lists and dictionaries."""

MAX_BODY = 1 << 16
"""The largest body of a route that says nothing else, in bytes."""

MAX_WORDS = 1 << 20
"""The largest JSON or urlencoded body of any route, in bytes: 40 MB of brackets would become gigabytes of lists."""


_MULTIPART = b"multipart/form-data"
# The parser warns of each malformed body, and any stranger can send one.
logging.getLogger("python_multipart").setLevel(logging.ERROR)


async def read_params(request: Request, intake: Intake, *, max_body: int = MAX_BODY, once: bool = False) -> Params:
    """Everything that the request says; `Malformed` (400), `InvalidInput` (422), `TooLarge` (413) or `Unavailable` (503).

    With `once` a parameter that comes twice in the query, or twice in a form, is refused: see `unfold`.
    """
    raw_query: bytes = request.scope["query_string"]
    params = unfold(_form(raw_query), once=once) if raw_query else {}
    headers = request.headers
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return params
    kind, options = parse_options_header(headers.get("content-type", ""))
    if kind == _MULTIPART:
        params.update(unfold(await _multipart(pieces(request, max_body), options, intake), once=once))
    elif body := await _words(request, intake, max_body):
        params.update(_parse(body, kind, once=once))
    return params


async def _words(request: Request, intake: Intake, max_body: int) -> bytes:
    try:
        return await read_body(request, intake, min(max_body, MAX_WORDS))
    except TooLarge:
        if max_body > MAX_WORDS:
            raise TooLarge(f"a body that is not multipart may have at most {MAX_WORDS} bytes") from None
        raise


def is_multipart(request: Request) -> bool:
    """Whether the body may bring files."""
    return parse_options_header(request.headers.get("content-type", ""))[0] == _MULTIPART


def _parse(body: bytes, kind: bytes, *, once: bool) -> Params:
    if kind == b"application/x-www-form-urlencoded":
        return unfold(_form(body), once=once)
    # A body that opens a brace is JSON whatever it is called: Mastodon.py and curl users mislabel it.
    if kind.endswith((b"/json", b"+json")) or body.lstrip()[:1] == b"{":
        return _json(body)
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


def _json(body: bytes) -> Params:
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
    _check_size(value)
    return value


def _check_size(value: dict[str, object]) -> None:
    """Refuse JSON with too many levels or values, level by level."""
    level: list[object] = [value]
    count = 0
    for _ in range(MAX_DEPTH):
        level = [child for item in level for child in _children(item)]
        count += len(level)
        if count > MAX_FIELDS:
            raise InvalidInput(f"at most {MAX_FIELDS} fields may be sent")
        if not level:
            return
    if any(isinstance(item, dict | list) for item in level):
        raise InvalidInput(f"the JSON may have at most {MAX_DEPTH} levels")


def _children(item: object) -> list[object]:
    if isinstance(item, dict):
        return list(item.values())
    return item if isinstance(item, list) else []


class _Parts:
    """Collects the parts of a multipart body from the parser's calls."""

    def __init__(self, intake: Intake) -> None:
        self.fields: list[tuple[str, object]] = []
        self.ended = False
        self.words = 0
        """Bytes of what is no file."""
        self._intake = intake
        self._name = self._value = b""
        self._headers: dict[bytes, bytes] = {}
        self._chunks: list[bytes] = []
        self._file: Spool | None = None

    def begin(self) -> None:
        """A part starts."""
        if len(self.fields) >= MAX_FIELDS:
            raise InvalidInput(f"at most {MAX_FIELDS} fields may be sent")
        self._headers, self._chunks, self._file = {}, [], None

    def header_name(self, data: bytes, start: int, end: int) -> None:
        """Bytes of a header's name."""
        self._name += self._counted(data[start:end])

    def header_value(self, data: bytes, start: int, end: int) -> None:
        """Bytes of a header's value."""
        self._value += self._counted(data[start:end])

    def header_end(self) -> None:
        """A header is complete."""
        self._headers[self._name.lower()] = self._value
        self._name = self._value = b""

    def headers_end(self) -> None:
        """All headers are complete: a file has a file name, a text has none."""
        options = parse_options_header(self._headers.get(b"content-disposition", b""))[1]
        if b"name" not in options:
            raise Malformed("a part of the body has no name")
        self._options = options
        if b"filename" in options:
            self._file = self._intake.file()

    def data(self, data: bytes, start: int, end: int) -> None:
        """Bytes of the part itself."""
        if self._file is None:
            self._chunks.append(self._counted(data[start:end]))
        else:
            self._file.write(data[start:end])

    def part_end(self) -> None:
        """The part is complete."""
        name = _text(self._options[b"name"])
        if self._file is None:
            self.fields.append((name, _text(b"".join(self._chunks))))
        elif self._file.size or self._options[b"filename"]:  # a browser's empty file field has neither
            self.fields.append((name, Upload(self._options[b"filename"].decode("utf-8", "replace"), self._file)))

    def end(self) -> None:
        """The closing boundary was seen."""
        self.ended = True

    def _counted(self, data: bytes) -> bytes:
        self.words += len(data)
        if self.words > MAX_WORDS:
            raise TooLarge(f"what is no file may have at most {MAX_WORDS} bytes")
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
        held = 0
        async for chunk in body:
            parser.write(chunk)
            await intake.settle()
            await intake.hold(parts.words - held)
            held = parts.words
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
