"""Checks whether the engines answer, and their load: readiness for proxies, figures for operators and metrics.

`observability` instruments requests and jobs in every layer; `monitoring` has the metrics endpoint and `shoal doctor`.
"""
