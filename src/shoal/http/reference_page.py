"""The HTML reference of the API, generated from the OpenAPI document alone, with a curl command for each route.

The page works without JavaScript; its one script filters the routes and opens the target of a link.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

import msgspec
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from shoal.http.openapi import REF, Schema

_HUGE: Final = 10**15
"""Limits from this value on are not shown, because no client reaches them."""


_QUOTED: Final = re.compile(r"`([^`]+)`")


def prose(text: str) -> Markup:
    """Convert a sentence to HTML; text in backticks becomes code."""
    return Markup(_QUOTED.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 (escaped)


def kind_of(schema: Schema, *, taken: bool = False) -> Markup:
    """Return the type of a value as HTML, with a link for a struct. For a parameter (`taken`), "or null" is omitted."""
    if "$ref" in schema:
        return Markup('<a class="kind" href="#shape-{0}">{0}</a>').format(schema["$ref"].removeprefix(REF))
    if "anyOf" in schema:
        kinds = [each for each in schema["anyOf"] if not (taken and each == {"type": "null"})]
        return Markup(" or ").join(map(kind_of, kinds))
    first, *rest = _types(schema, "any JSON value")
    return _first_kind(first, schema) + (" or null" if rest and not taken else "")


def _types(schema: Schema, default: str) -> list[str]:
    kinds = schema.get("type", default)
    return [kinds] if isinstance(kinds, str) else kinds


def _first_kind(kind: str, schema: Schema) -> Markup:
    if "enum" in schema:
        return Markup(" ").join(
            Markup("<code>{}</code>").format(value) for value in schema["enum"] if value is not None
        )
    if kind == "array":
        return Markup("list of ") + kind_of(schema["items"])
    if "additionalProperties" in schema:
        return Markup("object of ") + kind_of(schema["additionalProperties"])
    if schema.get("format") == "binary":
        return Markup("file")
    return Markup("id") if "pattern" in schema else escape(kind)


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
    environment = Environment(loader=PackageLoader("shoal.http", ""), autoescape=True, trim_blocks=True)
    environment.globals |= {
        "bounds_of": bounds_of,
        "curl": curl,
        "kind_of": kind_of,
        "marked": _marked,
        "parameters_of": _parameters,
        "prose": prose,
        "scopes_of": _scopes,
    }
    return environment.get_template("reference.html").render(
        document=document,
        parts=parts,
        routes=sum(len(operations) for _, operations in parts),
        script=_SCRIPT,
        style=_STYLE,
    )


def _operations(document: Schema, part: str) -> Iterator[tuple[str, str, Schema]]:
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item and part in item[method]["tags"]:
                yield method, path, item[method]


def _marked(path: str) -> Markup:
    return Markup(str(escape(path)).replace("{", "<em>{").replace("}", "}</em>"))  # noqa: S704 (escaped)


def _scopes(operation: Schema) -> list[str]:
    return [scope for way in operation["security"] for needed in way.values() for scope in needed]


def _parameters(operation: Schema) -> Iterator[tuple[str, Schema, str, str, bool]]:
    """Yield each parameter: its name, schema and description, where it is sent ("" for the body), and whether it is required."""
    for item in operation.get("parameters", ()):
        yield item["name"], item["schema"], item.get("description", ""), item["in"], item["required"]
    if body := operation.get("requestBody"):
        # If there are several content types, only the last one, multipart, has the files.
        for name, inner, text, needed in rows_of([*body["content"].values()][-1]["schema"]):
            yield name, inner, text, "", needed
