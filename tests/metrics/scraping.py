"""Metrics as Prometheus collects them: requested over HTTP, and read by the parser of its client library."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from shoal_devcluster.program import free_port


class Scrape:
    """The samples of one scrape."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = list(text_string_to_metric_families(text))
        self.samples = [sample for family in self.families for sample in family.samples]

    def __call__(self, name: str, **labels: str) -> float:
        """Return the sum of the samples with this name and these labels, 0 if there are none."""
        return sum(one.value for one in self.samples if one.name == name and labels.items() <= one.labels.items())

    def has(self, name: str, **labels: str) -> bool:
        """Return whether there is a sample with this name and these labels."""
        return any(one.name == name and labels.items() <= one.labels.items() for one in self.samples)


def url_at(port: int) -> str:
    """Return the URL of a process's metrics."""
    return f"http://127.0.0.1:{port}/metrics"


def scrape(port: int) -> Scrape:
    """Request the metrics of a process."""
    answer = httpx.get(url_at(port), timeout=60)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Scrape(answer.text)


def scraped_until(port: int, holds: Callable[[Scrape], Any], seconds: float = 60.0) -> Scrape:
    """Scrape until `holds` accepts a scrape, and return it. Transport errors are retried."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(httpx.TransportError):
            if holds(found := scrape(port)):
                return found
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.05)


def two_ports() -> int:
    """Return a free port whose successor is free too."""
    while True:
        port = free_port()
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port + 1)):
            return port
