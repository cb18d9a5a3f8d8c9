"""A command that may be typed, for each route of the reference page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from shoal.api.reference.openapi_schemas import Schema

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
    """The command, with what is needed and, where nothing is, the first thing that may be given."""
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
    return "?" + "&".join(f"{one['name']}={_word(one)}" for one in shown) if shown else ""


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
    kind = schema.get("type", "string")
    kind = kind if isinstance(kind, str) else kind[0]
    if kind == "array":
        return [_value(name, schema["items"])]
    if kind == "object":
        inner = schema.get("properties", {})
        return {key: _value(key, inner[key]) for key in list(inner)[:2]}
    return {"integer": schema.get("minimum", 20) or 20, "number": 1.0, "boolean": True}.get(kind, "...")
