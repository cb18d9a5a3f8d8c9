"""Tests that run side by side: which files begin."""

from __future__ import annotations

LONGEST = (
    "tests/faults/test_cluster_faults.py",
    "tests/contracts/test_graph.py",
    "tests/benchmarks/test_smallest.py",
    "tests/api/reference/test_schemathesis.py",
    "tests/flows/simulation/test_simulation.py",
    "tests/contracts/test_graph_model.py",
    "tests/media/test_clips.py",
    "tests/ops/test_shard_moves.py",
    "tests/contracts/test_tag_stores.py",
    "tests/media/test_decoder.py",
    "tests/faults/test_attacks.py",
    "tests/contracts/test_tag_transports.py",
    "tests/api/test_media.py",
    "tests/clients/test_toot.py",
    "tests/contracts/test_outbox.py",
    "tests/ops/test_check.py",
)
"""The files that take longest, longest first, as measured with three workers on two processors: the last worker is not left alone
with one of them."""
