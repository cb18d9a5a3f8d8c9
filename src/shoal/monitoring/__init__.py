"""Interfaces for operators: the metrics endpoint for Prometheus, and the checks of `shoal doctor`.

It collects what `observability` records and what the probes of `health` find.
"""
