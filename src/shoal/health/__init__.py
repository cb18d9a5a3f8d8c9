"""Checks whether the storage engines answer, and how busy they are: readiness for proxies, measurements for operators.

`observability` instruments requests and jobs in every layer. `monitoring` has the metrics endpoint and `shoal doctor`.
"""
