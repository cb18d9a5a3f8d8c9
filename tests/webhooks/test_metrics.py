"""The metrics of webhooks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.monitoring.collectors import webhook_metrics
from shoal.webhooks import endpoints
from tests.push.service import PushService
from tests.webhooks.scene import Scene, opened, running_service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushService]:
    with running_service(tmp_path_factory.mktemp("receiver")) as running:
        yield running


@pytest.fixture
def scene(service: PushService) -> Iterator[Scene]:
    with opened(service) as made:
        yield made


def samples(scene: Scene) -> dict[tuple[str, ...], float]:
    """Return the values of all samples by name and labels."""
    found = scene.here.run(webhook_metrics(scene.here.network))
    return {(one.name, *one.labels.values()): one.value for metric in found for one in metric.samples}


def test_webhook_metrics_count_deliveries_lag_pauses_and_parked_events(scene: Scene) -> None:
    failing, good, paused = scene.add("/failing"), scene.add("/good"), scene.add("/paused")
    scene.here.run(endpoints.pause(scene.here.writes, scene.hook(paused)))
    scene.statuses["/failing"] = 500
    scene.post("first")
    scene.post("second")
    worker = scene.here.network.webhooks
    assert worker is not None
    scene.here.run(worker.settle())
    found = samples(scene)
    assert found[("shoal_webhooks",)] == 3
    assert found[("shoal_webhooks_paused", "manual")] == 1
    assert found[("shoal_webhooks_paused", "gone")] == 0
    assert found[("shoal_webhook_lag_events", str(failing))] == 2
    assert found[("shoal_webhook_lag_seconds", str(failing))] > 0
    assert found[("shoal_webhook_lag_events", str(good))] == found[("shoal_webhook_lag_seconds", str(good))] == 0
    assert ("shoal_webhook_lag_events", str(paused)) not in found
    assert found[("shoal_webhook_deliveries_total", "accepted")] == 2
    assert found[("shoal_webhook_deliveries_total", "refused")] == 1
    assert found[("shoal_webhook_deliveries_total", "failed")] == 0
    assert found[("shoal_webhook_parked_events",)] == 0
    scene.fail(failing)
    assert samples(scene)[("shoal_webhook_parked_events",)] == 1
