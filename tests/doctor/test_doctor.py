"""`shoal doctor` against real engines, disks and mail servers: it reports problems, and changes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiormq
import asyncpg
import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from redis import Redis

from shoal import Shoal
from shoal.app.network import open_network
from shoal.cli import main
from shoal.core.events import PostCreated
from shoal.core.webhooks import Pause, Webhook
from shoal.graph.access import get_object
from shoal.graph.changes import change_object
from shoal.graph.contract import Batch
from shoal.graph.postgres import primary
from shoal.health.probes import EngineHealth
from shoal.monitoring import preflight
from shoal.monitoring.preflight import Diagnosis, Grade
from shoal.push.encryption import new_key
from shoal.settings import Settings
from shoal_devcluster.program import free_port
from tests.disks import small_disk
from tests.doctor.findings import visit, visit_file
from tests.engines import dynamodb, postgres, rabbitmq, redis
from tests.engines.certificates import self_signed
from tests.engines.smtp import post_office
from tests.server_process import served
from tests.timelines.on_dynamodb import new_url


async def made(url: str, timelines: str = "memory://") -> None:
    async with Shoal.open(url, timelines=timelines) as network:
        await network.register("ann")


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def test_doctor_in_empty_folder_creates_no_files(tmp_path: Path) -> None:
    found = visit(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["shoal.toml"]
    assert (found.only("store").grade, found.only("server").grade) == ("warn", "warn")
    assert found.bad() == set()


def test_doctor_with_running_server_changes_no_files(tmp_path: Path) -> None:
    port, metrics = free_port(), free_port()
    asyncio.run(made(f"sqlite:///{tmp_path / 'shoal.db'}"))
    with served(tmp_path / "shoal.db", "--port", str(port), SHOAL_METRICS_PORT=str(metrics)):
        visit(tmp_path, port=port, metrics_port=metrics)
        before = listing(tmp_path)
        found = visit(tmp_path, port=port, metrics_port=metrics)
        settings = str(tmp_path / "shoal.toml")
        assert {**listing(tmp_path), settings: (0, 0)} == {**before, settings: (0, 0)}
    for check in ("settings", "settings_file", "server", "store", "jobs", "metrics", "push_key", "disk", "files"):
        assert found.grades(check) == ["ok"], found.all
    assert "the server (process" in found.only("files").message


def test_doctor_reports_open_file_limit_of_running_server(tmp_path: Path) -> None:
    port = free_port()
    with served(tmp_path / "shoal.db", "--port", str(port), files=512):
        assert "may open 512 files" in visit(tmp_path, port=port).only("files").message


def test_doctor_server_on_port_that_serves_another_store_is_reported(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "other").mkdir()
    with served(tmp_path / "shoal.db", "--port", str(port)):
        assert "does not have this store" in visit(tmp_path / "other", port=port).only("server").message
        assert "has the store open, but no server answers" in visit(tmp_path, port=free_port()).only("server").message


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o622])
def test_doctor_settings_file_with_secrets_and_wide_permissions_is_graded_bad(tmp_path: Path, mode: int) -> None:
    visit(tmp_path, push_key=new_key(), metrics_port=9500)
    path = tmp_path / "shoal.toml"
    path.chmod(mode)
    finding = visit_file(path).only("settings_file")
    assert finding.grade == ("ok" if mode in {0o600, 0o640} else "bad")
    if mode == 0o644:
        assert "push_key" in finding.message
        assert "chmod 600" in finding.advice


def test_doctor_readable_settings_file_with_secret_is_graded_bad_even_if_environment_overrides_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "shoal.toml"
    path.write_text('mail = "smtps://post:word@mail.example"\n')
    path.chmod(0o644)
    assert visit_file(path, SHOAL_MAIL="").only("settings_file").grade == "bad"
    path.write_text('mail = ""\n')
    assert visit_file(path, SHOAL_MAIL="smtps://post:word@mail.example").only("settings_file").grade == "ok"
    path.write_text("""store = '{"0-63": "postgresql://shoal:word@127.0.0.1:9/shoal"}'\n""")
    assert visit_file(path).only("settings_file").grade == "bad"


def test_doctor_settings_file_without_secrets_may_be_world_readable(tmp_path: Path) -> None:
    path = tmp_path / "shoal.toml"
    path.write_text('timelines = "redis://ann@127.0.0.1:1"\n')
    path.chmod(0o644)
    assert visit_file(path).only("settings_file").grade == "ok"


def test_doctor_secret_files_are_read_and_their_permissions_checked(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(new_key())
    (tmp_path / "key").chmod(0o644)
    visit(tmp_path)
    found = visit_file(tmp_path / "shoal.toml", SHOAL_PUSH_KEY_FILE=str(tmp_path / "key"))
    assert (found.only("secret_file").grade, found.only("push_key").message) == ("bad", "set")
    (tmp_path / "key").chmod(0o600)
    found = visit_file(tmp_path / "shoal.toml", SHOAL_PUSH_KEY_FILE=str(tmp_path / "key"))
    assert (found.only("secret_file").grade, found.only("settings").grade) == ("ok", "ok")
    found = visit_file(tmp_path / "shoal.toml", SHOAL_PUSH_KEY_FILE=str(tmp_path / "none"))
    assert "cannot read" in found.only("settings").message


def test_doctor_unknown_settings_are_reported_with_suggestion(tmp_path: Path) -> None:
    path = tmp_path / "shoal.toml"
    path.write_text('titel = "Tide pool"\nnonsense = 1\n')
    found = visit_file(path, SHOAL_BASEURL="https://shoal.example", SHOAL_CONFIG=str(path))
    told = [one for one in found.all if one.check == "settings"]
    assert [one.grade for one in told] == ["bad", "bad", "warn"]
    assert "did you mean title" in told[0].advice
    assert "did you mean base_url" in told[2].advice
    # The other checks still run.
    assert found.grades("memory") == ["ok"]


def test_doctor_accepts_old_names_of_settings(tmp_path: Path) -> None:
    path = tmp_path / "shoal.toml"
    path.write_text("loud_from = 8000\n")
    found = visit_file(path, SHOAL_LOUD_FROM="9000", SHOAL_CONFIG=str(path))
    assert [one.grade for one in found.all if one.check == "settings"] == ["ok"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("port = 70000", "port"),
        ("port = ", "not valid TOML"),
        ('store = { "0-31" = "memory://" }', "no store for 32-63"),
        ('trusted_proxies = "["', "not valid JSON"),
    ],
)
def test_doctor_invalid_settings_are_reported_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "shoal.toml"
    path.write_text(text)
    told = [one for one in visit_file(path).all if one.check == "settings"]
    assert any(one.grade == "bad" and message in one.message for one in told), told


def test_doctor_missing_settings_file_is_graded_bad_only_if_its_path_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert visit_file(tmp_path / "none.toml").only("settings").grade == "bad"
    monkeypatch.chdir(tmp_path)
    done = subprocess.run([sys.executable, "-m", "shoal.cli", "doctor"], capture_output=True, text=True, check=False)
    assert done.returncode < 2
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("grades", "status"), [(("ok",), 0), (("ok", "warn", "ok"), 1), (("warn", "bad", "ok"), 2), (("bad",), 2)]
)
def test_doctor_exit_status_is_that_of_the_worst_finding(
    grades: tuple[Grade, ...], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def examine(*_: object) -> list[Diagnosis]:
        return [Diagnosis("store", grade, "found") for grade in grades]

    monkeypatch.setattr("shoal.cli.diagnostics.examine", examine)
    assert CliRunner().invoke(main, ["doctor"]).exit_code == status


def test_doctor_command_prints_one_line_per_check_or_json(tmp_path: Path) -> None:
    def shoal(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "shoal.cli", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)

    plain = shoal("doctor")
    assert plain.returncode == 1
    assert all(line.split()[0] in {"ok", "warn"} for line in plain.stdout.splitlines())
    (tmp_path / "shoal.toml").write_text("prot = 1\n")
    wrong = shoal("doctor", "--json")
    assert wrong.returncode == 2
    assert {"check": "settings", "grade": "bad"}.items() <= json.loads(wrong.stdout)[0].items()


def test_doctor_full_disk_is_graded_bad(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "200m") as disk:
        assert visit(tmp_path, store=f"sqlite:///{disk / 'shoal.db'}").grades("disk")[0] == "warn"
        (disk / "filler").write_bytes(bytes(120 << 20))
        assert visit(tmp_path, store=f"sqlite:///{disk / 'shoal.db'}").grades("disk")[0] == "bad"
    assert visit(tmp_path).grades("disk") == ["ok"]


def test_doctor_disk_without_free_inodes_is_graded_bad(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "4g,nr_inodes=40") as disk:
        assert visit(tmp_path, store=f"sqlite:///{disk / 'shoal.db'}").grades("disk")[0] == "ok"
        with contextlib.suppress(OSError):
            for number in range(100):
                (disk / str(number)).touch()
        finding = next(
            one for one in visit(tmp_path, store=f"sqlite:///{disk / 'shoal.db'}").all if one.check == "disk"
        )
        assert (finding.grade, "inodes" in finding.message) == ("bad", True)


def test_doctor_upload_folder_in_memory_is_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_disk(tmp_path / "small", "4g") as disk:
        monkeypatch.setattr("tempfile.tempdir", str(disk))
        assert visit(tmp_path).only("tmp").grade == "warn"


def test_doctor_small_machine_memory_is_warning() -> None:
    assert preflight.memory(Settings()).grade == "ok"
    assert preflight.memory(Settings(object_cache=1_000_000_000)).grade == "warn"
    shared = Settings(timelines="redis://127.0.0.1", timeline_members=1_000_000_000)
    assert preflight.memory(shared).grade == "ok"


def test_doctor_missing_or_broken_ffmpeg_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert asyncio.run(preflight.programs()).grade == "warn"
    for name in ("ffmpeg", "ffprobe"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 3\n")
        (tmp_path / name).chmod(0o755)
    assert "status 3" in asyncio.run(preflight.programs()).message
    monkeypatch.setattr(preflight, "SECONDS", 0.1)
    (tmp_path / "ffmpeg").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    found = asyncio.run(preflight.programs())
    assert (found.grade, "no response" in found.message) == ("warn", True)


def test_doctor_reports_whether_names_of_places_are_installed(request: pytest.FixtureRequest) -> None:
    missing = preflight.place_names()
    assert (missing.grade, missing.advice) == (
        "warn",
        "to show the names of towns, install the extra 'places' of Shoal",
    )
    towns = request.getfixturevalue("towns")
    assert preflight.place_names() == preflight.ok("places", f"{len(towns)} towns")


@pytest.mark.parametrize("key", ["", "no key"])
def test_doctor_invalid_push_key_is_graded_bad(tmp_path: Path, key: str) -> None:
    finding = visit(tmp_path, push_key=key).only("push_key")
    assert finding.grade == ("bad" if key else "ok")


def test_doctor_push_key_file_with_wide_permissions_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "shoal.db.push-key"
    path.write_text(new_key())
    path.chmod(0o644)
    assert "chmod 600" in visit(tmp_path).only("push_key").advice
    path.write_text("scratched")
    assert "contains no key" in visit(tmp_path).only("push_key").message


def test_doctor_store_of_other_schema_version_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "shoal.db"
    asyncio.run(made(f"sqlite:///{path}"))
    assert visit(tmp_path).only("store").grade == "ok"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 1")
    assert "version" in visit(tmp_path).only("store").message


def test_doctor_old_or_missing_backup_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(made(f"sqlite:///{tmp_path / 'shoal.db'}"))
    assert visit(tmp_path).only("backup").grade == "warn"
    command = ["--config", str(tmp_path / "shoal.toml"), "backup", "--to", str(tmp_path / "backups")]
    subprocess.run([sys.executable, "-m", "shoal.cli", *command], check=True, capture_output=True, timeout=300)
    assert visit(tmp_path).only("backup").grade == "ok"
    now = time.time()
    monkeypatch.setattr("shoal.monitoring.preflight.time.time", lambda: now + 40 * 3_600)
    assert visit(tmp_path).only("backup").grade == "bad"


def test_doctor_parked_jobs_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "shoal.db"
    asyncio.run(made(f"sqlite:///{path}"))
    asyncio.run(_park(path))
    finding = visit(tmp_path).only("jobs")
    assert (finding.grade, "it broke" in finding.message) == ("warn", True)


def test_doctor_paused_webhooks_are_reported_without_their_urls(tmp_path: Path) -> None:
    ids = asyncio.run(_webhooks(f"sqlite:///{tmp_path / 'shoal.db'}"))
    gone, paused, good = ids
    finding = visit(tmp_path).only("webhooks")
    assert finding.grade == "warn"
    assert finding.message == f"webhook {gone} to shop.example is paused: the server says that this URL is gone"
    assert finding.advice.endswith(f"`shoal webhooks resume {gone}`")
    asyncio.run(_webhooks(f"sqlite:///{tmp_path / 'shoal.db'}", gone))
    finding = visit(tmp_path).only("webhooks")
    assert (finding.grade, finding.message) == ("ok", "2 in total, 1 of them paused on purpose")
    assert paused != good


async def _webhooks(url: str, deleted: int = 0) -> list[int]:
    """Create a webhook whose URL is gone, one that an operator paused, and an active one; or delete a webhook."""
    async with Shoal.open(url, event_log="on") as shoal:
        if deleted:
            await shoal.webhooks.delete(deleted)
            return []
        ids = [(await shoal.webhooks.create(f"https://shop.example/{n}")).id for n in range(3)]
        await shoal.webhooks.pause(ids[1])
        graph = shoal.network.effects.graph
        await change_object(
            graph, lambda: get_object(graph, Webhook, ids[0]), lambda before: replace(before, paused=Pause.GONE)
        )
        return ids


async def _park(path: Path) -> None:
    async with open_network(Settings(store=f"sqlite:///{path}"), background=False) as network:
        batch = Batch(0)
        batch.emit(PostCreated(1, 1))
        await network.store.commit(batch)
        (job,) = await network.store.claim(1, 60.0)
        await network.store.park(job, "it broke")


@pytest.fixture(scope="module")
def with_passwords() -> str:
    """Return the URL of a PostgreSQL that requires the password `secret`."""
    program = postgres.start_own()

    async def set_up() -> None:
        connection = await asyncpg.connect(program.url)
        await connection.execute("ALTER ROLE shoal PASSWORD 'secret'")
        (path,) = await connection.fetchrow("SHOW hba_file")
        await asyncio.to_thread(Path(path).write_text, "host all all 127.0.0.1/32 scram-sha-256\n")
        await connection.execute("SELECT pg_reload_conf()")
        await connection.close()

    asyncio.run(set_up())
    return program.url


def test_doctor_wrong_postgres_password_is_reported_without_password(tmp_path: Path, with_passwords: str) -> None:
    right, wrong = (with_passwords.replace("shoal@", f"shoal:{word}@") for word in ("secret", "s3cret"))
    assert visit(tmp_path, store=right, timelines="memory://").only("engine").grade == "ok"
    found = visit(tmp_path, store=wrong)
    finding = found.only("engine")
    assert finding.grade == "bad"
    assert "password" in finding.message
    assert "user and password in store" in finding.advice
    assert "s3cret" not in str(found.all)


def test_doctor_wrong_redis_password_is_reported(tmp_path: Path) -> None:
    program = redis.own()
    try:
        with Redis.from_url(program.url) as client:
            client.config_set("requirepass", "secret")
        right = program.url.replace("redis://", "redis://:secret@")
        assert visit(tmp_path, timelines=right).only("engine").grade == "ok"
        for wrong in (program.url, right.replace("secret", "s3cret")):
            finding = visit(tmp_path, timelines=wrong).only("engine")
            assert (finding.grade, "user and password in timelines" in finding.advice) == ("bad", True), finding
    finally:
        program.kill()


def test_doctor_wrong_rabbitmq_password_is_reported(tmp_path: Path) -> None:
    url = rabbitmq.node().url
    assert visit(tmp_path, broker=url).only("engine").grade == "ok"
    scheme, _, rest = url.partition("://")
    host = rest.rpartition("@")[2]
    finding = visit(tmp_path, broker=f"{scheme}://guest:s3cret@{host}").only("engine")
    assert (finding.grade, "user and password in broker" in finding.advice) == ("bad", True), finding


def test_doctor_check_of_broker_declares_no_queues(tmp_path: Path) -> None:
    url = rabbitmq.virtual_host()
    asyncio.run(made(f"sqlite:///{tmp_path / 'shoal.db'}"))
    assert "no queues yet" in visit(tmp_path, broker=url).only("jobs").message

    async def declared() -> bool:
        connection = await aiormq.connect(url)
        try:
            await (await connection.channel()).queue_declare("shoal.work", passive=True)
        except aiormq.exceptions.ChannelNotFoundEntity:
            return False
        finally:
            await connection.close()
        return True

    assert not asyncio.run(declared())


def test_doctor_checks_both_tables_of_a_network_on_dynamodb(tmp_path: Path) -> None:
    store, timelines = dynamodb.new_table(), new_url()
    asyncio.run(made(store, timelines=timelines))
    found = visit(tmp_path, store=store, timelines=timelines, media="memory://")
    assert found.grades("engine") == ["ok", "ok"]
    missing = visit(tmp_path, store=store, timelines=new_url(), media="memory://")
    assert missing.grades("engine") == ["ok", "bad"]
    finding = visit(tmp_path, timelines=timelines).only("settings")
    assert (finding.grade, "requires a store on DynamoDB" in finding.message) == ("bad", True)


@pytest.mark.usefixtures("usual_patience")
def test_doctor_unreachable_or_silent_engines_are_reported_within_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(primary, "_CONNECT_SECONDS", 2.5)
    gone = f"redis://127.0.0.1:{free_port()}"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        begun = time.monotonic()
        found = visit(
            tmp_path,
            store=f"postgresql://shoal@{address}/shoal",
            timelines=gone,
            broker=f"amqp://{address}/",
            mail=f"smtp://{address}",
            base_url=f"http://{address}",
        )
        assert time.monotonic() - begun < 60
    assert found.grades("engine") == ["bad"] * 3
    assert {"engine", "store", "mail", "proxy"} <= found.bad()


@pytest.mark.parametrize(
    ("engine", "version", "grade"),
    [
        ("PostgreSQL", "12.22", "bad"),
        ("PostgreSQL", "13.4", "warn"),
        ("PostgreSQL", "17.0", "ok"),
        ("Redis", "5.0.14", "bad"),
        ("Redis", "7.0.15", "ok"),
        ("Valkey", "8.0.1", "ok"),
        ("RabbitMQ", "3.8.9", "bad"),
        ("RabbitMQ", "3.10.8", "ok"),
        ("RabbitMQ", "4.0.2", "ok"),
        ("DynamoDB", "", "ok"),
    ],
)
def test_doctor_outdated_engine_version_is_reported(engine: str, version: str, grade: str) -> None:
    assert preflight.diagnose(EngineHealth(engine, "here", version)).grade == grade


def test_doctor_mail_check_authenticates_and_sends_no_mail(tmp_path: Path) -> None:
    login = ("post", "secret")
    made = self_signed(tmp_path)
    with post_office(certificate=(made.certificate, made.key), login=login) as office:
        url = f"{office.url}?ca={made.certificate}"
        finding = visit(tmp_path, mail=url).only("mail")
        assert finding.grade == "ok", finding
        assert "with TLS and accepts the password" in finding.message
        assert "secret" not in finding.message
        assert "user or password" in visit(tmp_path, mail=url.replace("secret", "wrong")).only("mail").message
        assert "CERTIFICATE_VERIFY_FAILED" in visit(tmp_path, mail=office.url).only("mail").message
        assert (office.mails, office.tried) == ([], 0)
    assert visit(tmp_path, mail=office.url).only("mail").grade == "bad"


def test_doctor_mail_setting_with_file_url_is_warning_and_creates_no_folder(tmp_path: Path) -> None:
    assert visit(tmp_path, mail=f"file://{tmp_path / 'mail'}").only("mail").grade == "warn"
    assert not (tmp_path / "mail").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is root's to become")
def test_doctor_unreadable_store_is_reported_with_all_other_findings() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        (folder / "own").mkdir(mode=0o700)
        path = folder / "shoal.toml"
        path.write_text(f'store = "sqlite:///{folder}/own/shoal.db"\n')
        folder.chmod(0o755)
        child = os.fork()
        if not child:
            right = False
            try:
                os.setresuid(65534, 65534, 65534)
                found = visit_file(path)
                advice = {one.check: one.advice for one in found.all if one.grade == "bad"}
                told = all("run this as the user of the server" in advice[check] for check in ("store", "push_key"))
                right = told and {"memory", "clock", "sqlite"} <= {one.check for one in found.all}
            finally:
                os._exit(0 if right else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is root's to become")
def test_doctor_run_as_other_user_advises_to_use_server_user(tmp_path: Path) -> None:
    path = tmp_path / "shoal.toml"
    visit(tmp_path)
    child = os.fork()
    if not child:
        told = False
        try:
            os.setresuid(65534, 65534, 65534)
            advice = {one.check: one.advice for one in visit_file(path).all if one.grade == "bad"}
            told = all("run this as the user of the server" in advice[check] for check in ("settings", "disk"))
        finally:
            os._exit(0 if told else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
