"""The container files: the image is built and started in a minimal Debian with a read-only root; the compose files are linted.

No container engine is started: tests have no access to the registries of the base images.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from shoal.settings import SECRET, Settings, load
from shoal_devcluster.program import free_port
from tests.deploy.bare_debian import sh
from tests.deploy.container_images import FILE, Image, image, instructions
from tests.deploy.programs import DEPLOY, program
from tests.server_process import children, first_url

COMPOSE = ("compose.yaml", "compose.cluster.yaml")
SERVICE_KEYS = {
    "build",
    "cap_drop",
    "command",
    "depends_on",
    "environment",
    "healthcheck",
    "hostname",
    "image",
    "networks",
    "ports",
    "read_only",
    "restart",
    "security_opt",
    "shm_size",
    "stop_grace_period",
    "ulimits",
    "volumes",
}
"""Service keys in use, as defined by the Compose Specification."""
OWN = {"web-1", "web-2", "worker-1", "worker-2", "shoal"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    with image(tmp_path_factory.mktemp("image")) as made:
        yield made


@contextlib.contextmanager
def started(made: Image, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the entry point as process 1, as the image's user, without capabilities, on a read-only root."""
    root = shlex.quote(str(made.root))
    mounts = ["mount --make-rprivate /", f"mount --bind {root} {root}", f"mount -o remount,bind,ro {root}"]
    for volume in made.volumes:
        mode = "uid=10001,gid=10001,mode=0700" if volume == "/data" else "mode=1777"
        mounts.append(f"mount -t tmpfs -o {mode} tmpfs {root}{volume}")
    mounts.append(f"mount -t proc proc {root}/proc")
    user, _, group = made.user.partition(":")
    rights = f"--reuid={user} --regid={group} --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs"
    command = shlex.join([*made.entrypoint, *made.command])
    inside = f"exec /usr/sbin/chroot {root} /usr/bin/setpriv {rights} /bin/sh -c 'cd {made.workdir} && exec {command}'"
    whole = [
        "/usr/bin/unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "/bin/sh",
        "-c",
        " && ".join([*mounts, inside]),
    ]
    process = subprocess.Popen(
        whole,
        stdout=subprocess.PIPE,
        text=True,
        env={**made.environment, "PATH": f"{made.environment['PATH']}:/usr/sbin:/sbin", **environment},
    )
    try:
        yield process, first_url(process)
    finally:
        process.kill()
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()


