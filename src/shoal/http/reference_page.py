"""The HTML reference of the API, generated from the OpenAPI document alone, with a curl command for each route.

The page works without JavaScript; its one script filters the routes and opens the target of a link.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any, Final

import msgspec

from shoal.http.openapi import REF, Schema

_WORDS: Final = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "object": "object",
    "null": "null",
}
_HUGE: Final = 10**15
"""Limits from this value on are not shown, because no client reaches them."""


_QUOTED: Final = re.compile(r"`([^`]+)`")


def prose(text: str) -> str:
    """Convert a sentence to HTML; text in backticks becomes code."""
    return _QUOTED.sub(r"<code>\1</code>", escape(text))


def kind_of(schema: Schema, *, taken: bool = False) -> str:
    """Return the type of a value as HTML, with a link for a struct. For a parameter (`taken`), "or null" is omitted."""
    if "$ref" in schema:
        name = escape(schema["$ref"].removeprefix(REF))
        return f'<a class="kind" href="#shape-{name}">{name}</a>'
    if "anyOf" in schema:
        kinds = [each for each in schema["anyOf"] if not (taken and each == {"type": "null"})]
        return " or ".join(map(kind_of, kinds))
    first, *rest = _types(schema, "any JSON value")
    return f"{_first_kind(first, schema)}{' or null' if rest and not taken else ''}"


def _types(schema: Schema, default: str) -> list[str]:
    kinds = schema.get("type", default)
    return [kinds] if isinstance(kinds, str) else kinds


def _first_kind(kind: str, schema: Schema) -> str:
    if "enum" in schema:
        return " ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"] if value is not None)
    if kind == "array":
        return f"list of {kind_of(schema['items'])}"
    if "additionalProperties" in schema:
        return f"object of {kind_of(schema['additionalProperties'])}"
    if schema.get("format") == "binary":
        return "file"
    if "pattern" in schema:
        return "id"
    return _WORDS.get(kind, kind)


def bounds_of(schema: Schema) -> str:
    """Return the limits of a value as text; empty if its type has no limits."""
    found = []
    if "maxLength" in schema:
        found.append(f"at most {schema['maxLength']:,} characters")
    if "maxItems" in schema:
        found.append(f"at most {schema['maxItems']:,} items")
        found.append(bounds_of(schema["items"]) and f"each {bounds_of(schema['items'])}")
    if "maximum" in schema and schema["maximum"] < _HUGE:
        found.append(f"{schema.get('minimum', 0):,} to {schema['maximum']:,}")
    return ", ".join(filter(None, found))


def rows_of(schema: Schema, before: str = "") -> Iterator[tuple[str, Schema, str, bool]]:
    """Yield the fields of a body, each with name in forms (`poll[options][]`), schema, description, and whether it is required."""
    needed = schema.get("required", ())
    for key, inner in schema["properties"].items():
        name = f"{before}[{key}]" if before else key
        is_list = "array" in _types(inner, "")
        item = inner["items"] if is_list else inner
        if "properties" in _plain(item):
            yield from rows_of(_plain(item), f"{name}[]" if is_list else name)
        else:
            yield f"{name}[]" if is_list else name, inner, inner.get("description", ""), not before and key in needed


def _plain(schema: Schema) -> Schema:
    """Return the schema itself or, if it is a list of alternatives, the alternative that is an object."""
    return next((each for each in schema.get("anyOf", ()) if "properties" in each), schema)


_NAMED: Final[Mapping[str, object]] = {
    "status": "Good morning",
    "client_name": "My app",
    "redirect_uris": ["urn:ietf:wg:oauth:2.0:oob"],
    "name": "dawn",
    "tag": "dawn",
    "acct": "ann",
    "q": "dawn",
    "grant_type": "client_credentials",
    "visibility": "public",
}
_ID: Final = "1234567890"


def curl(method: str, path: str, operation: Schema) -> str:
    """Return a curl command with all required parameters. If no parameter is required, it has the first optional one."""
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", str(_value(parameter["name"], parameter["schema"])))
    lines = ["curl" + ("" if method == "get" else f" -X {method.upper()}") + f' "$SERVER{path}{_query(operation)}"']
    if operation["security"]:
        lines.append('-H "Authorization: Bearer $TOKEN"')
    lines += _body(operation.get("requestBody"))
    return " \\\n  ".join(lines)


def _query(operation: Schema) -> str:
    asked = [parameter for parameter in operation.get("parameters", ()) if parameter["in"] == "query"]
    shown = [parameter for parameter in asked if parameter["required"] or parameter["name"] in {"limit", "id[]"}]
    return "?" + "&".join(f"{parameter['name']}={_word(parameter)}" for parameter in shown) if shown else ""


def _word(parameter: Schema) -> object:
    value = _value(parameter["name"].removesuffix("[]"), parameter["schema"])
    return value[0] if isinstance(value, list) and value else value


def _body(body: Schema | None) -> list[str]:
    if body is None:
        return []
    kind, content = next(iter(body["content"].items()))
    schema = content["schema"]
    names = schema.get("required") or list(schema["properties"])[:1]
    values = {name: _value(name, schema["properties"][name]) for name in names}
    if kind == "multipart/form-data":
        return [f"-F {name}=@file.jpg" for name in names]
    return [f"-H 'Content-Type: application/json' -d '{msgspec.json.encode(values).decode()}'"]


def _value(name: str, schema: Schema) -> Any:
    if name in _NAMED:
        return _NAMED[name]
    if "anyOf" in schema:
        return _value(name, schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    if "pattern" in schema:
        return _ID
    kind = _types(schema, "string")[0]
    if kind == "array":
        return [_value(name, schema["items"])]
    if kind == "object":
        inner = schema.get("properties", {})
        return {key: _value(key, inner[key]) for key in list(inner)[:2]}
    return {"integer": schema.get("minimum", 20) or 20, "number": 1.0, "boolean": True}.get(kind, "...")


_HERE: Final = files("shoal.http")
_STYLE: Final = _HERE.joinpath("reference.css").read_text("utf-8")
_SCRIPT: Final = _HERE.joinpath("reference.js").read_text("utf-8")


METHODS: Final = ("get", "post", "put", "patch", "delete")


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


HEADERS: Final = {
    "Content-Security-Policy": f"default-src 'none'; style-src {_source(_STYLE)}; script-src {_source(_SCRIPT)}; base-uri 'none'; "
    "form-action 'none'",
    "Referrer-Policy": "same-origin",
}


def page_of(document: Schema) -> str:
    parts = [(tag, list(_operations(document, tag["name"]))) for tag in document["tags"]]
    sections = "".join(_section(tag, operations) for tag, operations in parts)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Shoal API</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<style>{_STYLE}</style></head><body><div class="frame">{_contents(document, parts)}'
        f"<main>{_opening(document, parts)}{sections}"
        f"{_shapes(document)}</main></div><script>{_SCRIPT}</script></body></html>"
    )


def _operations(document: Schema, part: str) -> Iterator[tuple[str, str, Schema]]:
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item and part in item[method]["tags"]:
                yield method, path, item[method]


def _contents(document: Schema, parts: list[tuple[Schema, list[tuple[str, str, Schema]]]]) -> str:
    base = escape(document["servers"][0]["url"].rstrip("/"))
    links = "".join(
        f'<li><a href="#part-{escape(tag["name"])}">{escape(tag["name"])}</a><span>{len(operations)}</span></li>'
        for tag, operations in parts
    )
    return (
        '<nav><a class="mark" href="#top">Shoal<b>API</b></a>'
        '<label class="find" hidden><input type="search" placeholder="Find a route" aria-label="Find a route"></label>'
        f'<ul>{links}<li><a href="#shapes">schemas</a></li></ul><a class="raw" href="{base}/openapi.json">openapi.json</a></nav>'
    )


def _opening(document: Schema, parts: list[tuple[Schema, list[tuple[str, str, Schema]]]]) -> str:
    info, count = document["info"], sum(len(operations) for _, operations in parts)
    return (
        f'<header id="top"><p class="over">Version {escape(info["version"])} · {count} routes</p><h1>Shoal API</h1>'
        f"<p>{prose(info['description'])}</p>"
        "<pre><code><i># Used in the examples below</i>\nSERVER=https://shoal.example  TOKEN=...</code></pre></header>"
    )


def _section(tag: Schema, operations: list[tuple[str, str, Schema]]) -> str:
    routes = "".join(_route(method, path, operation) for method, path, operation in operations)
    name = escape(tag["name"])
    head = f'<h2>{name.capitalize()}</h2><p class="lead">{prose(tag["description"])}</p>'
    return f'<section id="part-{name}">{head}{routes}</section>'


def _route(method: str, path: str, operation: Schema) -> str:
    id_ = operation["operationId"]
    shown = escape(path).replace("{", "<em>{").replace("}", "}</em>")
    stub = '<span class="chip">stub</span>' if operation.get("x-stub") else ""
    more = f"<p>{prose(operation['description'])}</p>" if "description" in operation else ""
    return (
        f'<details class="route" id="{id_}"><summary><span class="verb {method}">{method.upper()}</span>'
        f'<code class="path">{shown}</code>{stub}<span class="what">{prose(operation["summary"])}</span></summary>'
        f'<div class="body"><div>{more}{_access(operation)}{_parameters(operation)}{_responses(operation)}</div>'
        f"<div><h4>Example</h4><pre><code>{escape(curl(method, path, operation))}</code></pre></div></div></details>"
    )


def _access(operation: Schema) -> str:
    scopes = [scope for way in operation["security"] for needed in way.values() for scope in needed]
    facts = [("Access", escape(operation["x-access"]))]
    facts += [("Scope", f"<code>{escape(scope)}</code>") for scope in scopes]
    facts.append(("Rate limit", f"<code>{escape(operation['x-limit-class'])}</code>"))
    if "requestBody" in operation:
        facts.append(("Body", f"at most {operation['x-max-body'] / 1024:,.0f} KiB"))
    return (
        '<dl class="facts">' + "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts) + "</dl>"
    )


def _parameters(operation: Schema) -> str:
    rows = [
        _row(item["name"], item["schema"], item.get("description", ""), item["in"], needed=item["required"])
        for item in operation.get("parameters", ())
    ]
    if body := operation.get("requestBody"):
        # If there are several content types, only the last one, multipart, has the files.
        schema = [*body["content"].values()][-1]["schema"]
        rows += [_row(name, inner, text, "", needed=needed) for name, inner, text, needed in rows_of(schema)]
    return f"<h4>Parameters</h4><table>{''.join(rows)}</table>" if rows else ""


def _row(name: str, schema: Schema, text: str, where: str, *, needed: bool) -> str:
    marks = ('<span class="chip">required</span>' if needed else "") + (
        f'<span class="chip">{where}</span>' if where else ""
    )
    bounds = bounds_of(schema)
    limit = f'<span class="bound">{escape(bounds)}</span>' if bounds else ""
    return f"<tr><th><code>{escape(name)}</code>{marks}</th><td>{kind_of(schema, taken=True)} {limit}<p>{prose(text)}</p></td></tr>"


def _responses(operation: Schema) -> str:
    good = []
    errors = []
    for status, answer in operation["responses"].items():
        if "$ref" in answer:
            errors.append(f'<span class="chip error">{status}</span>')
            continue
        kind, content = next(iter(answer["content"].items()))
        shape = kind_of(content["schema"]) if kind == "application/json" else f"<code>{escape(kind)}</code>"
        pages = ' <span class="chip">paginated</span>' if "Link" in answer["headers"] else ""
        text = f'<span class="soft">{prose(answer["description"])}</span>'
        good.append(f'<p><span class="chip good">{status}</span> {shape}{pages} {text}</p>')
    return f'<h4>Responses</h4>{"".join(good)}<p class="errors">{"".join(errors)} <a href="#shape-Error">Error</a></p>'


def _shapes(document: Schema) -> str:
    cards = "".join(_shape(name, schema) for name, schema in sorted(document["components"]["schemas"].items()))
    return f'<section id="shapes"><h2>Schemas</h2><p class="lead">Fields of responses.</p>{cards}</section>'


def _shape(name: str, schema: Schema) -> str:
    needed = set(schema.get("required", ()))
    rows = "".join(
        f"<tr><th><code>{escape(key)}</code>{'' if key in needed else '<span class=chip>optional</span>'}</th>"
        f"<td>{kind_of(inner)}<p>{prose(inner.get('description', ''))}</p></td></tr>"
        for key, inner in schema["properties"].items()
    )
    return (
        f'<details class="shape" id="shape-{escape(name)}"><summary><code class="path">{escape(name)}</code>'
        f'<span class="what">{prose(schema.get("description", ""))}</span></summary>'
        f'<div class="body"><table>{rows}</table></div></details>'
    )
