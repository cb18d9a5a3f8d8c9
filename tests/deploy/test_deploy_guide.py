"""Run the commands of `docs/howto/deploy.md` in order in a minimal Debian, up to the nightly backup.

The exceptions are `apt-get` and `systemctl`. Instead of `systemctl`, the commands of the units are run.
"""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from shoal_devcluster.program import free_port
from tests.deploy.bare_debian import OFFLINE, layer
from tests.deploy.bare_debian import PATH as INSIDE
from tests.deploy.programs import DEPLOY, program, running
from tests.deploy.sandbox import lines
from tests.engines.smtp import post_office
from tests.server_process import first_url

ROOT = DEPLOY.parent
PAGE = ROOT / "docs" / "howto" / "deploy.md"
MAIL = "smtps://post@example.org:password@mail.example.org"
MINUTES = 30


def commands() -> list[str]:
    """Return the commands of the numbered sections."""
    numbered = PAGE.read_text().partition("## 1. ")[2].partition("\n## Containers")[0]
    return re.findall(r"^ {4}(\S.*)$", numbered, re.MULTILINE)


class Machine:
    """The minimal Debian, and the services started on it."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.root = root
        self.services: dict[str, subprocess.Popen[str]] = {}
        self.typed: list[str] = []
        self._stack = stack

    def type(self, command: str) -> subprocess.CompletedProcess[str]:
        """Type a command as root."""
        self.typed.append(command)
        environment = {"PATH": INSIDE, "HOME": "/root", **OFFLINE}
        inside = self._inside(command)
        return subprocess.run(inside, env=environment, capture_output=True, text=True, timeout=300, check=False)

    def type_with_password(self, command: str, password: str) -> None:
        """Type a command at a terminal, and the password at each prompt."""
        self.typed.append(command)
        ours, theirs = pty.openpty()
        environment = {"PATH": INSIDE, "HOME": "/root"}
        asked: dict[str, Any] = {"stdin": theirs, "stdout": theirs, "stderr": theirs, "start_new_session": True}
        with subprocess.Popen(self._inside(command), env=environment, **asked) as process:
            os.close(theirs)
            said = b""
            with suppress(OSError):
                while piece := os.read(ours, 1_000):
                    said += piece
                    if said.rstrip().endswith(b":"):
                        os.write(ours, f"{password}\n".encode())
            os.close(ours)
            assert process.wait(60) == 0, said

    def _inside(self, command: str) -> list[str]:
        return ["/usr/sbin/chroot", str(self.root), "/bin/sh", "-c", f"cd /root && {command}"]

    def systemctl(self, verb: str, names: list[str]) -> None:
        """Emulate `systemctl`: run the command of the unit as its user."""
        units = [name for name in names if not name.startswith("-")]
        assert verb in {"daemon-reload", "enable", "start", "reload", "restart"}
        for name in units:
            unit = self.root / "etc/systemd/system" / name
            if name == "shoal.service":
                self._serve(unit)
            elif name == "shoal-backup.service":
                for command in lines(unit, "ExecStart"):
                    done = self.type(f"runuser -u {lines(unit, 'User')[0]} -- {command}")
                    assert done.returncode == 0, done.stderr
            elif name == "shoal-backup.timer":
                assert unit.with_suffix(".service").exists()
            else:
                _check_configuration(name, self.root)

    def _serve(self, unit: Path) -> None:
        user, (command,), folder = lines(unit, "User")[0], lines(unit, "ExecStart"), lines(unit, "WorkingDirectory")[0]
        inside = f"cd {folder} && umask {lines(unit, 'UMask')[0]} && exec setpriv --reuid={user} --regid={user} --init-groups"
        rights = "--bounding-set=-all --inh-caps=-all --no-new-privs"
        whole = ["/usr/sbin/chroot", str(self.root), "/bin/sh", "-c", f"{inside} {rights} {command}"]
        process = subprocess.Popen(whole, stdout=subprocess.PIPE, text=True, env={"PATH": INSIDE})
        self._stack.callback(_end, process)
        first_url(process)
        self.services["shoal"] = process


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.wait(60)
    assert process.stdout is not None
    process.stdout.close()


def _check_configuration(service: str, root: Path) -> None:
    checks: dict[str, list[str | Path]] = {
        "caddy.service": ["caddy", "adapt", "--config", root / "etc/caddy/Caddyfile"],
        "prometheus.service": ["promtool", "check", "config", root / "etc/prometheus/prometheus.yml"],
        "prometheus-alertmanager.service": ["amtool", "check-config", root / "etc/prometheus/alertmanager.yml"],
    }
    name, *arguments = checks[service]
    done = subprocess.run([program(str(name)), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with ExitStack() as stack:
        root = stack.enter_context(layer(tmp_path_factory.mktemp("machine") / "layer"))
        # The packages of the first command create configuration folders and a group.
        for folder in ("etc/caddy", "etc/prometheus", "etc/systemd/system", "usr/local/src/shoal"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        with (root / "etc/group").open("a") as groups:
            groups.write("prometheus:x:990:\n")
        # The Debian installer writes this file; debootstrap does not.
        (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, listed.split("\0")):
            if name.startswith(("src/", "deploy/", "scripts/")) or "/" not in name:
                target = root / "usr/local/src/shoal" / name
                target.parent.mkdir(parents=True, exist_ok=True)
                if (ROOT / name).exists():
                    shutil.copy2(ROOT / name, target)
        yield Machine(root, stack)


def test_deploy_guide_commands_set_up_complete_server_on_bare_debian(machine: Machine) -> None:
    begun = time.monotonic()
    port, metrics = free_port(), free_port()
    with post_office() as office:
        changes = ((MAIL, office.url), ("metrics_port=9500", f"metrics_port={metrics} --set port={port}"))
        not_typed = []
        for line in commands():
            words = shlex.split(line)
            command = line
            for before, after in changes:
                command = command.replace(before, after)
            if words[0] == "apt-get":
                not_typed.append(line)
            elif words[0] == "systemctl":
                machine.systemctl(words[1], words[2:])
            elif line == "shoal doctor":
                _look(machine, port)
            elif line.startswith("shoal member add"):
                machine.type_with_password(command, "a long password")
            else:
                done = machine.type(command)
                assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        assert [line.split()[1] for line in not_typed] == ["update", "install"]
        office.wait(1)
        assert office.to("ann@example.org").subject
    assert httpx.get(f"http://127.0.0.1:{metrics}/metrics", timeout=60).text.count("shoal_") > 100
    account = httpx.get(f"http://127.0.0.1:{port}/api/v1/accounts/lookup?acct=ann", timeout=60).json()
    assert account["url"] == "https://social.example.org/@ann"
    assert "\nsocial.example.org {\n" in (machine.root / "etc/caddy/Caddyfile").read_text()
    assert len(machine.typed) > 15
    assert time.monotonic() - begun < MINUTES * 60


def _look(machine: Machine, port: int) -> None:
    """Assert that all checks pass, except checks of DNS, the proxy and the test machine."""
    done = machine.type("shoal doctor --json")
    found = json.loads(done.stdout)
    assert {one["check"] for one in found if one["grade"] == "bad"} <= {"name", "proxy", "disk", "files"}, done.stdout
    for check in ("settings", "settings_file", "server", "store", "backup", "mail", "metrics", "push_key"):
        assert {one["grade"] for one in found if one["check"] == check} == {"ok"}, (check, found)


def test_deploy_guide_server_files_are_readable_only_by_service_user(machine: Machine) -> None:
    for path in ("srv/shoal/shoal.db", "srv/shoal/shoal.toml"):
        told = (machine.root / path).stat()
        assert oct(told.st_mode & 0o777) == "0o600", path
        assert told.st_uid not in {0, os.geteuid()}
    assert (machine.root / "srv/shoal/venv/bin/shoal").stat().st_uid == 0
    assert list((machine.root / "srv/backup/shoal").glob("*/manifest.json"))


def test_deploy_guide_packages_match_installed_test_packages() -> None:
    (install,) = [line for line in commands() if line.startswith("apt-get install")]
    packages = set(install.split()[3:])
    installed = (ROOT / "scripts" / "engines").read_text()
    assert packages - {"python3-venv", "systemd-timesyncd"} == {
        "ffmpeg",
        "caddy",
        "prometheus",
        "prometheus-alertmanager",
    }
    assert all(
        re.search(rf" {name}$", installed, re.MULTILINE) for name in packages - {"python3-venv", "systemd-timesyncd"}
    )


def test_deploy_guide_file_references_exist() -> None:
    named = re.findall(r"/usr/local/src/shoal/(\S+)|`(deploy/[\w./-]+)`", PAGE.read_text())
    assert len(named) > 10
    for one, other in named:
        assert (ROOT / (one or other)).exists(), one or other


def test_alertmanager_sends_alert_by_mail(tmp_path: Path) -> None:
    with post_office() as office:
        host = office.url.partition("//")[2]
        port = free_port()
        text = (DEPLOY / "prometheus" / "alertmanager.yml").read_text()
        for before, after in (
            ("mail.example.org:587", host),
            ("        auth_username: post@example.org\n", ""),
            ("        auth_password: password\n", "        require_tls: false\n"),
            ("group_wait: 30s", "group_wait: 1s"),
        ):
            assert before in text
            text = text.replace(before, after)
        (tmp_path / "alertmanager.yml").write_text(text)
        address = f"127.0.0.1:{port}"
        options = [f"--config.file={tmp_path / 'alertmanager.yml'}", f"--storage.path={tmp_path / 'data'}"]
        command = [program("prometheus-alertmanager"), *options, f"--web.listen-address={address}"]
        with running([*command, "--cluster.listen-address="], port, tmp_path):
            alert = [
                program("amtool"),
                f"--alertmanager.url=http://{address}",
                "alert",
                "add",
                "ShoalDown",
                "severity=critical",
            ]
            subprocess.run(alert, check=True, capture_output=True)
            office.wait(1)
        assert "ShoalDown" in office.to("ann@example.org").subject
