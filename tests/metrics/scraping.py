"""Metrics as Prometheus takes them: asked for over HTTP, read by the parser of its client library."""

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
        """The sum of the samples of this name that have these labels, 0 where there is none."""
        return sum(one.value for one in self.samples if one.name == name and labels.items() <= one.labels.items())

    def has(self, name: str, **labels: str) -> bool:
        """Whether there is such a sample."""
        return any(one.name == name and labels.items() <= one.labels.items() for one in self.samples)


def url_at(port: int) -> str:
    """Where the metrics of a process are."""
    return f"http://127.0.0.1:{port}/metrics"


def scrape(port: int) -> Scrape:
    """The metrics of a process."""
    answer = httpx.get(url_at(port), timeout=60)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Scrape(answer.text)


def scraped_until(port: int, holds: Callable[[Scrape], Any], seconds: float = 60.0) -> Scrape:
    """The first scrape for which this holds; one that cannot be had does not."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(httpx.TransportError):
            if holds(found := scrape(port)):
                return found
        assert time.monotonic() < deadline, "it never held"
        time.sleep(0.05)


def two_ports() -> int:
    """A free port whose next one is free as well."""
    while True:
        port = free_port()
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port + 1)):
            return port
