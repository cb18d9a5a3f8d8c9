"""Tests that run side by side: which files begin."""

from __future__ import annotations

LONGEST = (
    "tests/faults/test_cluster_faults.py",
    "tests/ops/test_import_real.py",
    "tests/flows/simulation/test_simulation.py",
    "tests/benchmarks/test_smallest.py",
    "tests/contracts/test_graph_model.py",
    "tests/api/reference/test_schemathesis.py",
    "tests/contracts/test_graph.py",
    "tests/ops/test_shard_moves.py",
    "tests/faults/test_tag_cloud.py",
    "tests/faults/test_attacks.py",
    "tests/faults/test_kill.py",
    "tests/ops/test_cluster.py",
    "tests/broker/test_rabbitmq.py",
    "tests/graph/test_dynamodb.py",
)
"""The files that take longest, longest first: side by side, the last worker is not left alone with one of them."""
