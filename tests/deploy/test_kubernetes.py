"""The manifests: valid by the schemas of Kubernetes, and what they name exists. No cluster is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from shoal.cli.group import COMMANDS
from shoal.settings import load
from tests.deploy.images import instructions
from tests.deploy.programs import DEPLOY
from tests.deploy.test_container import VARIABLES
from tests.test_package import PROJECT

FILES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
VERSIONS = ("1.28", "1.37")
"""The oldest and the newest that the manifests are for."""


def manifests() -> Iterator[dict[str, Any]]:
    """All of them, in the order of the files."""
    for path in FILES:
        yield from yaml.safe_load_all(path.read_text())


ALL = list(manifests())


def of_kind(kind: str) -> list[dict[str, Any]]:
    """Return the manifests of a kind."""
    return [one for one in ALL if one["kind"] == kind]


def pods() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """The name, the labels and the specification of the pods of each."""
    for one in of_kind("Deployment"):
        yield one["metadata"]["name"], one["spec"]["template"]["metadata"]["labels"], one["spec"]["template"]["spec"]
    for one in of_kind("CronJob"):
        yield one["metadata"]["name"], {}, one["spec"]["jobTemplate"]["spec"]["template"]["spec"]


PODS = {name: (labels, spec) for name, labels, spec in pods()}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("one", ALL, ids=lambda one: f"{one['kind']} {one['metadata']['name']}")
def test_it_is_what_kubernetes_takes(one: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(one, version, strict=True)


def test_a_key_that_kubernetes_does_not_know_is_found() -> None:
    wrong = {**of_kind("Service")[0], "spce": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


def test_settings_and_secrets_load(tmp_path: Path) -> None:
    (settings,), (secret,) = of_kind("ConfigMap"), of_kind("Secret")
    assert settings["data"].keys() <= VARIABLES
    files = {name: path for name, path in settings["data"].items() if name.endswith("_FILE")}
    assert {path.rpartition("/")[2] for path in files.values()} == secret["stringData"].keys()
    for name, text in secret["stringData"].items():
        (tmp_path / name).write_text(text)
    of_image = dict(each.rest.split("=", 1) for each in instructions() if each.name == "ENV")
    given = {name: str(tmp_path / path.rpartition("/")[2]) for name, path in files.items()}
    loaded = load({**of_image, **settings["data"], **given, "SHOAL_CONFIG": ""})
    assert (loaded.run_consequences, loaded.store) == (False, secret["stringData"]["store"])


@pytest.mark.parametrize("name", PODS)
def test_pods_have_no_rights_and_what_they_mount(name: str) -> None:
    _, spec = PODS[name]
    (user,) = [each.rest for each in instructions() if each.name == "USER"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert f"{spec['securityContext']['runAsUser']}:{spec['securityContext']['runAsGroup']}" == user
    (container,) = spec["containers"]
    assert container["image"].endswith(f"/shoal:{PROJECT['version']}")
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted == {"secrets": "/run/secrets/shoal", "data": "/data", "uploads": "/tmp"}  # noqa: S108  # in the pod
    assert mounted.keys() == {volume["name"] for volume in spec["volumes"]}
    assert container["resources"]["limits"].keys() == {"memory"}, "a limit on processors makes latencies jump"
    assert container["args"][0] in COMMANDS


def test_web_processes_are_replaced_one_after_the_other_and_take_requests_until_nobody_sends_any() -> None:
    web = next(one for one in of_kind("Deployment") if one["metadata"]["name"] == "shoal-web")
    assert web["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    (container,) = web["spec"]["template"]["spec"]["containers"]
    paths = {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness", "liveness")}
    # A database that is away must not have every process killed.
    assert paths == {"startup": "/health", "readiness": "/ready", "liveness": "/health"}
    (_, seconds) = container["lifecycle"]["preStop"]["exec"]["command"]
    assert web["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > int(seconds) + 20


@pytest.mark.parametrize("kind", ["Deployment", "PodDisruptionBudget", "Service"])
def test_selectors_find_pods(kind: str) -> None:
    for one in of_kind(kind):
        selector = one["spec"]["selector"]
        labels = selector.get("matchLabels", selector)
        assert sum(labels.items() <= found.items() for found, _ in PODS.values()) == 1, one["metadata"]["name"]


def test_ports_have_one_name_from_the_container_to_the_ingress() -> None:
    (service,), (ingress,) = of_kind("Service"), of_kind("Ingress")
    _, spec = PODS["shoal-web"]
    ports = {port["name"]: port["containerPort"] for port in spec["containers"][0]["ports"]}
    assert ports == {"http": 8500, "metrics": int(of_kind("ConfigMap")[0]["data"]["SHOAL_METRICS_PORT"])}
    assert service["spec"]["ports"][0]["targetPort"] == "http"
    backend = ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert backend == {"name": service["metadata"]["name"], "port": {"name": service["spec"]["ports"][0]["name"]}}
