"""The command line: output, exit status and one-line errors with a hint."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from shoal import Shoal
from shoal.cli import group, main, member
from shoal.cli.group import COMMANDS, PURPOSES
from shoal.graph.sqlite import SqliteGraph
from tests.async_runner import at_a_desk, in_loop
from tests.engines import postgres
from tests.engines.smtp import post_office


def shoal(store: Path, *arguments: str, typed: str = "") -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(main, ["--store", f"sqlite:///{store}", *arguments], input=typed)


def program(store: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a subprocess."""
    command = [sys.executable, "-m", "shoal.cli", "--store", f"sqlite:///{store}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def add(store: Path, name: str, *options: str) -> Result:
    return shoal(store, "member", "add", name, "--password-stdin", *options, typed="a long password\n")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with the member Ann."""
    path = tmp_path / "shoal.db"
    assert add(path, "ann", "--display-name", "Ann").exit_code == 0
    return path


def test_cli_member_role_grants_and_revokes_roles(store: Path) -> None:
    for role, told in (
        ("moderator", "ann is now a moderator"),
        ("admin", "ann is now an admin"),
        ("none", "removed the role of ann"),
    ):
        assert shoal(store, "member", "role", "ann", role).output == f"{told}\n"
    done = shoal(store, "member", "role", "nobody", "admin")
    assert (done.exit_code, done.output) == (1, "shoal: no member 'nobody'\n")
    assert "none" in shoal(store, "member", "role", "ann", "king").output


def test_cli_member_suspend_and_post_hide_print_success_or_error(store: Path) -> None:
    for verb, told in (("suspend", "suspended ann"), ("restore", "unsuspended ann")):
        assert shoal(store, "member", verb, "ann").output == f"{told}\n"
    done = shoal(store, "member", "suspend", "nobody")
    assert (done.exit_code, done.output) == (1, "shoal: no member 'nobody'\n")
    for verb in ("hide", "reveal"):
        assert shoal(store, "post", verb, "12").output == "shoal: Record not found\n"
        assert shoal(store, "post", verb, "none").exit_code == 2


def test_cli_member_delete_asks_for_confirmation_and_can_be_cancelled(store: Path) -> None:
    asked = shoal(store, "member", "delete", "ann", typed="n\n")
    assert "Delete ann and all their data?" in asked.output
    assert shoal(store, "member", "keep", "ann").output == "shoal: This account is not scheduled for deletion\n"
    done = shoal(store, "member", "delete", "ann", "--days", "30", "--yes")
    first, second = done.output.splitlines()
    assert first == "ann is hidden and will be deleted in 30 days by a running server"
    assert re.fullmatch(r"the deletion report is at /goodbye/[\w-]{32}", second)
    assert shoal(store, "member", "keep", "ann").output == "canceled the deletion of ann\n"
    assert shoal(store, "member", "delete", "nobody", "--yes").output == "shoal: no member 'nobody'\n"
    assert shoal(store, "member", "delete", "ann", "--days", "366", "--yes").exit_code == 2


def test_cli_member_email_sets_and_removes_address(store: Path) -> None:
    assert shoal(store, "member", "add", "dan", "--password-stdin", typed="a long password\n").exit_code == 0
    told = shoal(store, "member", "email", "dan", "dan@example.org").output
    assert told == "changed the e-mail address of dan to dan@example.org\n"
    taken = shoal(
        store, "member", "add", "eve", "--email", "dan@example.org", "--password-stdin", typed="a long password\n"
    )
    assert taken.output == "shoal: Email has already been taken\n"
    assert shoal(store, "member", "email", "dan", "nowhere").output.startswith(
        "shoal: an e-mail address is name@domain"
    )
    assert shoal(store, "member", "email", "dan", "").output == "removed the e-mail address of dan\n"


def test_mail_test_command_reports_delivery_or_error() -> None:
    def tried(**settings: str) -> Result:
        environment = {f"SHOAL_{name.upper()}": value for name, value in settings.items()}
        return CliRunner().invoke(main, ["mail", "test", "ann@example.org", "--language", "de"], env=environment)

    with post_office() as office:
        done = tried(mail=office.url, title="Sea", base_url="https://sea.example.org")
        assert re.fullmatch(
            r"mail accepted after \d+ ms: from Sea <no-reply@sea\.example\.org> to ann@example\.org\n", done.output
        )
        assert office.to("ann@example.org").subject == "Test-E-Mail von Sea"
        office.refuses = "550 no such mailbox"
        refused = tried(mail=office.url)
        assert (refused.exit_code, "550 no such mailbox" in refused.output) == (1, True)
    assert "is unreachable" in tried(mail=office.url).output
    assert "mail is not configured" in tried().output
    assert "mail: expected smtp://" in tried(mail="http://example.org").output


def test_cli_help_names_every_command() -> None:
    shown = CliRunner().invoke(main, ["--help"])
    assert shown.exit_code == 0
    for name in COMMANDS:
        assert re.search(rf"^  {name}\s+\w", shown.output, re.MULTILINE)


def test_cli_help_groups_commands_by_purpose() -> None:
    shown = CliRunner().invoke(main, ["--help"]).output
    found = re.findall(r"^(\w+):$|^  ([a-z-]+)\s{2,}", shown.partition("\n\nRun:")[2], re.MULTILINE)
    assert [heading for heading, _ in found if heading] == list(PURPOSES)[1:]
    assert [name for _, name in found if name] == list(COMMANDS)


def test_cli_help_of_every_command_opens_with_a_sentence() -> None:
    for name in COMMANDS:
        shown = CliRunner().invoke(main, [name, "--help"])
        assert shown.exit_code == 0, name
        assert re.search(r"\n\n  [A-Z][^.]+[.]", shown.output), name


def test_cli_help_does_not_import_optional_packages() -> None:
    script = """
import sys
from shoal.cli import main
main(["--help"], standalone_mode=False)
print(sorted({name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    loaded = set(re.findall(r"'(\w+)'", done.stderr))
    assert "click" in loaded
    # These packages are needed only by single commands.
    assert loaded.isdisjoint({"PIL", "rich", "uvicorn", "uvloop", "websockets"}), loaded


def test_cli_command_with_missing_package_names_the_extra_to_install() -> None:
    script = """
import sys
sys.modules.update(dict.fromkeys(["redis", "asyncpg", "aiobotocore", "aiormq"]))
from shoal.cli import main
from shoal.cli.group import COMMANDS
for name in sys.argv[1:] or set(COMMANDS) - {"cluster"}:
    main([name, "--help"], standalone_mode=False)
"""
    others = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300)
    assert others.returncode == 0, others.stderr
    script = script.replace(", standalone_mode=False", "")
    cluster = subprocess.run(
        [sys.executable, "-c", script, "cluster"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (cluster.returncode, cluster.stderr) == (
        1,
        "shoal: `shoal cluster` needs the package redis: "
        "run `pip install -e '.[scale]'` in the directory with Shoal's source\n",
    )


def test_cli_member_list_shows_members_and_password_command_changes_password(store: Path) -> None:
    header, line = shoal(store, "member", "list").output.splitlines()
    assert header.split("\t") == ["name", "id", "joined", "display name"]
    assert re.fullmatch(r"ann\t\d+\t\d{4}-\d\d-\d\d\tAnn", line)
    assert shoal(store, "member", "password", "ann", "--password-stdin", typed="another one\n").exit_code == 0

    async def log_in(password: str) -> str:
        async with Shoal.open(f"sqlite:///{store}") as opened:
            return (await opened.log_in("ann", password)).name

    assert asyncio.run(log_in("another one")) == "ann"


def test_cli_password_prompt_asks_twice_without_echo(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member, "_at_terminal", lambda: True)
    done = shoal(store, "member", "add", "ben", typed="a long password\na long password\n")
    assert done.exit_code == 0
    assert "a long password" not in done.output


@pytest.mark.parametrize("arguments", [("add", "ann"), ("add", "no such name"), ("add", "admin"), ("password", "ben")])
def test_cli_invalid_member_name_is_refused_before_password_prompt(
    store: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr(member, "_at_terminal", lambda: True)
    done = shoal(store, "member", *arguments, typed="a long password\na long password\n")
    assert (done.exit_code, done.stderr.count("\n"), "Password" in done.output) == (1, 1, False)


def test_cli_password_without_terminal_is_read_only_with_password_stdin(store: Path) -> None:
    for verb in ("add", "password"):
        done = shoal(store, "member", verb, "ann")
        assert (done.exit_code, "use --password-stdin" in done.stderr) == (1, True)


def test_cli_serve_and_demo_on_port_in_use_report_one_line_error(tmp_path: Path, store: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        for command in (("serve",), ("demo", "--folder", str(tmp_path / "demo"))):
            done = shoal(store, *command, "--port", port)
            assert (
                done.stderr
                == f"shoal: port {port} is already in use: choose another with --port or as in `make demo PORT=8600`\n"
            )
    assert not (tmp_path / "demo").exists()
    for host in ("no.such.host.invalid", "192.0.2.1"):
        done = shoal(store, "serve", "--host", host)
        assert (done.exit_code, done.stderr.count("\n"), "Errno" in done.stderr) == (1, 1, False)


def test_cli_bench_unknown_benchmark_lists_available_benchmarks() -> None:
    done = CliRunner().invoke(main, ["bench", "nope"])
    assert done.exit_code == 1
    assert "home_page" in done.stderr
    assert "measure" not in done.stderr


@pytest.mark.parametrize(
    ("store", "told"),
    [
        ('{"0-31": ', "is not valid JSON"),
        ('{"0-31": "sqlite:///a.db"}', "store: shard map: no store for 32-63"),
        ('{"x": "sqlite:///a.db"}', "is not a list of data sources (0 to 63)"),
    ],
)
def test_cli_store_option_invalid_shard_map_is_reported_in_one_line(store: str, told: str) -> None:
    done = CliRunner().invoke(main, ["--store", store, "check"])
    assert (done.exit_code, done.stderr.count("\n"), told in done.stderr) == (1, 1, True)


def test_cli_export_with_missing_pictures_writes_export_and_fails(tmp_path: Path, store: Path) -> None:
    with Image.new("RGB", (8, 8)) as image:
        image.save(tmp_path / "a.png")

    async def upload() -> None:
        async with Shoal.open(f"sqlite:///{store}") as opened:
            ann = await opened.member("ann")
            await ann.create("Low tide", media=[await ann.upload((tmp_path / "a.png").read_bytes())])

    asyncio.run(upload())
    shutil.rmtree(store.with_name("shoal.db.media"))
    done = shoal(store, "export", "ann", "--to", str(tmp_path / "out"))
    assert (done.exit_code, "1 picture missing from the export" in done.stderr) == (1, True)
    assert (tmp_path / "out" / "posts.json").exists()


def test_cli_member_add_reserved_name_requires_reserved_option(store: Path) -> None:
    assert add(store, "admin").exit_code == 1
    assert add(store, "admin", "--reserved").exit_code == 0
    assert "admin" in shoal(store, "member", "list").output


def test_shoal_check_on_empty_store_reports_nothing_to_check(tmp_path: Path) -> None:
    async def make() -> None:
        await (await SqliteGraph.open(tmp_path / "empty.db")).close()

    asyncio.run(make())
    shown = shoal(tmp_path / "empty.db", "check")
    assert shown.exit_code == 0
    assert "associations (I3) have their inverses: nothing to check\n" in shown.output
    assert ": 0 checked" not in shown.output


def test_shoal_check_fails_on_broken_store_and_passes_after_repair(store: Path) -> None:
    whole = shoal(store, "check")
    assert (whole.exit_code, whole.output.splitlines()[-1][:10]) == (0, "consistent")
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("INSERT INTO association VALUES (12345, 2, 9e999, 3, -1, x'')")
        connection.commit()
    broken = shoal(store, "check")
    assert broken.exit_code == 1
    assert "counts (I2) equal the live associations: 1 checked, 1 wrong" in broken.output
    assert "every media file (I9) has its object, and every object its files: nothing to check" in broken.output
    assert "associations (I3) have their inverses: 40 checked" in shoal(store, "check", "--members", "40").output
    assert "cannot be combined with --repair or --sample" in shoal(store, "check", "--members", "3", "--repair").output
    assert shoal(store, "check", "--repair").exit_code == 0
    assert shoal(store, "check").exit_code == 0


def test_cli_import_and_export_round_trip(tmp_path: Path, store: Path) -> None:
    (tmp_path / "m.csv").write_text("id,name\n1,ben\n2,cyd\n3,!\n")
    (tmp_path / "f.csv").write_text("follower,followee\n1,2\n")
    files = ("--members", str(tmp_path / "m.csv"), "--follows", str(tmp_path / "f.csv"), "--mutual")
    done = shoal(store, "import", *files, "--refused", str(tmp_path / "refused.jsonl"))
    assert done.exit_code == 0
    assert re.search(r"members +2 +0 +1", done.output)
    assert re.search(r"follows +2 +0 +0", done.output)
    assert "1 members rejected: a user name must have 1 to 30 characters" in done.output
    assert (tmp_path / "refused.jsonl").read_text().count("\n") == 1
    assert shoal(store, "export", "ben", "--to", str(tmp_path / "ben.zip")).exit_code == 0
    assert (tmp_path / "ben.zip").stat().st_size > 0


def test_cli_usage_error_is_one_line_with_help_hint(store: Path) -> None:
    for arguments, words in (
        (("post", "hide", "abc"), "'abc' is not a post id: use the number in the post's URL"),
        (("post", "hide", "-1"), "No such option"),
        (("post", "hide"), "Missing argument 'POST_ID'"),
        (("nonsense",), "No such command 'nonsense'"),
        (("serve", "--port", "many"), "'--port'"),
    ):
        done = shoal(store, *arguments)
        assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
        assert words in done.stderr
        assert re.search(r": see `[a-z ]+ --help`\n$", done.stderr), done.stderr
    assert "Run:" in CliRunner().invoke(main, []).output


@pytest.mark.parametrize("command", [("worker",), ("serve", "--port", "0", "--workers", "2")])
def test_cli_multiple_processes_on_sqlite_files_are_refused_with_hint(tmp_path: Path, command: tuple[str, ...]) -> None:
    """Processes that share one SQLite file read through its owner process; two files have no common owner."""
    halves = {half: f"sqlite:///{tmp_path / half}.db" for half in ("0-31", "32-63")}
    done = CliRunner().invoke(main, ["--store", json.dumps(halves), *command])
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert "need a shared store" in done.stderr
    assert "set store to postgresql://" in done.stderr


def test_cli_store_that_cannot_be_opened_is_reported_with_cause(tmp_path: Path, store: Path) -> None:
    (tmp_path / "junk.db").write_text("no database at all")
    for url, words in (
        (f"sqlite:///{tmp_path / 'junk.db'}", "file is not a database"),
        (f"sqlite:///{tmp_path / 'none' / 'x.db'}", "does not exist"),
        (
            "postgresql://postgres@127.0.0.1:1/x",
            r"seconds \(127\.0\.0\.1:1/x: (Connection refused|Connect call failed)",
        ),
        ("sqlite:////proc/x.db", "/proc/x.db-lock"),
    ):
        for command in (("move", "--to", url), ("--store", url, "serve", "--port", "0")):
            done = shoal(store, *command) if command[0] == "move" else CliRunner().invoke(main, list(command))
            assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
            assert re.search(words, done.stderr), done.stderr
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA user_version = 99")
    for arguments in (("member", "list"), ("check",), ("jobs",), ("serve", "--port", "0"), ("post", "hide", "12")):
        done = shoal(store, *arguments)
        assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
        assert "has schema version 99" in done.stderr


def test_cli_missing_postgresql_database_is_reported_in_one_line(store: Path) -> None:
    missing = postgres.server().url.removesuffix("/postgres") + "/not_made_yet"
    for command in (("move", "--to", missing), ("--store", missing, "serve", "--port", "0")):
        done = shoal(store, *command) if command[0] == "move" else CliRunner().invoke(main, list(command))
        assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
        assert 'database "not_made_yet" does not exist' in done.stderr


def test_cli_bench_accepts_benchmark_name_before_or_after_options(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        ran.append(command[2:])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr("shoal.cli.diagnostics.subprocess.run", run)
    for arguments in (["--quick", "home-page"], ["home-page", "--quick"], ["home_page", "--quick"], ["--quick"]):
        assert CliRunner().invoke(main, ["bench", *arguments]).exit_code == 0
    assert ran == [["benchmarks.home_page", "--quick"]] * 3 + [["benchmarks", "--quick"]]
    assert CliRunner().invoke(main, ["bench", "--quick", "nope"]).exit_code == 1


ERRORS = {
    ("check",): "no store at",
    ("member", "list"): "no store at",
    ("export", "ann", "--to", "out"): "no store at",
    ("import", "nowhere"): "nowhere is not a directory",
    ("import", "--members", "nowhere.csv"): "nowhere.csv does not exist",
    ("import", "--members", "m.txt"): "unsupported file type; use .csv, .jsonl or .ndjson",
    ("import", "--members", "m.csv", "--column", "members.name"): "--column: expected FIELD=COLUMN",
    ("placement", "no such name"): "a user name must have 1 to 30 characters",
    ("member", "add", "ann", "--password-stdin"): "password: 8 to 1024 characters",
}


@pytest.mark.parametrize("arguments", ERRORS)
def test_cli_error_is_one_line_with_hint(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = shoal(tmp_path / "none.db", *arguments)
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("shoal: ")
    assert ERRORS[arguments] in done.stderr
    assert "Traceback" not in done.output


def test_cli_invalid_settings_are_reported_in_one_line(tmp_path: Path) -> None:
    done = CliRunner(env={"SHOAL_PORT": "many"}).invoke(main, ["placement", "ann"])
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    file = tmp_path / "shoal.toml"
    file.write_text("log_level = 'loud'")
    done = CliRunner().invoke(main, ["--config", str(file), "placement", "ann"])
    assert (done.exit_code, "log_level" in done.stderr) == (1, True)
    file.write_text("prot = 1")
    done = CliRunner().invoke(main, ["--config", str(file), "placement", "ann"])
    assert (done.exit_code, "prot" in done.stderr) == (1, True)
    done = CliRunner().invoke(main, ["--config", str(tmp_path / "none.toml"), "placement", "ann"])
    assert (done.exit_code, "does not exist" in done.stderr) == (1, True)


def test_cli_import_without_input_shows_usage(store: Path) -> None:
    done = shoal(store, "import")
    assert (done.exit_code, "name a FOLDER" in done.stderr) == (2, True)


def test_cli_import_interrupted_by_ctrl_c_exits_130_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("name\n" + "\n".join(f"member{n}" for n in range(60_000)))
    store = tmp_path / "shoal.db"
    command = [sys.executable, "-m", "shoal.cli", "--store", f"sqlite:///{store}", "import"]
    child = subprocess.Popen(
        [*command, "--members", str(tmp_path / "m.csv")],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=at_a_desk,  # noqa: PLW1509  # no thread of the tests holds a lock here
    )
    until = time.monotonic() + 60
    while not store.with_name("shoal.db-wal").exists() and time.monotonic() < until:
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, complaint = child.communicate(timeout=300)
    assert child.returncode == 130
    assert complaint == "interrupted; run the command again to resume\n"


@in_loop
async def test_shoal_check_on_store_locked_without_control_socket_runs_read_only_and_refuses_repair(
    store: Path,
) -> None:
    async with Shoal.open(f"sqlite:///{store}"):
        done = await asyncio.to_thread(program, store, "check")
        assert (done.returncode, "not checked" in done.stdout) == (0, True)
        refused = await asyncio.to_thread(program, store, "check", "--repair")
        assert (refused.returncode, f"in use by another process, {os.getpid()} (" in refused.stderr) == (1, True)


def test_cli_plugin_command_is_found_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def tide() -> None:
        """Show the tide."""
        click.echo("low")

    entry = SimpleNamespace(name="tide", load=lambda: tide, dist=None)
    monkeypatch.setattr(group, "entry_points", lambda group, name="tide": [entry] if name == "tide" else [])
    runner = CliRunner()
    assert runner.invoke(main, ["tide"]).output == "low\n"
    assert re.search(r"^ +tide +Show the tide\.$", runner.invoke(main, ["--help"]).output, re.MULTILINE)
    assert runner.invoke(main, ["ebb"]).exit_code == 2


def test_cli_plugin_command_with_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> click.Command:
        raise ModuleNotFoundError("No module named 'xxhash'", name="xxhash")

    monkeypatch.setattr(
        group, "entry_points", lambda **_wanted: [SimpleNamespace(name="placement.study", load=load, dist=None)]
    )
    shown = CliRunner().invoke(main, ["placement", "study"])
    assert (shown.exit_code, "'.[study]'" in shown.output) == (1, True)


def test_cli_help_lists_plugin_command_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> click.Command:
        raise ImportError("no tides here")

    entry = SimpleNamespace(name="tide", load=load, dist=None)
    monkeypatch.setattr(group, "entry_points", lambda **_wanted: [entry])
    shown = CliRunner().invoke(main, ["--help"])
    assert (shown.exit_code, "(cannot be imported: no tides here)" in shown.output) == (0, True)


def test_cli_plugin_command_does_not_replace_builtin_command(monkeypatch: pytest.MonkeyPatch) -> None:
    other = SimpleNamespace(name="demo", load=lambda: click.Command("demo"), dist=SimpleNamespace(name="tides"))
    own = SimpleNamespace(name="demo", load=lambda: click.Command("own"), dist=SimpleNamespace(name="shoal"))
    monkeypatch.setattr(group, "entry_points", lambda **_wanted: [other, own])
    found = group.plugin("demo")
    assert found is not None
    assert found.name == "own"


def test_cli_plugin_subcommand_is_not_a_top_level_command() -> None:
    assert CliRunner().invoke(main, ["placement.study"]).exit_code == 2
