"""The documentation is correct: references exist, settings and tables are listed, and printed commands work."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import click

from scripts import commit_message, decisions, sync_library
from shoal.cli import main
from shoal.graph.migrations import Migration
from shoal.graph.schema import ASSOC_TYPES, AnyNode
from shoal.http.rate_limits import DEFAULTS
from shoal.search import postgres_sql as search_postgres
from shoal.search import sqlite_sql as search_sqlite
from shoal.settings import Settings
from shoal.tagcloud import postgres_sql, sqlite_sql
from tests import api_page, doc_snippets, events_page, projection_page, ranking_page
from tests.planner import planning_page

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PATHS = {path.name: path for path in ROOT.glob("*.md")} | {
    str(path.relative_to(ROOT / "docs")): path for path in (ROOT / "docs").rglob("*.md")
}
"""All pages, by their path in the repository root or below `docs`."""
PAGES = {name: path.read_text() for name, path in PATHS.items()}


def test_settings_reference_page_documents_exactly_the_existing_settings() -> None:
    named = re.findall(r"^\| `(\w+)` \|", PAGES["settings.md"], re.MULTILINE)
    assert named == list(Settings.__struct_fields__)


def test_settings_reference_page_defaults_equal_code_defaults() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|", PAGES["settings.md"], re.MULTILINE)
    for name, shown in rows:
        default = getattr(Settings(), name)
        assert shown.strip() == ("empty" if default == "" else f"`{default!r}`"), name


def test_readme_fits_size_limit_and_names_at_most_ten_existing_commands() -> None:
    named = re.findall(r"^\| `shoal ([a-z -]+)` \|", PAGES["README.md"], re.MULTILINE)
    assert set(named) <= set(_commands(main))
    assert 0 < len(named) <= 10
    assert len(PAGES["README.md"].splitlines()) <= 150


def test_readme_names_all_packages() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGES["README.md"].partition("## Read the code")[2], re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    packages = {path.parent.name for path in (ROOT / "src" / "shoal").glob("*/__init__.py")}
    # The synchronous API is generated from the library.
    assert named == packages - {"sync"}


def test_api_page_routes_equal_server_routes() -> None:
    shown = re.findall(r"^\| [A-Z]+ \| `/.*$", PAGES["api.md"].partition("\n## ")[0], re.MULTILINE)
    assert shown == api_page.rows(), "python -m tests.api_page writes them"


def test_events_page_equals_types_of_events() -> None:
    assert events_page.PAGE.read_text() == events_page.text() + "\n", "python -m tests.events_page writes it"


def test_projection_page_equals_tables_of_projection() -> None:
    page = projection_page.PAGE.read_text()
    assert page == projection_page.text() + "\n", "python -m tests.projection_page writes it"


def test_ranking_page_terms_equal_ranking_code() -> None:
    page = PAGES["ranking.md"]
    assert ranking_page.with_tables(page) == page, "python -m tests.ranking_page writes them"


def test_planning_page_plans_equal_command_output() -> None:
    page = PAGES["planning.md"]
    assert planning_page.with_outputs(page) == page, "python -m tests.planner.planning_page writes them"
    for path, command in planning_page.PICTURES.items():
        assert path.read_text("utf-8") == planning_page.picture(path), "python -m tests.planner.planning_page draws it"
        assert f"`{command}`" in page


def test_api_page_rate_limits_equal_defaults() -> None:
    section = PAGES["api.md"].partition("## Rate limits")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \| ([\d,]+) \| ([\d,.]+) \|", section, re.MULTILINE)
    assert rows == [(name, f"{rule.limit:,}", f"{rule.seconds:,}") for name, rule in DEFAULTS.items()]


def test_data_layout_page_lists_exactly_the_association_types() -> None:
    section = PAGES["data-layout.md"].partition("### Associations")[2].partition("### Keys")[0]
    rows = re.findall(r"^\| `(\w+)` \| (?:`(\w+)`)?", section, re.MULTILINE)
    named = {name for row in rows for name in row if name}
    assert named == {atype.name for atype in ASSOC_TYPES.values()}
    for name, inverse in rows:
        atype = next(atype for atype in ASSOC_TYPES.values() if atype.name == name)
        assert (ASSOC_TYPES[atype.inverse].name if atype.inverse else "") == inverse


def test_data_layout_page_lists_exactly_the_object_types() -> None:
    section = PAGES["data-layout.md"].partition("### Objects")[2].partition("### Associations")[0]
    named = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    assert named == {kind.__struct_config__.tag for kind in get_args(AnyNode)}


def _tables(migrations: Sequence[Migration]) -> str:
    return "".join(migration.script for migration in migrations)


def test_data_layout_page_lists_exactly_the_tag_tables() -> None:
    tables = PAGES["data-layout.md"].partition("### Tag tables")[2].partition("### Tag items")[0]
    named = set(re.findall(r"^\| `(\w+)` \|", tables, re.MULTILINE))
    assert named == set(re.findall(r"CREATE TABLE (\w+)", _tables(sqlite_sql.MIGRATIONS)))
    assert named == set(re.findall(r"CREATE TABLE shoal\.tag_(\w+)", _tables(postgres_sql.MIGRATIONS)))


def test_data_layout_page_lists_exactly_the_search_tables() -> None:
    section = PAGES["data-layout.md"].partition("### Search tables")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    assert named == set(re.findall(r"CREATE TABLE (\w+)", _tables(search_sqlite.MIGRATIONS)))
    only_here = set(re.findall(r"^\| `(\w+)` \|.*\(SQLite only\)", section, re.MULTILINE))
    assert named - only_here == set(
        re.findall(r"CREATE TABLE shoal\.search_(\w+)", _tables(search_postgres.MIGRATIONS))
    )


def test_documentation_references_to_modules_and_pages_exist() -> None:
    for page, text in PAGES.items():
        for name in re.findall(r"`((?:src/\w+/|tests/|benchmarks/)?[a-z_]+(?:/[a-z_]+)*\.py)`", text):
            assert any((root / name).exists() for root in (ROOT, ROOT / "src" / "shoal")), f"{page} names {name}"
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
            assert (PATHS[page].parent / target).exists(), f"{page} links to {target}"


def test_threat_model_names_code_and_test_of_each_protection() -> None:
    tables = PAGES["explanation/threat-model.md"].partition("## Browsers and visitors")[2]
    rows = [line.strip("|").split("|") for line in tables.splitlines() if re.match(r"\| (?!attack |---)", line)]
    assert len(rows) > 40
    for attack, _, code, test in rows:
        assert re.search(r"`[\w/.]+`", code), attack
        assert re.search(r"`tests/\w[\w/]*\.py`", test), attack
        for name in re.findall(r"`([\w/.]+)`", code + test):
            assert any((root / name).is_file() for root in (ROOT, ROOT / "src" / "shoal")), f"{attack}: {name}"


def test_decision_index_page_lists_every_record() -> None:
    assert PAGES["decisions/README.md"] == decisions.index(), "python -m scripts.decisions writes it"
    found = decisions.records()
    assert 0 < len(found) <= decisions.MOST
    assert len({record.number for record in found}) == len(found)


def test_readme_script_prints_promised_output(tmp_path: Path) -> None:
    script = doc_snippets.code(README, "python", "Shoal.open")
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == doc_snippets.PROMISED


def test_readme_server_commands_succeed(tmp_path: Path) -> None:
    folder = Path(sys.executable).parent
    doc_snippets.type_commands(folder, tmp_path)
    listed = subprocess.run(
        [folder / "shoal", "member", "list"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "ann" in listed.stdout


def test_documentation_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for text in PAGES.values() for name in re.findall(r"(?:`|^ {4})make ([a-z-]+)", text, re.MULTILINE)}
    assert len(named) > 5
    assert named <= targets, named - targets


def test_documentation_command_lines_are_valid() -> None:
    lines = {
        (page, line.partition("#")[0].strip())
        for page, text in PAGES.items()
        for line in re.findall(r"(?:^ {4}(?:\S+/)?|`)shoal ([^`\n|]+)", text, re.MULTILINE)
        if page != "CHANGELOG.md"
    }
    assert len(lines) > 50
    for page, line in lines:
        try:
            _typed(main, shlex.split(line))
        except click.BadOptionUsage:
            pass  # a sentence may name an option without a value
        except (click.UsageError, AssertionError) as error:
            raise AssertionError(f"{page}: shoal {line}: {error}") from None


def test_site_navigation_lists_exactly_the_existing_pages() -> None:
    listed = re.findall(r"^ +- (?:.*: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    # The index of decisions links to the records.
    files = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted(name for name in files if not re.match(r"decisions/\d", name))


def test_pre_commit_hooks_equal_make_check_commands() -> None:
    check = (ROOT / "Makefile").read_text().partition("\ncheck:")[2].partition("\n\n")[0]
    commands = re.findall(r"@\$\(BIN\)/(.+)$", check, re.MULTILINE)
    entries = re.findall(r"entry: \.venv/bin/(.+)$", (ROOT / ".pre-commit-config.yaml").read_text(), re.MULTILINE)
    # `make check` generates `shoal.sync` when the library is newer; the last hook checks the message.
    generator, *hooks, message = entries
    assert (generator, message) == (sync_library.COMMAND, commit_message.COMMAND)
    assert hooks == [command.removesuffix(" .").replace(" --check", "") for command in commands]
    assert hooks


def _typed(command: click.Command, words: list[str]) -> None:
    """Parse the words as the program would. Raises `UsageError` for an unknown option."""
    context = click.Context(command, **command.context_settings)
    _, rest, _ = command.make_parser(context).parse_args(words)
    if isinstance(command, click.Group) and rest:
        inner = command.get_command(context, rest[0])
        assert inner is not None, f"no command {rest[0]}"
        _typed(inner, rest[1:])
    else:
        assert not rest, f"too much: {rest}"


def _commands(command: click.Command | None, prefix: str = "") -> list[str]:
    if not isinstance(command, click.Group):
        return [prefix.strip()]
    context = click.Context(command)
    # A group with its own options is also a command.
    itself = [prefix.strip()] if prefix and command.params else []
    return itself + [
        name
        for key in command.list_commands(context)
        for name in _commands(command.get_command(context, key), f"{prefix} {key}")
    ]
