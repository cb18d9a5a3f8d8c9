"""Instrumentation of requests and jobs that every layer may import: request log, traces, metric catalog.

The probes of engines are in `health`; the metrics endpoint and `shoal doctor` are in `monitoring`.
"""
