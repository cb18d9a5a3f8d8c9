"""The public interface of the library: it covers the API, is typed and documents its errors."""

from __future__ import annotations

import asyncio
import inspect
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from shoal import Shoal, errors
from shoal.core.bulk_moderation import BulkQuery
from shoal.core.errors import InvalidInput, ShoalError
from shoal.core.kinds import KindDraft
from shoal.core.moderation_rules import Conditions, RuleDraft
from shoal.core.reactions import Reaction
from shoal.graph.payloads.notifications import Group, Kind
from shoal.library._generated import Options
from shoal.mastodon_api.routes import table
from shoal.settings import Settings, SettingsError
from tests.async_runner import in_loop
from tests.library.route_methods import METHODS, REASONS, SURFACES

_ANYTIME = {"Unavailable", "OutcomeUnknown"}
"""Errors that every method may raise, documented in the docstring of the package."""
_RAISED = re.compile(r"`(\w+)`")
_NOBODY = 12_345
_VALUES: dict[str, Any] = {
    "import_map": "none",
    "source": "none",
    "archive": b"ann@mastodon.social\n",
    "hashes": ["a" * 64],
    "handles": ["ann@mastodon.social"],
    "emoji": "👍",
    "text": "x",
    "proof": "x",
    "key": "x",
    "word": "tide",
    "code": "x",
    "tag": "tide",
    "name": "tide",
    "title": "x",
    "keyword": "x",
    "draft": RuleDraft(name="x", conditions=Conditions(words=("tide",))),
    "reaction": Reaction(name="cooked", title="Cooked it"),
    "declaration": KindDraft(name="recipe", schema={"type": "object"}),
    "query": BulkQuery(words=("tide",)),
    "action": "hide",
    "at": 1,
    "contexts": ["home"],
    "role": "moderator",
    "order": "all",
    "file": b"no picture",
    "domain": "example.org",
    "address": "ann@example.org",
    "network": "192.0.2.1",
    "digest": "0" * 64,
    "what": "example.org",
    "current": "wrong password",
    "new": "another password",
    "password": "a long password",
    "name_or_email": "nobody",
    "several": (_NOBODY,),
    "to": _NOBODY,
    "by": "nobody",
    "url": "memory://",
    "scopes": ["server"],
    "issuer": "https://shop.example",
    "id_": "42",
}
"""Arguments by name; all others are the id of a missing object."""
_GROUP = {"group", "dismiss_group"}
_NOT_CALLED = {"open", "settle", "export", "blocks", "sessions"}


def methods() -> list[tuple[str, str]]:
    return [
        (surface, name)
        for surface, kind in SURFACES.items()
        for name, value in inspect.getmembers(kind)
        if not name.startswith("_") and callable(value)
    ]


def test_api_routes_have_a_library_method_or_a_documented_reason() -> None:
    there = {f"{route.method} {route.path}" for route in table(Settings()) if not route.stub}
    assert there == METHODS.keys() | REASONS.keys()
    assert not METHODS.keys() & REASONS.keys()


def test_api_route_mapping_names_existing_library_methods() -> None:
    for named in METHODS.values():
        surface, _, name = named.partition(".")
        assert callable(getattr(SURFACES[surface], name, None)), named


@pytest.mark.parametrize(("surface", "name"), methods())
def test_library_methods_are_typed_and_document_their_errors(surface: str, name: str) -> None:
    method = getattr(SURFACES[surface], name)
    signature = inspect.signature(method)
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in signature.parameters.values():
        assert parameter.name == "self" or parameter.annotation not in (inspect.Signature.empty, "Any"), parameter
    assert raised(method) <= set(errors.__all__) | {"TimeoutError"}


def raised(method: object) -> set[str]:
    """Return the errors that a docstring names after "Raises"."""
    text = inspect.getdoc(method) or ""
    said = " ".join(text.replace("\n", " ").split("Raises")[1:])
    return {name for name in _RAISED.findall(said) if name[0].isupper() and name not in ("None", "Handle")}


@pytest.mark.parametrize(("surface", "name"), [pair for pair in methods() if pair[1] not in _NOT_CALLED])
@in_loop
async def test_library_method_errors_for_missing_objects_are_documented(surface: str, name: str) -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann")
        at: Any = {"shoal": shoal, "member": ann, "visitor": shoal.visitor}.get(surface)
        if at is None:
            at = getattr(ann, surface, None) or getattr(shoal, surface)
        method = getattr(at, name)
        error = await _error_of(method, *arguments(method, name))
        known = {getattr(errors, word) for word in raised(method) | _ANYTIME | _referred(method, surface)}
        assert error is None or isinstance(error, tuple(known)), f"{type(error).__name__} is not in the docstring"