def test_container_image_serves_on_read_only_root_as_unprivileged_user(built: Image) -> None:
    port = free_port()
    health = shlex.join(built.health)
    with started(built, SHOAL_PORT=str(port)) as (process, _):
        url = f"http://127.0.0.1:{port}"
        assert httpx.get(f"{url}/ready", timeout=60).status_code == 200
        checked = sh(built.root, health, {**built.environment, "SHOAL_PORT": str(port)}, user=built.user)
        assert checked.returncode == 0, checked.stderr
        (inner,) = children(process.pid)
        status = Path(f"/proc/{inner}/status").read_text()
        assert re.search(r"^Uid:\t10001\t10001\t10001\t10001$", status, re.MULTILINE)
        assert re.search(r"^CapBnd:\t0+$", status, re.MULTILINE)
        entered = ["/usr/bin/nsenter", f"--target={inner}", "--mount", "--pid", f"--root=/proc/{inner}/root"]
        entered += [f"--wdns={built.workdir}", "--setuid=10001", "--setgid=10001", "shoal"]
        made = subprocess.run(
            [*entered, "member", "add", "ann", "--password-stdin"],
            env=built.environment,
            input="a long password",
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr
        assert httpx.get(f"{url}/api/v1/accounts/lookup?acct=ann", timeout=60).status_code == 200
        refused = subprocess.run([*entered[:-1], "touch", "/opt/shoal/x"], capture_output=True, text=True, check=False)
        assert "Read-only file system" in refused.stderr
        os.kill(inner, signal.SIGTERM)
        assert process.wait(60) == 0
        assert sh(built.root, health, {**built.environment, "SHOAL_PORT": str(port)}).returncode != 0


def test_container_image_has_engine_clients_and_no_build_tools(built: Image) -> None:
    done = sh(built.root, "python -c 'import asyncpg, redis, aiormq, shoal'", built.environment)
    assert done.returncode == 0, done.stderr
    assert sh(built.root, "test -e /build || test -e /src || test -e /wheels").returncode == 1
    # Bytecode is compiled in advance, since it cannot be written at run time.
    assert sh(built.root, "ls /opt/shoal/lib/python3*/site-packages/shoal/__pycache__/settings.*.pyc").returncode == 0


def test_containerfile_env_names_existing_settings_and_runs_as_unprivileged_user() -> None:
    given = instructions()
    environment = dict(each.rest.split("=", 1) for each in given if each.name == "ENV")
    load({name: text for name, text in environment.items() if name.startswith("SHOAL_")} | {"SHOAL_CONFIG": ""})
    assert {name for name in environment if name.startswith("SHOAL_")} <= VARIABLES
    users = [each.rest for each in given if each.name == "USER"]
    assert users == ["10001:10001"]
    exposed = [each.rest for each in given if each.name == "EXPOSE"]
    assert exposed == [str(Settings().port)]
    assert "curl" not in FILE.read_text()
    known = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL"}
    assert {each.name for each in given} == known | {"HEALTHCHECK", "ENTRYPOINT", "CMD"}


VARIABLES = {f"SHOAL_{name.upper()}" for name in Settings.__struct_fields__} | {
    f"SHOAL_{name.upper()}_FILE" for name in SECRET
}


def compose(name: str) -> dict[str, Any]:
    """Return a compose file with the variables set that its header comment names."""
    text = (DEPLOY / "container" / name).read_text()
    given = {"DOMAIN": "social.example.org", "POSTGRES_PASSWORD": "one", "RABBITMQ_PASSWORD": "two", "PUSH_KEY": ""}

    def value(match: re.Match[str]) -> str:
        variable, _, rest = match[1].partition(":")
        assert variable in given or rest.startswith("-"), f"{variable} has no default"
        return given.get(variable, rest.removeprefix("-"))

    def filled(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: filled(entry) for key, entry in part.items()}
        if isinstance(part, list):
            return [filled(entry) for entry in part]
        return re.sub(r"\$\{([^}]+)\}", value, part) if isinstance(part, str) else part

    found: dict[str, Any] = filled(yaml.safe_load(text))
    return found


@pytest.mark.parametrize("name", COMPOSE)
def test_docker_compose_file_uses_known_keys_and_existing_references(name: str) -> None:
    whole = compose(name)
    assert {key for key in whole if not key.startswith("x-")} == {"name", "services", "networks", "volumes"}
    for service, said in whole["services"].items():
        assert said.keys() <= SERVICE_KEYS, service
        assert set(said.get("depends_on", ())) <= whole["services"].keys()
        for needed in said.get("depends_on", {}):
            other = whole["services"][needed]
            assert "test" in other["healthcheck"], f"{needed} has no health check"
        if healthcheck := said.get("healthcheck", {}).get("test"):
            assert healthcheck[0] == "CMD"
        networks = said.get("networks", ())
        assert set(networks) <= whole["networks"].keys()
        for volume in said.get("volumes", ()):
            source, _, target = volume.partition(":")
            if target and not source.startswith("."):
                assert source in whole["volumes"]
            elif target:
                assert (DEPLOY / "container" / source).exists(), source
        if build := said.get("build"):
            assert (DEPLOY / "container" / build["context"] / build["dockerfile"]).resolve() == FILE
            assert build["args"].keys() <= {each.rest.split("=")[0] for each in instructions() if each.name == "ARG"}


@pytest.mark.parametrize("name", COMPOSE)
def test_docker_compose_file_settings_load_and_trust_only_the_proxy(name: str) -> None:
    whole = compose(name)
    own = [said for service, said in whole["services"].items() if service in OWN]
    assert len(own) == (1 if name == "compose.yaml" else 4)
    (caddy,) = {
        said["networks"]["front"]["ipv4_address"] for said in whole["services"].values() if "caddy" in said["image"]
    }
    for said in own:
        environment = said["environment"]
        assert environment.keys() <= VARIABLES
        assert all(isinstance(text, str) for text in environment.values()), "YAML parses a value as another type"
        settings = load({**environment, "SHOAL_CONFIG": ""})
        assert settings.base_url == "https://social.example.org"
        assert settings.trusted_proxies == (caddy,)
        front = said["networks"].get("front") if isinstance(said["networks"], dict) else None
        assert front or "ip_range" in whole["networks"]["front"]["ipam"]["config"][0], (
            "the service could be assigned Caddy's address"
        )
        assert (said["read_only"], said["cap_drop"]) == (True, ["ALL"])


def test_docker_compose_cluster_defines_all_services_and_consistent_urls() -> None:
    services = compose("compose.cluster.yaml")["services"]
    assert services.keys() == (OWN - {"shoal"}) | {"postgres", "redis", "rabbitmq", "caddy"}
    settings = load({**services["web-1"]["environment"], "SHOAL_CONFIG": ""})
    assert not settings.run_consequences
    for worker in ("worker-1", "worker-2"):
        assert services[worker]["command"] == ["worker"]
        assert services[worker]["healthcheck"] == {"disable": True}
        assert "out" in services[worker]["networks"], "workers need outbound access for mail and web push"
    # The hosts of the URLs are services, and Caddy's upstreams are the web processes.
    urls = (settings.store, settings.timelines, settings.broker)
    assert [re.search(r"//(?:[^@]*@)?(\w+)", str(url))[1] for url in urls] == ["postgres", "redis", "rabbitmq"]  # type: ignore[index]
    assert services["caddy"]["environment"]["UPSTREAM"] == "web-1:8500 web-2:8500"


def test_caddyfile_adapts_with_variables_of_compose_file(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "DOMAIN": "social.example.org",
        "UPSTREAM": "web-1:8500 web-2:8500",
        "HOME": str(tmp_path),
    }
    command = [program("caddy"), "adapt", "--config", str(DEPLOY / "Caddyfile")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert all(f'"dial":"{name}:8500"' in done.stdout for name in ("web-1", "web-2"))
    assert json.loads(done.stdout)
    assert '"social.example.org"' in done.stdout
