"""What a request says: query string and body, merged into one dictionary, whatever form they came in.

JSON, urlencoded and multipart bodies are taken on every method, GET included, and a body that is not there on none. Values of
the body win over those of the query string. Files come as `Upload`; the content type that their sender declares is ignored,
as clients send none or nonsense. `convert` (in `convert.py`) makes a typed struct of the dictionary.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

import msgspec
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from shoal.api.bodies import read_body
from shoal.api.brackets import MAX_DEPTH, MAX_FIELDS, unfold
from shoal.api.convert import Cursor, Id, Limit, Upload, convert
from shoal.api.errors import Malformed
from shoal.core.errors import InvalidInput, TooLarge

__all__ = ["MAX_BODY", "Cursor", "Id", "Limit", "Params", "Upload", "convert", "read_params"]

Params = dict[str, object]
"""Wire names to strings, numbers, booleans, None, `Upload`s, lists and dictionaries."""

MAX_BODY = 1 << 16
"""The largest body of a route that says nothing else, in bytes."""

MAX_WORDS = 1 << 20
"""The largest JSON or urlencoded body of any route, in bytes: 40 MB of brackets would become gigabytes of lists."""


async def read_params(request: Request, *, max_body: int = MAX_BODY) -> Params:
    """Everything that the request says; `Malformed` (400), `InvalidInput` (422) or `TooLarge` (413)."""
    raw_query: bytes = request.scope["query_string"]
    params = unfold(_form(raw_query)) if raw_query else {}
    headers = request.headers
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return params
    body = await read_body(request, max_body)
    if body:
        params.update(_parse(body, headers.get("content-type", "")))
    return params


def _parse(body: bytes, content_type: str) -> Params:
    kind, options = parse_options_header(content_type)
    if kind == b"multipart/form-data":
        return unfold(_multipart(body, options))
    if len(body) > MAX_WORDS:
        raise TooLarge(f"a body that is not multipart may have at most {MAX_WORDS} bytes")
    if kind == b"application/x-www-form-urlencoded":
        return unfold(_form(body))
    # A body that opens a brace is JSON whatever it is called: Mastodon.py and curl users mislabel it.
    if kind.endswith((b"/json", b"+json")) or body.lstrip()[:1] == b"{":
        return _json(body)
    if not kind:
        return unfold(_form(body))
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

    def __init__(self) -> None:
        self.fields: list[tuple[str, object]] = []
        self.ended = False
        self._name = self._value = b""
        self._headers: dict[bytes, bytes] = {}
        self._chunks: list[bytes] = []

    def begin(self) -> None:
        """A part starts."""
        if len(self.fields) >= MAX_FIELDS:
            raise InvalidInput(f"at most {MAX_FIELDS} fields may be sent")
        self._headers, self._chunks = {}, []

    def header_name(self, data: bytes, start: int, end: int) -> None:
        """Bytes of a header's name."""
        self._name += data[start:end]

    def header_value(self, data: bytes, start: int, end: int) -> None:
        """Bytes of a header's value."""
        self._value += data[start:end]

    def header_end(self) -> None:
        """A header is complete."""
        self._headers[self._name.lower()] = self._value
        self._name = self._value = b""

    def data(self, data: bytes, start: int, end: int) -> None:
        """Bytes of the part itself."""
        self._chunks.append(data[start:end])

    def part_end(self) -> None:
        """The part is complete: a file when it has a file name, else a text."""
        options = parse_options_header(self._headers.get(b"content-disposition", b""))[1]
        if b"name" not in options:
            raise Malformed("a part of the body has no name")
        name, content = _text(options[b"name"]), b"".join(self._chunks)
        if b"filename" not in options:
            self.fields.append((name, _text(content)))
        elif content or options[b"filename"]:  # a browser's empty file field has neither
            self.fields.append((name, Upload(options[b"filename"].decode("utf-8", "replace"), content)))

    def end(self) -> None:
        """The closing boundary was seen."""
        self.ended = True


def _multipart(body: bytes, options: Mapping[bytes, bytes]) -> list[tuple[str, object]]:
    parts = _Parts()
    try:
        parser = MultipartParser(
            options.get(b"boundary", b""),
            {
                "on_part_begin": parts.begin,
                "on_header_field": parts.header_name,
                "on_header_value": parts.header_value,
                "on_header_end": parts.header_end,
                "on_part_data": parts.data,
                "on_part_end": parts.part_end,
                "on_end": parts.end,
            },
        )
        parser.write(body)
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
