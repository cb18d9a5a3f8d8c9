"""The Kubernetes manifests: valid against the schemas, with references that exist. No cluster is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from shoal.cli.group import COMMANDS
from shoal.settings import load
from tests.deploy.container_images import instructions
from tests.deploy.programs import DEPLOY
from tests.deploy.test_container import VARIABLES
from tests.test_package import PROJECT

FILES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
VERSIONS = ("1.28", "1.37")
"""The oldest and the newest supported version."""


def manifests() -> Iterator[dict[str, Any]]:
    """Yield all manifests, in the order of the files."""
    for path in FILES:
        yield from yaml.safe_load_all(path.read_text())


ALL = list(manifests())


def of_kind(kind: str) -> list[dict[str, Any]]:
    """Return the manifests of a kind."""
    return [one for one in ALL if one["kind"] == kind]


def pods() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield the name, labels and specification of each pod template."""
    for one in of_kind("Deployment"):
        yield one["metadata"]["name"], one["spec"]["template"]["metadata"]["labels"], one["spec"]["template"]["spec"]
    for one in of_kind("CronJob"):
        yield one["metadata"]["name"], {}, one["spec"]["jobTemplate"]["spec"]["template"]["spec"]


PODS = {name: (labels, spec) for name, labels, spec in pods()}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("one", ALL, ids=lambda one: f"{one['kind']} {one['metadata']['name']}")
def test_kubernetes_manifest_validates_against_schema(one: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(one, version, strict=True)


def test_kubernetes_validation_reports_unknown_key() -> None:
    wrong = {**of_kind("Service")[0], "spce": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


def test_kubernetes_config_map_and_secret_load_as_settings(tmp_path: Path) -> None:
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
def test_kubernetes_pods_are_unprivileged_and_mount_declared_volumes(name: str) -> None:
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
    assert container["resources"]["limits"].keys() == {"memory"}, "a CPU limit causes latency spikes"
    assert container["args"][0] in COMMANDS


def test_kubernetes_web_rolling_update_drains_requests_and_probes_are_set() -> None:
    web = next(one for one in of_kind("Deployment") if one["metadata"]["name"] == "shoal-web")
    assert web["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    (container,) = web["spec"]["template"]["spec"]["containers"]
    paths = {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness", "liveness")}
    # The liveness probe must not restart every process while the database is unreachable.
    assert paths == {"startup": "/health", "readiness": "/ready", "liveness": "/health"}
    (_, seconds) = container["lifecycle"]["preStop"]["exec"]["command"]
    assert web["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > int(seconds) + 20


@pytest.mark.parametrize("kind", ["Deployment", "PodDisruptionBudget", "Service"])
def test_kubernetes_selectors_match_exactly_one_pod_template(kind: str) -> None:
    for one in of_kind(kind):
        selector = one["spec"]["selector"]
        labels = selector.get("matchLabels", selector)
        assert sum(labels.items() <= found.items() for found, _ in PODS.values()) == 1, one["metadata"]["name"]


def test_kubernetes_port_names_match_from_container_to_ingress() -> None:
    (service,), (ingress,) = of_kind("Service"), of_kind("Ingress")
    _, spec = PODS["shoal-web"]
    ports = {port["name"]: port["containerPort"] for port in spec["containers"][0]["ports"]}
    assert ports == {"http": 8500, "metrics": int(of_kind("ConfigMap")[0]["data"]["SHOAL_METRICS_PORT"])}
    assert service["spec"]["ports"][0]["targetPort"] == "http"
    backend = ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert backend == {"name": service["metadata"]["name"], "port": {"name": service["spec"]["ports"][0]["name"]}}
