"""Golden API responses of a small network. `python -m tests.api.entities.golden` regenerates them.

Placeholders replace the values that vary between runs: ids (numbered in order of appearance), timestamps, hashes and secrets. All
other values, and all keys and types, are compared exactly.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.api.entities.golden.more_responses import more_answers
from tests.api.in_memory_network import NetworkFixture, network_fixture, picture
from tests.media.clips import film, moving_gif, needed, tone

FOLDER = Path(__file__).parent

_ID = re.compile(r"(?<![\w.])\d{15,19}(?!\d)")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_RELEASE = version("shoal")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_STRETCH = re.compile(r"(?<=-)\d{5,9}$")
"""The half-day number at the end of the key of a notification group."""
_HASH = re.compile(r"-[0-9a-f]{8}(?:[0-9a-f]{8})?(?=[.-])")
_BY_KEY: dict[str, Any] = {
    "access_token": "SECRET",
    "client_secret": "SECRET",
    "blurhash": "BLURHASH",
    "day": "DAY",
    "created_at": 0,
    "bitrate": 0,
    "application_id": 0,
    "duration": 0.0,
    "length": "LENGTH",
    "week": "WEEK",
}
"""Placeholders by key, each for any value of the same type."""


def steady(value: Any) -> Any:
    """Return the value with placeholders for everything that varies between runs."""
    return _steady(value, {})


def _steady(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _of_key(key, inner, ids) for key, inner in value.items()}
    if isinstance(value, list):
        return [_steady(inner, ids) for inner in value]
    if isinstance(value, str):
        value = value.replace(_RELEASE, "RELEASE")
        told = _DATE.sub("DATE", _MOMENT.sub("MOMENT", _HASH.sub("-HASH", value)))
        return _ID.sub(lambda found: ids.setdefault(found[0], f"ID-{len(ids) + 1}"), told)
    return value


def _of_key(key: str, value: Any, ids: dict[str, str]) -> Any:
    if key == "group_key":
        value = _STRETCH.sub("STRETCH", value)
    word = _BY_KEY.get(key)
    return word if word is not None and type(word) is type(value) else _steady(value, ids)


@contextlib.contextmanager
def small_network(**settings: Any) -> Iterator[NetworkFixture]:
    """Open the network that the responses come from."""
    with network_fixture(rules=("Be kind.",), **settings) as made:
        yield made


def answers(shoal: NetworkFixture) -> dict[str, Any]:
    """Return one response per entity, keyed by file name without extension."""
    needed()
    ann, ben = shoal.join("ann"), shoal.join("ben")
    profile = {"display_name": "Ann", "note": "hello #dawn", "fields_attributes[0][name]": "site"}
    profile |= {"fields_attributes[0][value]": "https://example.org/a"}
    own = shoal.json("PATCH", "/api/v1/accounts/update_credentials", ann, data=profile, files={"avatar": picture()})
    media = {kind: _media(shoal, ann, data) for kind, data in _clips().items()}
    first = shoal.json("POST", "/api/v1/statuses", ben, json={"status": "first", "spoiler_text": "a warning"})
    full = {
        "status": "hello @ben, see https://example.org/a/very/long/address/indeed #Dawn",
        "media_ids": [media["image"]["id"]],
        "in_reply_to_id": first["id"],
        "language": "en",
        "sensitive": True,
        "shoal": {"data": {"mood": "good"}, "place": {"latitude": 47.5, "longitude": 8.5}},
    }
    status = shoal.json("POST", "/api/v1/statuses", ann, json=full)
    path = f"/api/v1/statuses/{status['id']}"
    shoal.json("PUT", path, ann, json={"status": f"{full['status']} again", "media_ids": [media["image"]["id"]]})
    for verb in ("favourite", "bookmark"):
        shoal.json("POST", f"{path}/{verb}", ben)
    share = shoal.json("POST", f"{path}/reblog", ben)
    shoal.settle()
    app = {"client_name": "Test", "redirect_uris": "urn:ietf:wg:oauth:2.0:oob", "scopes": "read write"}
    client = shoal.json("POST", "/api/v1/apps", json={**app, "website": "https://example.org"})
    asked = {key: client[key] for key in ("client_id", "client_secret")}
    token = shoal.json("POST", "/oauth/token", json={**asked, "grant_type": "client_credentials", "scope": "read"})
    found = {
        "account": shoal.json("GET", f"/api/v1/accounts/{ann.id}", ben),
        "credential_account": own,
        "status": shoal.json("GET", path, ben),
        "status_for_anybody": shoal.json("GET", path),
        "status_share": share,
        "status_deleted": shoal.json("DELETE", f"/api/v1/statuses/{_short(shoal, ann)}", ann),
        "status_source": shoal.json("GET", f"{path}/source", ann),
        "status_history": shoal.json("GET", f"{path}/history", ben),
        "context": shoal.json("GET", f"{path}/context", ben),
        "relationship": shoal.json("POST", f"/api/v1/accounts/{ann.id}/follow", ben),
        "application": shoal.json("GET", "/api/v1/apps/verify_credentials", token["access_token"]),
        "credential_application": client,
        "token": token,
        "tag": shoal.json("GET", "/api/v1/tags/dusk", ben),
        "instance_v1": shoal.json("GET", "/api/v1/instance"),
        "instance_v2": shoal.json("GET", "/api/v2/instance"),
        "nodeinfo": shoal.json("GET", "/nodeinfo/2.0"),
        "error": shoal.ask("POST", "/api/v1/statuses", ann, json={"status": " "}).json(),
        **{f"media_{kind}": shown for kind, shown in media.items()},
    }
    return {**found, **more_answers(shoal, ann, ben, status["id"])}


def _clips() -> dict[str, bytes]:
    return {"image": picture(), "video": film(), "gifv": moving_gif(), "audio": tone()}


def _media(shoal: NetworkFixture, who: Any, data: bytes) -> Any:
    files, said = {"file": ("a", data)}, {"description": "what it shows", "focus": "0.25,-0.5"}
    made = shoal.ask("POST", "/api/v2/media", who, files=files, data=said).json()
    shoal.settle()
    return shoal.json("GET", f"/api/v1/media/{made['id']}", who)


def _short(shoal: NetworkFixture, who: Any) -> str:
    return str(shoal.json("POST", "/api/v1/statuses", who, json={"status": "soon gone"})["id"])


def written(value: Any) -> str:
    """Return the text of the golden file for a value."""
    return json.dumps(steady(value), indent=2, ensure_ascii=False) + "\n"
