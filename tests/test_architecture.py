"""Rules of the source tree that linters do not check."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from scripts import sync_library

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "shoal"
TEXTS = {str(path.relative_to(SOURCE)): path.read_text() for path in sorted(SOURCE.rglob("*.py"))}

BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}
ENGINES = {"sqlite", "postgres", "dynamodb", "redis", "rabbitmq"}
MAY_NAME_ENGINES = re.compile(
    r"^app/|^settings\.py$|^graph/(sqlite|postgres|dynamodb|redis)/|^health/(postgres|dynamodb|redis|rabbitmq)\.py$"
    r"|^(timelines|streaming)/(redis\w*|dynamodb)\.py$|^http/redis_rate_limits\.py$|^(outbox|tagcloud)/rabbitmq\w*\.py$"
)


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Return all modules, parsed. Lazy, because each worker collects the tests."""
    return {name: ast.parse(text) for name, text in TEXTS.items() if text.strip()}


def test_source_tree_contains_modules() -> None:
    assert len(trees()) > 30


def test_tour_page_lists_every_source_folder() -> None:
    rooms = {f"{Path(name).parent}/" for name in TEXTS if Path(name).parent != Path()}
    told = set(re.findall(r"`([\w/]+/)`", (ROOT / "docs" / "tour.md").read_text()))
    assert rooms - told == set()


def test_module_names_are_not_generic() -> None:
    assert _offenders(lambda name: Path(name).stem in BANNED_NAMES) == []


def test_module_docstrings_exist_in_every_module() -> None:
    assert _offenders(lambda name: not ast.get_docstring(trees()[name])) == []


def test_file_paths_in_docstrings_and_comments_exist() -> None:
    roots = (ROOT, ROOT / "src", SOURCE)
    for path in (ROOT / "src").rglob("*.py"):
        for name in re.findall(r"`((?:\w+/)+\w+\.py)`", path.read_text()):
            assert any((root / name).exists() for root in roots), f"{path.name} names {name}"


def test_module_imports_are_at_top_level() -> None:
    assert _offenders(lambda name: any(map(_has_imports, _functions(trees()[name])))) == []


def test_engine_imports_are_limited_to_wiring_and_engine_modules() -> None:
    assert _offenders(lambda name: not MAY_NAME_ENGINES.match(name) and bool(_last_parts(name) & ENGINES)) == []


def test_source_tree_contains_no_todo_or_fixme_markers() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
    assert _offenders(lambda name: bool(marks.search(TEXTS[name]))) == []


def test_core_package_imports_only_itself() -> None:
    for name, tree in trees().items():
        if name.startswith("core/"):
            assert [module for module in _imports(tree) if module.startswith("shoal") and ".core" not in module] == []


def test_embedded_test_programs_import_existing_modules() -> None:
    for path in (ROOT / "tests").rglob("*.py"):
        for module in re.findall(r"^ *from (shoal[.\w]*) import", path.read_text(), re.MULTILINE):
            place = SOURCE.parent.joinpath(*module.split("."))
            assert place.is_dir() or place.with_suffix(".py").exists(), f"{path.name} imports {module}"


def test_pytest_files_contain_tests() -> None:
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text()
        assert re.search(r"^(async )?def test_|^Test\w+ = |^class Test", text, re.MULTILINE), path.name


def _offenders(broken: Callable[[str], bool]) -> list[str]:
    return [name for name in trees() if broken(name)]


def _functions(tree: ast.AST) -> Iterator[ast.AST]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _has_imports(function: ast.AST) -> bool:
    return any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(function))


def _last_parts(name: str) -> set[str]:
    return {module.rpartition(".")[2] for module in _imports(trees()[name])}


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_generated_modules_of_library_are_current() -> None:
    texts = {sync_library.TARGET: sync_library.generate(), sync_library.OPTIONS: sync_library.generate_options()}
    stale = [path.relative_to(ROOT) for path, text in texts.items() if path.read_text() != text]
    assert not stale, f"run {sync_library.COMMAND}"