async def _error_of(method: Any, given: list[Any], named: dict[str, Any]) -> ShoalError | None:
    try:
        made = method(*given, **named)
        if inspect.isasyncgen(made):
            await asyncio.wait_for(anext(made), 0.05)
        elif inspect.isawaitable(made):
            await made
    except TimeoutError:
        # The stream is open and waits for events.
        return None
    except ShoalError as error:
        return error
    return None


def _referred(method: object, surface: str) -> set[str]:
    """Return the errors of the method that a docstring refers to with "as"."""
    found: set[str] = set()
    for word in re.findall(r"as `(?:Handle\.)?(\w+)`", inspect.getdoc(method) or ""):
        for kind in (SURFACES[surface], SURFACES["member"]):
            if hasattr(kind, word):
                found |= raised(getattr(kind, word)) & set(errors.__all__)
    return found


def arguments(method: Any, name: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the required arguments of a method: positional, then by name."""
    if name in _GROUP:
        return [Group(Kind.LIKE, _NOBODY, 40_000)], {}
    needed = [one for one in inspect.signature(method).parameters.values() if one.default is one.empty]
    values = [(one, _VALUES.get(one.name, _NOBODY)) for one in needed if one.kind is not one.VAR_POSITIONAL]
    return (
        [value for one, value in values if one.kind is one.POSITIONAL_OR_KEYWORD],
        {one.name: value for one, value in values if one.kind is one.KEYWORD_ONLY},
    )


def test_library_open_options_equal_settings() -> None:
    settings, options = get_type_hints(Settings), get_type_hints(Options)
    assert {**options, "store": settings["store"]} == settings


def test_library_class_names_are_unique_in_the_package() -> None:
    source = Path(inspect.getfile(Shoal)).parent.parent
    mirrored = source / "sync"
    named = Counter(
        name
        for path in source.rglob("*.py")
        if mirrored not in path.parents
        for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(), re.MULTILINE)
    )
    own = {
        name
        for path in (source / "library").glob("*.py")
        for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(), re.MULTILINE)
    }
    assert len(own) > 20
    assert {name for name in own if named[name] > 1} == set()


_WRONG = """
from shoal import Handle, Shoal

async def main(ann: Handle) -> None:
    await ann.create(titel="x")
    await ann.create("x", visibility="pubic")
    await ann.lists.create("x", replies="all")
    await ann.update_profile(dispaly_name="x")
    async with Shoal.open("memory://", titel="x"):
        pass
    await ann.create("x", visibility="unlisted")
"""


_WRONG_SYNC = """
from shoal.sync import Handle, Shoal

def main(ann: Handle) -> None:
    ann.create(titel="x")
    ann.create("x", visibility="pubic")
    ann.lists.create("x", replies="all")
    ann.update_profile(dispaly_name="x")
    with Shoal.open("memory://", titel="x"):
        pass
    text: int = ann.create("x").text
    before: str = ann.home().next
    ann.create("x", visibility="unlisted")
    with Shoal.open("memory://", title="x") as shoal:
        shoal.register("bob").follow(ann)
"""


def test_type_check_of_misspelt_arguments_reports_each_line(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(_WRONG)
    (tmp_path / "wrong_sync.py").write_text(_WRONG_SYNC)
    command = [sys.executable, "-m", "mypy", "--strict", "wrong.py", "wrong_sync.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    reported = sorted(tuple(line.split(":")[:2]) for line in done.stdout.splitlines() if ": error:" in line)
    expected = {"wrong.py": range(5, 10), "wrong_sync.py": (*range(5, 10), 11, 12)}
    assert reported == sorted((name, str(line)) for name, lines in expected.items() for line in lines)


@in_loop
async def test_library_misspelt_arguments_are_refused_at_run_time() -> None:
    async with Shoal.open("memory://") as shoal:
        ann: Any = await shoal.register("ann")
        with pytest.raises(TypeError, match="titel"):
            await ann.create(titel="x")
        for wrong, field in (
            (ann.create("x", visibility="pubic"), "visibility"),
            (ann.lists.create("x", replies="all"), "replies"),
            (ann.filters.create("x", contexts=["hone"]), "contexts"),
            (ann.notifications.change_policy(new_accounts="reject"), "new_accounts"),
            (ann.update_profile(default_visibility="privat"), "default_visibility"),
        ):
            with pytest.raises(InvalidInput, match="one of") as refusal:
                await wrong
            assert refusal.value.field == field
    wrong_settings: Any = {"titel": "x"}
    with pytest.raises(SettingsError, match="titel"):
        async with Shoal.open("memory://", **wrong_settings):
            pass
