"""Tests that run side by side: which files begin."""

from __future__ import annotations

LONGEST = (
    "tests/faults/test_cluster_faults.py",
    "tests/benchmarks/test_smallest.py",
    "tests/flows/simulation/test_simulation.py",
    "tests/contracts/test_graph.py",
    "tests/ops/test_shard_moves.py",
    "tests/contracts/test_tag_stores.py",
    "tests/api/reference/test_schemathesis.py",
    "tests/contracts/test_graph_model.py",
    "tests/contracts/test_outbox.py",
    "tests/api/test_media.py",
    "tests/media/test_decoder.py",
    "tests/contracts/test_tag_transports.py",
    "tests/faults/test_attacks.py",
    "tests/clients/test_toot.py",
    "tests/clients/test_mastodon_py.py",
    "tests/ops/test_cluster.py",
    "tests/media/test_clips.py",
    "tests/ops/test_check.py",
    "tests/broker/test_rabbitmq.py",
    "tests/faults/test_kill.py",
)
"""The files that take longest, longest first, as measured on two processors: the last worker is not left alone
with one of them."""
