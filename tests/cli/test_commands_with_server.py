"""Every command on an SQLite store, with and without a server that has the store open: same output, same exit status."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, aclosing
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from shoal import Shoal as Network
from shoal.cli import main
from shoal.cli.group import COMMANDS
from shoal.commands import members, oauth
from shoal.core.placement import place
from shoal.core.tokens import Origin
from tests.archives import factories as archives
from tests.async_runner import at_a_desk
from tests.server_process import served

PASSWORD = "a long password"
UNBUFFERED = {**os.environ, "PYTHONUNBUFFERED": "1"}
Shoal = Callable[..., subprocess.CompletedProcess[str]]


def command(store: Path, *arguments: str) -> list[str]:
    """Return the command line to run."""
    return [sys.executable, "-m", "shoal.cli", "--store", f"sqlite:///{store}", *arguments]


def run(store: Path, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command in this process, without a subprocess."""
    done = CliRunner().invoke(main, ["--store", f"sqlite:///{store}", *arguments], input=typed)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store and the files that were imported into it."""
    folder = tmp_path_factory.mktemp("imported")
    lay_out(folder)
    made = run(folder / "shoal.db", "import", str(folder / "data"))
    assert made.returncode == 0, made.stderr
    assert run(folder / "shoal.db", "member", "password", "ann", "--password-stdin", typed=PASSWORD).returncode == 0
    return folder


@pytest.fixture(params=["alone", "served"])
def shoal(request: pytest.FixtureRequest, imported: Path, tmp_path: Path) -> Iterator[Shoal]:
    """Commands on a store with the member Ann and one imported post tagged #tide."""
    store = tmp_path / "shoal.db"
    shutil.copytree(imported, tmp_path, dirs_exist_ok=True)
    with ExitStack() as stack:
        if request.param == "served":
            stack.enter_context(served(store))

        def typed(*arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
            return run(store, *arguments, typed=typed)

        yield typed


def lay_out(folder: Path) -> None:
    """Write a network to import."""
    for name in ("graph", "posts"):
        (folder / "data" / name).mkdir(parents=True)
    (folder / "data" / "graph" / "nodes.csv").write_text("id,name\n1,ann\n2,ben\n3,!\n")
    (folder / "data" / "graph" / "edges.csv").write_text("follower,followee\n1,2\n")
    post = '{"id": 7, "author": "ann", "created_at": "2024-01-01", "text": "Low #tide", "tags": ["tide"]}\n'
    (folder / "data" / "posts" / "posts.jsonl").write_text(post)


def told(done: subprocess.CompletedProcess[str]) -> str:
    """Return the output of a command that must succeed."""
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one-line error of a command that must fail."""
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done
    return done.stderr.strip()


def eventually_true(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_cli_member_commands_add_and_change_members_with_and_without_running_server(shoal: Shoal) -> None:
    made = told(shoal("member", "add", "cyd", "--email", "c@example.org", "--password-stdin", typed=PASSWORD))
    assert re.fullmatch(r"created cyd, id \d+\n", made)
    assert "already been taken" in refused(shoal("member", "add", "cyd", "--password-stdin", typed=PASSWORD))
    assert "8 to 1024" in refused(shoal("member", "add", "dan", "--password-stdin", typed="short"))
    assert (
        told(shoal("member", "password", "cyd", "--password-stdin", typed="another one"))
        == "changed the password of cyd\n"
    )
    assert "is off" in refused(shoal("member", "second-factor-off", "cyd"))
    assert (
        told(shoal("member", "email", "cyd", "cyd@example.org"))
        == "changed the e-mail address of cyd to cyd@example.org\n"
    )
    assert told(shoal("member", "role", "cyd", "admin")) == "cyd is now an admin\n"
    assert told(shoal("member", "suspend", "cyd")) == "suspended cyd\n"
    assert told(shoal("member", "restore", "cyd")) == "unsuspended cyd\n"
    assert refused(shoal("member", "approve", "cyd")) == "shoal: This member is not pending approval"
    assert refused(shoal("member", "reject", "cyd")) == "shoal: This member is not pending approval"
    assert refused(shoal("member", "suspend", "nobody")) == "shoal: no member 'nobody'"
    assert [line.split("\t")[0] for line in told(shoal("member", "list")).splitlines()[1:]] == ["ann", "ben", "cyd"]


def test_upgrade_command_on_current_schema_has_nothing_to_do(shoal: Shoal) -> None:
    for more in ((), ("--dry-run",)):
        lines = told(shoal("upgrade", *more)).splitlines()
        assert [re.sub(r"sqlite:///\S+: ", "", line) for line in lines] == [
            "up to date",
            "search in up to date",
            "tags in up to date",
        ]


def test_import_archive_command_dry_run_writes_nothing_and_import_is_idempotent(shoal: Shoal, tmp_path: Path) -> None:
    notes = [archives.note(1, "<p>By the sea</p>"), archives.announce(2, "https://other.example/1")]
    path = str(archives.zipped(tmp_path / "archive.zip", archives.mastodon_files(notes)))
    looked = told(shoal("member", "import-archive", "ann", path, "--dry-run"))
    assert "Mastodon archive of https://mastodon.example/users/ann\nposts from 2022-11-05 to 2022-11-05\n" in looked
    assert "would be imported: 1 posts, 0 comments, 0 photos, 0 follows; 0 of the posts have photos" in looked
    assert "posts left out, 1: shared posts by others (https://other.example/1)" in looked
    assert "By the sea" not in told(shoal("feed", "ann"))
    first = told(shoal("member", "import-archive", "ann", path, "--visible-to", "followers"))
    assert "imported: 1 posts, 0 comments, 0 photos, 0 follows\nalready imported: 0 posts," in first
    assert "imported: 0 posts, 0 comments, 0 photos, 0 follows\nalready imported: 1 posts," in told(
        shoal("member", "import-archive", "ann", path)
    )
    assert "By the sea" in told(shoal("feed", "ann"))
    assert told(shoal("audit", "list")).count("archive.imported") == 2
    assert refused(shoal("member", "import-archive", "zoe", path)) == "shoal: no member 'zoe'"
    other = tmp_path / "photo.jpg"
    other.write_bytes(archives.picture())
    assert "unknown archive format" in refused(shoal("member", "import-archive", "ann", str(other)))
    assert "ok" in told(shoal("check"))


def test_cli_member_approve_and_reject_decide_pending_members(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    asyncio.run(_with_members_who_wait(store))
    with served(store):
        assert _names(told(run(store, "member", "list"))) == ["ann", "pam", "pia"]
        assert _names(told(run(store, "member", "list", "--pending"))) == ["pam", "pia"]
        assert told(run(store, "member", "approve", "pam")) == "approved pam\n"
        assert told(run(store, "member", "reject", "pia")) == "rejected and deleted pia\n"
        assert refused(run(store, "member", "restore", "pia")) == "shoal: no member 'pia'"
        assert _names(told(run(store, "member", "list", "--pending"))) == []
        assert _names(told(run(store, "member", "list"))) == ["ann", "pam"]
        assert "ok" in told(run(store, "check"))


def test_cli_member_invite_prints_invitation_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_INVITATIONS", "staff")
    monkeypatch.setenv("SHOAL_BASE_URL", "https://shoal.example")
    store = tmp_path / "shoal.db"
    told(run(store, "member", "add", "ann", "--password-stdin", typed=PASSWORD))
    with served(store):
        assert refused(run(store, "member", "invite", "ann")) == "shoal: You cannot invite people to this server"
        told(run(store, "member", "role", "ann", "moderator"))
        link = told(run(store, "member", "invite", "ann", "--uses", "3", "--days", "2", "--follow"))
        assert re.fullmatch(r"https://shoal\.example/invite/[\w-]{32}\n", link)
        assert told(run(store, "member", "invite", "ann", "--uses", "0", "--days", "0")) != link
        assert "30" in run(store, "member", "invite", "ann", "--days", "31").stderr
    assert told(run(store, "member", "invite", "ann")).startswith("https://shoal.example/invite/")


def test_cli_member_sessions_command_lists_sessions_and_logs_them_out(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    asyncio.run(_with_logins(store, 3))
    with served(store):
        head, *lines = told(run(store, "member", "sessions", "ann")).splitlines()
        assert head.split("\t") == ["id", "app", "created", "last used", "address"]
        ids = [line.split("\t")[0] for line in lines]
        assert {line.split("\t")[1] for line in lines} == {"Tide (Tusky on Android)"}
        assert {line.split("\t")[4] for line in lines} == {"192.0.2.7"}
        assert all(re.fullmatch(r"20\d\d-\d\d-\d\d", day) for line in lines for day in line.split("\t")[2:4])
        assert told(run(store, "member", "sessions", "ann", "--end", ids[1])) == "logged out 1 session of ann\n"
        assert (
            refused(run(store, "member", "sessions", "ann", "--end", ids[1])) == f"shoal: ann has no session {ids[1]}"
        )
        assert "or all (got 'x')" in refused(run(store, "member", "sessions", "ann", "--end", "x"))
        assert refused(run(store, "member", "sessions", "nobody")) == "shoal: no member 'nobody'"
    assert told(run(store, "member", "sessions", "ann", "--end", "all")) == "logged out 2 sessions of ann\n"
    assert told(run(store, "member", "sessions", "ann")).splitlines() == [head]


async def _with_logins(store: Path, count: int) -> None:
    async with Network.open(f"sqlite:///{store}") as network:
        ann, writes = await network.register("ann"), network.network.writes
        app = (await oauth.register(writes, "Tide")).app
        for _ in range(count):
            await oauth.issue_token(writes, app.id, ann.id, ("read",), origin=Origin("192.0.2.7", "Tusky", "Android"))


async def _with_members_who_wait(store: Path) -> None:
    async with Network.open(f"sqlite:///{store}") as network:
        await network.register("ann")
        for name in ("pam", "pia"):
            await members.register(network.network.writes, name, email=f"{name}@example.org", pending=True)


def _names(listed: str) -> list[str]:
    return sorted(line.split("\t")[0] for line in listed.splitlines()[1:])


def test_cli_key_commands_create_list_rotate_and_delete_server_keys(shoal: Shoal) -> None:
    made = shoal("key", "create", "shop", "--scopes", "server:act, read write")
    assert (made.returncode, made.stderr) == (0, "secret of the server key shop, shown only once:\n")
    assert re.fullmatch(r"[\w-]{43}\n", made.stdout)
    assert refused(shoal("key", "create", "shop", "--scopes", "server")) == (
        "shoal: name: there is a server key 'shop' already"
    )
    assert "'reed' is not a scope of server keys" in refused(shoal("key", "create", "kiosk", "--scopes", "server reed"))
    head, line = told(shoal("key", "list")).splitlines()
    assert head.split("\t") == ["name", "created", "last used", "address", "scopes", "old secret until"]
    name, day, *rest = line.split("\t")
    assert (name, rest) == ("shop", ["-", "-", "server:act read write", "-"])
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", day)
    assert shoal("key", "rotate", "shop", "--grace-hours", "2").stdout != made.stdout
    assert re.search(r"\t20\d\d-\d\d-\d\d \d\d:\d\d UTC$", told(shoal("key", "list")))
    assert told(shoal("key", "delete", "shop")) == "deleted the server key shop\n"
    for command in ("rotate", "delete"):
        assert refused(shoal("key", command, "shop")) == "shoal: there is no server key 'shop'"
    assert told(shoal("key", "list")).splitlines() == [head]
    assert re.findall(r"server_key\.\w+", told(shoal("audit", "list"))) == [
        "server_key.deleted",
        "server_key.rotated",
        "server_key.created",
    ]


def test_cli_member_external_ids_lists_adds_and_removes_ids(shoal: Shoal) -> None:
    shop = ("https://shop.example", "42")
    assert told(shoal("member", "external-ids", "ann")) == "issuer\tid\n"
    assert told(shoal("member", "external-ids", "ann", "--add", *shop)) == "issuer\tid\nhttps://shop.example\t42\n"
    assert refused(shoal("member", "external-ids", "ben", "--add", *shop)) == (
        "shoal: another member has this external id"
    )
    assert told(shoal("member", "external-ids", "ann", "--remove", *shop)) == "issuer\tid\n"
    assert refused(shoal("member", "external-ids", "ann", "--remove", *shop)) == (
        "shoal: @ann does not have the external id https%3A%2F%2Fshop.example:42"
    )
    assert refused(shoal("member", "external-ids", "nobody")) == "shoal: no member 'nobody'"


def test_cli_post_hide_and_reveal_change_post_visibility(shoal: Shoal, tmp_path: Path) -> None:
    assert (
        told(shoal("export", "ann", "--to", str(tmp_path / "ann")))
        == f"exported the data of ann to {tmp_path / 'ann'}\n"
    )
    (post,) = re.findall(r'"id": ?"(\d+)"', (tmp_path / "ann" / "posts.json").read_text())
    assert told(shoal("post", "hide", post)) == f"hid post {post}\n"
    assert told(shoal("post", "reveal", post)) == f"unhid post {post}\n"
    assert refused(shoal("post", "hide", "12")) == "shoal: Record not found"


def test_cli_block_commands_manage_blocks_of_domains_emails_networks_and_names(shoal: Shoal) -> None:
    assert told(shoal("block", "domain", "Spam.Example")) == "blocked the e-mail addresses of spam.example at sign-up\n"
    assert told(shoal("block", "email", "r.ude@example.org")) == "blocked r.ude@example.org at sign-up\n"
    assert refused(shoal("block", "domain", "spam.example")) == "shoal: Domain has already been taken"
    assert refused(shoal("block", "domain", "no domain")) == "shoal: Domain is not a valid domain name"
    network = ("block", "network", "203.0.113.9/24", "--severity", "sign_up_block", "--comment", "robots")
    assert told(shoal(*network, "--days", "7")) == "blocked 203.0.113.0/24: sign_up_block\n"
    assert refused(shoal("block", "network", "spam.example")).startswith("shoal: Ip is not an IP address")
    listed = [line.split("\t") for line in told(shoal("block", "list")).splitlines()[1:]]
    assert [line[0] for line in listed] == ["domain", "email", "network"]
    assert listed[2][1] == "203.0.113.0/24"
    assert re.fullmatch(r"sign_up_block until \d{4}-\d\d-\d\d robots", listed[2][3])
    assert told(shoal("block", "end", "203.0.113.0/24")) == "unblocked 203.0.113.0/24\n"
    assert listed[0][1:4:2] == ["spam.example", "refused: 0"]
    assert told(shoal("block", "end", "spam.example")) == "unblocked spam.example\n"
    assert told(shoal("block", "end", "Rude+x@example.org")) == "unblocked Rude+x@example.org\n"
    assert refused(shoal("block", "end", "spam.example")) == "shoal: spam.example is not blocked"
    assert told(shoal("block", "list")).count("\n") == 1
    assert told(shoal("block", "name", "h4te", "--part")) == "user names containing h4te are now refused at sign-up\n"
    assert told(shoal("block", "name", "boss")) == "user names equal to boss are now refused at sign-up\n"
    assert refused(shoal("block", "name", "b0ss")) == "shoal: This word is blocked already"
    assert [line.split("\t")[:2] for line in told(shoal("block", "list")).splitlines()[1:]] == [
        ["name", "boss"],
        ["name", "*hate*"],
    ]
    assert told(shoal("block", "end", "--name", "hate")) == "unblocked hate\n"
    assert refused(shoal("block", "end", "--name", "hate")) == "shoal: hate is not blocked"


def test_import_command_resumes_and_reports_refused_rows(shoal: Shoal, tmp_path: Path) -> None:
    (tmp_path / "data" / "graph" / "nodes.csv").write_text("id,name\n1,ann\n2,ben\n3,!\n4,cyd\n")
    done = told(shoal("import", str(tmp_path / "data"), "--refused", str(tmp_path / "refused.jsonl")))
    for line in (r"members +1 +2 +1", r"follows +0 +2 +0", r"posts +0 +1 +0"):
        assert re.search(line, done), done
    assert "1 members rejected: a user name must have 1 to 30 characters" in done
    assert (tmp_path / "refused.jsonl").read_text().count("\n") == 1
    missing = tmp_path / "none.csv"
    assert refused(shoal("import", "--members", str(missing))) == f"shoal: {missing} does not exist"
    unfit = ("import", "--members", str(tmp_path / "data" / "posts" / "posts.jsonl"), "--column", "members.name=title")
    assert "no column 'title'" in refused(shoal(*unfit))


def test_import_command_with_map_reports_a_dry_run_and_imports_with_and_without_server(
    shoal: Shoal, tmp_path: Path
) -> None:
    old = tmp_path / "old"
    old.mkdir()
    (old / "users.csv").write_text("id,name\n1,dora\n2,ann\n3,\n")
    (old / "posts.jsonl").write_text('{"id": 7, "user": 1, "text": "Low tide", "at": "2024-05-06"}\n')
    (tmp_path / "map.toml").write_text(
        """
        issuer = "https://old.example"
        [members]
        table = "users"
        fields = { id = "id", name = "name" }
        [posts]
        table = "posts"
        fields = { id = "id", author = "user", text = "text", created_at = "at" }
        """
    )
    mapped = ("import", "--map", str(tmp_path / "map.toml"), "--from", str(old))
    planned = told(shoal(*mapped, "--dry-run"))
    assert planned.startswith("imported from a database; dry run, nothing was written\n")
    assert re.search(r"members +3 +0 +0", planned), planned
    assert refused(shoal("member", "external-ids", "dora")) == "shoal: no member 'dora'"
    done = told(shoal(*mapped))
    assert re.search(r"posts +1 +0 +0", done), done
    assert told(shoal("member", "external-ids", "dora")) == "issuer\tid\nhttps://old.example\t1\n"
    assert told(shoal("member", "external-ids", "ann_2")) == "issuer\tid\nhttps://old.example\t2\n"
    assert re.search(r"members +0 +3 +0", told(shoal(*mapped)))
    assert told(shoal("check", "--sample", "0")).endswith("\n")
    for arguments, message in (
        (("--map", "mastodon"), "--map and --from need each other"),
        (("--strict",), "--strict needs --map"),
        ((*mapped[1:], "--mutual"), "--map cannot be combined with FOLDER and the options of its files"),
    ):
        assert message in shoal("import", *arguments).stderr
    assert "no ready map of this name (django-activity-stream, mastodon" in refused(
        shoal("import", "--map", "none", "--from", "x")
    )


def test_import_command_dry_run_without_store_creates_none(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "users.csv").write_text("id,name\n1,dora\n")
    fields = 'table = "users"\nfields = { id = "id", name = "name" }'
    (tmp_path / "map.toml").write_text(f'issuer = "x"\n[members]\n{fields}\n')
    store = tmp_path / "new" / "shoal.db"
    mapped = ("import", "--map", str(tmp_path / "map.toml"), "--from", str(tmp_path / "old"), "--dry-run")
    assert re.search(r"members +1 +0 +0", told(run(store, *mapped)))
    assert not store.parent.exists()


def test_cli_read_and_maintenance_commands_succeed_with_and_without_running_server(
    shoal: Shoal, tmp_path: Path
) -> None:
    assert told(shoal("feed", "ann", "--for-you", "--json")).startswith('{"lines":[')
    assert told(shoal("suggestions", "ben")) == "no suggestions\n"
    assert told(shoal("rank", "replay", "--preset", "fresh", "--json")).startswith('{"options":{')
    (tmp_path / "new.toml").write_text("[weights]\nfrends = 1\n")
    assert "allowed are reactions" in refused(shoal("rank", "replay", "--weights", str(tmp_path / "new.toml")))
    assert told(shoal("search", "rebuild")) == "3 members and posts indexed\n"
    assert told(shoal("tags", "deny", "tide")) == "#tide\tis denied\n"
    assert told(shoal("tags", "rules")) == "#tide\tis denied\n"
    assert told(shoal("tags", "allow", "tide")).startswith("#tide\tis shown")
    assert told(shoal("tags", "merge", "tide", "ebb")) == "#tide\tcounts as #ebb\n"
    assert told(shoal("tags", "unmerge", "tide")).startswith("#tide\tis shown")
    assert "#tide" in told(shoal("tags", "show", "tide"))
    assert "tide" in told(shoal("tags"))
    assert "tags written to" in told(shoal("tags", "picture", str(tmp_path / "cloud.svg")))
    assert "parked: 0" in told(shoal("jobs"))
    assert told(shoal("jobs", "replay", "--all")) == "replayed 0 jobs\n"
    assert "consistent" in told(shoal("check", "--repair"))
    assert "over the data sources" in told(shoal("shards"))


def test_cli_events_tail_without_server_prints_stored_events_and_stops(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    lines = asyncio.run(_logged(store))
    assert told(run(store, "events", "tail", "--after", "start")) == lines
    assert told(run(store, "events", "tail")) == ""
    (line,) = told(run(store, "events", "tail", "--after", "start", "--types", "post", "--json")).splitlines()
    event = json.loads(line)
    assert (event["type"], event["data"]["text"]) == ("post.created", "hello")
    assert told(run(store, "events", "tail", "--after", event["position"])) == ""
    assert "is not one of member.created" in refused(run(store, "events", "tail", "--types", "x"))
    assert "is not a cursor" in refused(run(store, "events", "tail", "--after", "x"))


def test_cli_events_tail_with_server_prints_events_when_they_are_committed(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    asyncio.run(_logged(store))
    with served(store):
        tail = command(store, "events", "tail", "--after", "start", "--types", "member")
        with subprocess.Popen(tail, stdout=subprocess.PIPE, text=True, env=UNBUFFERED) as process:
            assert process.stdout is not None
            try:
                assert "\tmember.created\tmember/" in process.stdout.readline()
                told(run(store, "member", "add", "ben", "--password-stdin", typed=PASSWORD))
                assert "\tmember.created\tmember/" in process.stdout.readline()
            finally:
                process.kill()


async def _logged(store: Path) -> str:
    """Create a store with an event log, and return its events as `shoal events tail` prints them."""
    async with Network.open(f"sqlite:///{store}", event_log="on") as network:
        ann = await network.register("ann")
        post = await ann.create("hello")
        async with aclosing(network.events("start")) as events:
            times = [(await anext(events)).time for _ in range(2)]
    return f"{times[0]}\tmember.created\tmember/{ann.id}\n{times[1]}\tpost.created\tpost/{post.id}\n"


def test_placement_study_of_store_covers_its_members(shoal: Shoal) -> None:
    shown = json.loads(told(shoal("placement", "study", "--weight", "posts", "--only", "md5", "--json")))
    assert (shown["names"], shown["source"], shown["activity"]) == (
        2,
        "the members of the network",
        "taken from the source",
    )
    first = shown["schemes"][0]["levels"][0]
    # Only Ann has posted.
    assert (first["hottest_bucket"], first["hottest_members"]) == (str(place("ann").a), 1)


def test_cli_command_on_store_of_running_server_takes_effect_immediately(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    with served(store) as server:
        door = store.with_name("shoal.db.sock")
        assert stat.S_IMODE(door.stat().st_mode) == 0o600
        told(run(store, "member", "add", "ann", "--password-stdin", typed=PASSWORD))
        profile = f"{server.url}/api/v1/accounts/lookup?acct=ann"
        assert httpx.get(profile, timeout=60).status_code == 200
        told(run(store, "member", "suspend", "ann"))
        assert httpx.get(profile, timeout=60).status_code == 410
        assert "home timelines (I1) equal their definition: 1 checked, ok" in told(run(store, "check"))
        server.stop()
    assert not door.exists()


def test_cli_moderation_commands_on_store_of_running_server_hold_and_hide_posts(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    with served(store) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        told(run(store, "member", "add", "ann", "--password-stdin", typed=PASSWORD))
        key = run(store, "key", "create", "shop", "--scopes", "server:act read write").stdout.strip()
        told(run(store, "member", "external-ids", "ann", "--add", "shop", "1"))
        headers = {"Authorization": f"Bearer {key}", "Shoal-Member": "external:shop:1"}

        def write(text: str) -> str:
            """Post, and return the id; empty if the post is held."""
            answer = client.post("/api/v1/statuses", json={"status": text}, headers=headers)
            assert answer.status_code == 200 or "waiting for approval" in answer.text
            return str(answer.json()["id"]) if answer.status_code == 200 else ""

        def is_shown(status_id: str) -> bool:
            return client.get(f"/api/v1/statuses/{status_id}").status_code == 200

        first = write("Buy my boat")
        told(run(store, "moderation", "rules", "add", "Boats", "--word", "boat"))
        assert "1 hits by 1 members" in told(run(store, "moderation", "rules", "try", "1"))
        told(run(store, "moderation", "rules", "state", "1", "armed"))
        eventually_true(lambda: not write("Buy my boat"))
        preview = told(run(store, "moderation", "bulk", "preview", "hide", "--word", "boat"))
        action = preview.rpartition("apply ")[2].partition("`")[0]
        told(run(store, "moderation", "bulk", "apply", action))
        eventually_true(lambda: not is_shown(first))
        # The posts are hidden before the action is marked as done.
        eventually_true(lambda: run(store, "moderation", "bulk", "undo", action).returncode == 0)
        eventually_true(lambda: is_shown(first))


def test_kind_command_declares_lists_and_shows_kinds(shoal: Shoal, tmp_path: Path) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text('name = "recipe"\n[schema]\ntype = "object"\nrequired = ["title"]\n')
    assert told(shoal("kind", "declare", str(file))) == "recipe: version 1\n"
    (tmp_path / "recipe.json").write_text('{"name": "recipe", "schema": {"type": "object"}}')
    assert told(shoal("kind", "declare", str(tmp_path / "recipe.json"))) == "recipe: version 2\n"
    refused = shoal("kind", "declare", str(file))
    assert (refused.returncode, "data.title: is now required" in refused.stderr) == (1, True)
    indexed = {"name": "recipe", "schema": {"type": "object", "properties": {"minutes": {"type": "number"}}}}
    (tmp_path / "run.json").write_text(json.dumps({**indexed, "name": "run", "index": {"minutes": "number"}}))
    assert told(shoal("kind", "declare", str(tmp_path / "run.json"))) == "run: version 1\n"
    assert told(shoal("kind", "list")) == "name\tversion\tindexed\tbeing built\nrecipe\t2\t-\t-\nrun\t1\tminutes\t-\n"
    assert told(shoal("kind", "posts", "run", "--filter", "minutes=1..2")) == ""
    assert "'hours' has no index" in shoal("kind", "posts", "run", "--filter", "hours=1").stderr
    assert "must be PATH=VALUE" in shoal("kind", "posts", "run", "--filter", "minutes").stderr
    assert told(shoal("kind", "reindex", "run")) == "indexing the posts of run\n"
    assert json.loads(told(shoal("kind", "show", "recipe")))["schema"] == {"type": "object"}
    assert "there is no kind" in shoal("kind", "show", "listing").stderr


def test_reaction_command_declares_lists_and_retires_reactions(shoal: Shoal, tmp_path: Path) -> None:
    file = tmp_path / "cooked.toml"
    file.write_text('name = "cooked"\ntitle = "Cooked it"\nweight = 3\n')
    assert told(shoal("reaction", "declare", str(file))) == "cooked: declared\n"
    several = [{"name": name, "title": name.title(), "group": "attendance"} for name in ("going", "maybe")]
    (tmp_path / "group.json").write_text(json.dumps({"reactions": several}))
    assert told(shoal("reaction", "declare", str(tmp_path / "group.json"))) == "going: declared\nmaybe: declared\n"
    assert told(shoal("reaction", "retire", "maybe")) == "maybe: retired\n"
    assert told(shoal("reaction", "list")).splitlines() == [
        "name\ttitle\tgroup\tkinds\tweight\tstate",
        "cooked\tCooked it\t-\tall\t3\tactive",
        "going\tGoing\tattendance\tall\t0\tactive",
        "maybe\tMaybe\tattendance\tall\t0\tretired",
    ]
    file.write_text('name = "cooked"\ntitle = "Cooked it"\ngroup = "a"\n')
    refused = shoal("reaction", "declare", str(file))
    assert (refused.returncode, "group: cannot be changed (from '' to 'a')" in refused.stderr) == (1, True)
    (tmp_path / "two.json").write_text(
        json.dumps({"reactions": [{"name": "a", "title": "A"}, {"name": "b", "title": "B", "kinds": ["c"]}]})
    )
    refused = shoal("reaction", "declare", str(tmp_path / "two.json"))
    assert (refused.stdout, "there is no kind 'c'" in refused.stderr) == ("", True)
    assert "\na\t" not in told(shoal("reaction", "list"))
    file.write_text('name = "cooked"\n')
    assert "missing required field `title`" in shoal("reaction", "declare", str(file)).stderr
    file.write_text('name = "old"\ntitle = "Old"\nretired = true\n')
    assert told(shoal("reaction", "declare", str(file))) == "old: retired\n"
    assert "there is no reaction 'other'" in shoal("reaction", "retire", "other").stderr


def test_cli_feeds_commands_create_change_and_delete_feeds_of_running_server(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    declared = {"sources": [{"from": "everybody"}], "order": {"by": "expression", "expression": "likes"}}
    file = tmp_path / "best.json"
    file.write_text(json.dumps(declared))
    with served(store) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        assert told(run(store, "feeds", "add", "best", str(file))) == (
            "feed best: a page takes up to 141 reads and 200 candidates\n"
        )
        assert client.get("/api/shoal/v1/feeds/best").json() == []
        told(run(store, "feeds", "change", "best", "--title", "The best"))
        assert told(run(store, "feeds", "list")).splitlines()[1:] == ["best\texpression\t141\t200\tThe best"]
        assert json.loads(told(run(store, "feeds", "show", "best"))) == declared
        file.write_text(json.dumps({**declared, "order": {"by": "expression", "expression": "hearts"}}))
        assert "order.expression: at position 1: unknown name 'hearts'" in refused(
            run(store, "feeds", "change", "best", str(file))
        )
        assert "nothing to change" in refused(run(store, "feeds", "change", "best"))
        file.write_text(json.dumps({**declared, "order": {"by": "expression", "expression": "shares"}}))
        told(run(store, "member", "add", "ann", "--password-stdin", typed=PASSWORD))
        tried = told(run(store, "feeds", "try", str(file), "--as", "ann", "--against", "best"))
        assert tried.splitlines() == [
            "a page takes up to 141 reads and 200 candidates",
            "100% of the posts are in both feeds",
        ]
        assert json.loads(told(run(store, "feeds", "try", str(file), "--as", "ann", "--json")))["lines"] == []
        assert "no member sees a post" in told(run(store, "feeds", "compare", "best", str(file)))
        compared = json.loads(told(run(store, "feeds", "compare", "best", str(file), "--days", "1", "--json")))
        assert (compared["options"]["days"], compared["figures"]["members"]) == (1, 0)
        assert told(run(store, "feeds", "delete", "best")) == "deleted feed best\n"
        assert client.get("/api/shoal/v1/feeds/best").status_code == 404
        assert "there is no feed 'best'" in refused(run(store, "feeds", "delete", "best"))


def test_backup_command_creates_lists_verifies_prunes_and_restores_backups(shoal: Shoal, tmp_path: Path) -> None:
    place = str(tmp_path / "backups")
    first = told(shoal("backup", "--to", place)).splitlines()
    name = first[0].partition(" ")[0]
    assert first[0].startswith(f"{name} written to {place}, state of 20")
    assert re.fullmatch(r"\d+ rows in [\d,]+ bytes", first[1])
    assert first[2] == "0 media files (0 bytes), 0 new (0 bytes)"
    second = json.loads(told(shoal("backup", "--to", place, "--json", "--mb-per-second", "100")))
    assert second["new_media_files"] == second["lacks"] == 0
    listed = told(shoal("backup", "list", place)).splitlines()
    assert [line.split()[0] for line in listed] == [name, second["generation"]]
    assert [each["generation"] for each in json.loads(told(shoal("backup", "list", place, "--json")))] == [
        name,
        second["generation"],
    ]
    assert "all intact" in told(shoal("backup", "verify", place, name, "--quick"))
    assert json.loads(told(shoal("backup", "verify", place, "--json")))["faults"] == 0
    third = told(shoal("backup", "--to", place, "--keep", "2")).splitlines()
    assert third[-2:] == [f"deleted {name}", "0 unreferenced media files deleted (0 bytes)"]
    pruned = told(shoal("backup", "prune", place, "--keep-daily", "1", "--keep-weekly", "1"))
    assert pruned.splitlines()[0] == f"deleted {second['generation']}"
    done = run(tmp_path / "new.db", "restore", "--from", place)
    assert done.returncode == 0, done
    assert "restored generation" in done.stdout
    assert done.stdout.splitlines()[-1].startswith(("consistent", "violations found"))
    assert "consistent" in told(run(tmp_path / "new.db", "check"))
    assert [line.split("\t")[0] for line in told(run(tmp_path / "new.db", "member", "list")).splitlines()[1:]] == [
        "ann",
        "ben",
    ]


def test_backup_command_with_invalid_arguments_or_damaged_files_reports_error(shoal: Shoal, tmp_path: Path) -> None:
    place = tmp_path / "backups"
    assert shoal("backup").returncode == 2
    assert shoal("backup", "prune", str(place)).returncode == 2
    assert refused(shoal("backup", "list", str(place))) == f"shoal: no directory {place}: create it first"
    assert "no store at" in refused(run(tmp_path / "none.db", "backup", "--to", str(place)))
    name = json.loads(told(shoal("backup", "--to", str(place), "--json")))["generation"]
    (part,) = (place / name).glob("objects-*")
    part.write_bytes(b"no rows")
    found = shoal("backup", "verify", str(place))
    assert (found.returncode, found.stderr) == (1, "")
    assert f"{name}/objects-00-00001.gz is damaged" in found.stdout
    said = refused(run(tmp_path / "new.db", "restore", "--from", str(place)))
    assert said == f"shoal: {name}/objects-00-00001.gz is damaged: its hash differs from the manifest"
    assert "no generation 2" in refused(
        run(tmp_path / "new.db", "restore", "--from", str(place), "--generation", "20260101T000000000Z-0000")
    )


def test_import_command_on_store_of_running_server_is_cancelled_by_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("name\n" + "\n".join(f"member{n}" for n in range(60_000)))
    store = tmp_path / "shoal.db"
    with served(store):
        importing = subprocess.Popen(
            command(store, "import", "--members", str(tmp_path / "m.csv")),
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=at_a_desk,  # noqa: PLW1509  # no thread of the tests holds a lock here
        )
        while run(store, "member", "list").stdout.count("\n") < 2:
            assert importing.poll() is None
        importing.send_signal(signal.SIGINT)
        _, complaint = importing.communicate(timeout=300)
        assert (importing.returncode, complaint) == (130, "interrupted; run the command again to resume\n")
        # The server does not report the cancelled import as still running.
        assert run(store, "check", "--sample", "0").returncode == 0


def test_cli_on_store_locked_by_other_process_names_the_process(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    with served(store, start_method="spawn") as server:
        assert run(store, "backup", "--to", str(tmp_path / "backups")).returncode == 0
        for arguments in (
            ("serve", "--port", "0"),
            ("move", "--to", f"sqlite:///{tmp_path / 'there.db'}"),
            ("restore", "--from", str(tmp_path / "backups")),
        ):
            said = refused(run(store, *arguments))
            assert f"in use by another process, {server.process.pid} (" in said
            assert " serve --port 0): stop that process first" in said
        store.with_name("shoal.db.sock").unlink()
        assert f", {server.process.pid} (" in refused(run(store, "member", "role", "ann", "admin"))


def test_why_slow_command_asks_running_server(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    assert "no server is running on this store" in refused(run(store, "why-slow"))
    with served(store, SHOAL_SLOW_MS="60000") as server:
        assert httpx.get(f"{server.url}/health").status_code == 200
        assert told(run(store, "why-slow")) == "no request was slow\n"
        assert "no slow request 'x'" in refused(run(store, "why-slow", "x"))


def test_cli_commands_are_all_tested_with_server_unless_they_need_none() -> None:
    tried = {
        "member",
        "audit",
        "events",
        "key",
        "kind",
        "reaction",
        "webhooks",  # in tests/webhooks
        "held",  # in tests/moderation
        "moderation",
        "project",  # in tests/project
        "post",
        "block",
        "export",
        "import",
        "feed",
        "feeds",
        "suggestions",
        "rank",
        "search",
        "tags",
        "why-slow",
        "jobs",
        "check",
        "upgrade",
        "backup",
        "restore",
        "shards",
        "serve",
        "move",
        "placement",
        "doctor",
    }
    assert set(COMMANDS) - tried == {"worker", "cluster", "demo", "bench", "plan", "simulate", "mail", "push", "init"}
