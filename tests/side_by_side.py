"""Tests that run side by side: which files begin."""

from __future__ import annotations

LONGEST = (
    "tests/faults/test_cluster_faults.py",
    "tests/benchmarks/test_smallest.py",
    "tests/flows/simulation/test_simulation.py",
    "tests/contracts/test_graph.py",
    "tests/web/chromium/test_every_page.py",
    "tests/ops/test_shard_moves.py",
    "tests/contracts/test_tag_stores.py",
    "tests/contracts/test_outbox.py",
    "tests/api/reference/test_schemathesis.py",
    "tests/web/chromium/test_walks.py",
    "tests/ops/test_check.py",
    "tests/faults/test_attacks.py",
    "tests/contracts/test_graph_model.py",
    "tests/media/test_decoder.py",
    "tests/clients/test_toot.py",
    "tests/flows/test_visibility_matrix.py",
    "tests/contracts/test_tag_transports.py",
    "tests/broker/test_rabbitmq.py",
    "tests/media/test_clips.py",
    "tests/contracts/test_search_indexes.py",
    "tests/ops/test_cluster.py",
    "tests/graph/test_dynamodb.py",
    "tests/faults/test_kill.py",
    "tests/contracts/test_histories.py",
    "tests/api/test_auth_matrix.py",
    "tests/cli/test_beside_a_server.py",
    "tests/flows/test_shared.py",
    "tests/core/test_text.py",
    "tests/ops/test_loading.py",
    "tests/test_examples.py",
    "tests/api/test_media.py",
)
"""The files that take longest, longest first, as measured on two processors: the last worker is not left alone
with one of them."""
