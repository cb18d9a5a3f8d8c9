"""Metrics of a process for Prometheus, read from what its parts count, on an address of their own."""

from __future__ import annotations

from shoal.metrics.opening import telling

__all__ = ["telling"]
