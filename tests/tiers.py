"""The two tiers of the tests: `make test` runs every behaviour once, `make test-all` every combination.

A test belongs to the second tier if it has the marker `deep`, a parameter of `COMBINATIONS`, or a name that begins as a row of
`DEEP`, unless `KEPT` has it. CONTRIBUTING.md shows the rows with their reasons.
"""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet

COMBINATIONS = frozenset(
    {
        "sharded-memory",
        "sharded-sqlite",
        "cached-memory",
        "stamped-memory",
        "sharded-postgres",
        "pooled-postgres",
        "three sqlite",
        "two postgres",
        "valkey",
    }
)
"""Backends that repeat what `make test` runs on memory, SQLite, PostgreSQL, DynamoDB, Redis, Redis Cluster, RabbitMQ and a cache
over sharded SQLite."""

DEEP = {
    "tests/api/http/test_remembered.py::test_that_would_fail": "shows that the tests of remembered pages can fail",
    "tests/api/http/test_remembered_beside.py::test_that_would_fail": "shows that the tests of remembered pages can fail",
    "tests/api/http/test_remembered_shared.py::test_that_would_fail": "shows that the tests of remembered pages can fail",
    "tests/api/test_media.py::test_a_server_that_is_killed": "kills a server that converts a film",
    "tests/archives/test_bounds.py::test_a_tar_may": "archives with a million entries",
    "tests/audit/test_log.py::test_pages_have_each_wanted_entry": "each engine with several sizes of a page",
    "tests/backups/test_repository.py::test_a_backup_that_is_killed": "kills backups of each kind of part",
    "tests/benchmarks/test_smallest.py::test_a_benchmark_does": "each benchmark starts servers of its own",
    "tests/broker/test_rabbitmq.py::test_a_broker_that_goes_and_comes_back_under_load": "stops and kills RabbitMQ under load",
    "tests/cli/test_demo.py::test_a_folder_keeps": "makes two demo networks",
    "tests/cli/test_demo.py::test_the_making_may_be_stopped": "interrupts the demo with each signal",
    "tests/cli/test_demo.py::test_the_same_seed": "makes three demo networks",
    "tests/clients/test_generated.py::test_openapi_python_client": "generates and runs a second client library",
    "tests/clients/test_toot.py": "each test starts several processes of toot; Mastodon.py makes the same calls",
    "tests/contracts/test_search_indexes.py::test_every_index_answers_as": "property test for each size of an index",
    "tests/contracts/test_tag_stores.py::test_a_version_may_be_large[dynamodb]": "a thousand requests",
    "tests/contracts/test_tag_stores.py::test_a_version_is_whole_or_not_there": "stops a writer at each step",
    "tests/contracts/test_tag_stores.py::test_about_a_hundred_clouds_are_kept[dynamodb]": "a thousand requests",
    "tests/deploy/test_container.py::test_the_image_": "builds and starts the container image",
    "tests/deploy/test_page.py::test_files_of_the_server": "uses the installed server",
    "tests/deploy/test_page.py::test_the_page_leads": "installs a server on a bare Debian",
    "tests/faults/test_archive_kill.py": "kills an import of an archive at many moments",
    "tests/faults/test_attacks.py": "each attack keeps a server of its own busy for seconds",
    "tests/faults/test_audit_kill.py": "kills a server between acts of moderators",
    "tests/faults/test_backup_faults.py": "backs up, destroys and restores a network under load",
    "tests/faults/test_broker_faults.py": "a cluster of three RabbitMQ nodes",
    "tests/faults/test_cluster_faults.py": "kills members of a cluster; tests/ops/test_cluster.py starts the same cluster",
    "tests/faults/test_kill.py": "kills servers under load at many moments",
    "tests/faults/test_owner_kill.py": "kills processes that share a file at many moments",
    "tests/faults/test_standby_faults.py": "PostgreSQL with a synchronous standby",
    "tests/flows/feeds/test_for_you_real.py": "ranks the posts of the test data",
    "tests/flows/simulation/test_simulation.py": "random stories on each number of stores, with and without shared memory",
    "tests/graph/test_postgres_standby.py::test_reads_and_writes_find": "a standby takes over in each way",
    "tests/media/test_decoder.py::test_the_largest_picture": "decodes the largest picture of each format",
    "tests/ops/test_import.py::test_an_import_that_is_killed_again": "kills an import at many moments",
    "tests/ops/test_import_real.py": "imports the test data and kills the import",
    "tests/ops/test_loading.py::test_one_that_is_killed": "kills a load at many moments",
    "tests/ops/test_shard_moves.py::test_a_move_whose_mover": "one kill for each phase of a rollback",
    "tests/ops/test_shard_moves.py::test_a_mover_that_is_killed": "one kill for each phase of a move",
    "tests/ops/test_shard_moves.py::test_the_end_of_a_move": "one kill for each last step",
    "tests/planner/test_simulation.py::test_fewer_workers": "simulates a network for each number of workers",
    "tests/readers/test_serving.py::test_whoever_is_killed": "kills each process of a server",
    "tests/test_guestbook.py::test_four_workers": "kills the owner of a shared file, for each way of starting workers",
    "tests/test_package.py::test_an_installed_demo": "makes a demo network with the installed package",
    "tests/upgrades/test_side_by_side.py": "two versions under load, in turn",
    "tests/upgrades/test_stored.py::test_a_store_of_every_version": "opens a store of each earlier version",
    "tests/upgrades/test_tags.py::test_tag_upgrade_that_is_killed": "kills an upgrade after each commit",
    "tests/web/chromium/test_every_page.py": "every page, in two widths and two colour schemes",
    "tests/web/chromium/test_links_and_buttons.py": "clicks every control",
    "tests/web/chromium/test_passkeys.py::test_the_pages_can_be_used": "accessibility of the passkey pages in light and dark",
    "tests/web/chromium/test_policy.py::test_refused_form": "every form, refused",
    "tests/web/chromium/test_walks.py": "a walk through all pages, in three kinds of browser",
    "tests/web/remembering/test_compared.py::test_it_would_stay": "shows that the tests of remembered pages can fail",
    "tests/web/remembering/test_remembered_pages.py": "random changes between two readings of each page",
}
"""Beginnings of the names of tests that only `make test-all` runs, with the reason."""

KEPT = (
    "tests/audit/test_log.py::test_pages_have_each_wanted_entry_once_newest_first[memory-",
    "tests/audit/test_log.py::test_pages_have_each_wanted_entry_once_newest_first[sqlite-",
    "tests/audit/test_log.py::test_pages_have_each_wanted_entry_once_newest_first[postgres-4]",
    "tests/audit/test_log.py::test_pages_have_each_wanted_entry_once_newest_first[dynamodb-40]",
    "tests/audit/test_log.py::test_pages_have_each_wanted_entry_once_newest_first[cached-sharded-sqlite-7]",
    "tests/backups/test_repository.py::test_a_backup_that_is_killed_leaves_the_earlier_ones_whole_and_the_next_one_clears_it_away[media]",
    "tests/benchmarks/test_smallest.py::test_a_benchmark_does_what_its_figures_say[home_page]",
    "tests/benchmarks/test_smallest.py::test_a_benchmark_does_what_its_figures_say[tag_merge]",
    "tests/clients/test_toot.py::test_media_are_uploaded_and_posted",
    "tests/contracts/test_search_indexes.py::test_every_index_answers_as_the_one_in_memory[sqlite-2]",
    "tests/contracts/test_search_indexes.py::test_every_index_answers_as_the_one_in_memory[postgres-0]",
    "tests/contracts/test_tag_stores.py::test_a_version_is_whole_or_not_there_when_its_writer_dies_in_it[sqlite-6]",
    "tests/contracts/test_tag_stores.py::test_a_version_is_whole_or_not_there_when_its_writer_dies_in_it[postgres-6]",
    "tests/contracts/test_tag_stores.py::test_a_version_is_whole_or_not_there_when_its_writer_dies_in_it[dynamodb-6]",
    "tests/faults/test_attacks.py::test_heads_without_an_end",
    "tests/faults/test_kill.py::test_the_tag_cloud",
    "tests/flows/simulation/test_simulation.py::test_in_the_end_everything_is_as_defined[some-1-True]",
    "tests/flows/simulation/test_simulation.py::test_a_seed_always_gives_the_same_run[some-2-True]",
    "tests/graph/test_postgres_standby.py::test_reads_and_writes_find_the_server_that_took_over[killed]",
    "tests/media/test_decoder.py::test_the_largest_picture_that_is_allowed_fits_into_the_memory_that_is_allowed[WEBP-RGBA-limits4]",
    "tests/ops/test_shard_moves.py::test_a_mover_that_is_killed_leaves_a_network_that_works_and_a_move_that_can_be_done_again[switch]",
    "tests/ops/test_shard_moves.py::test_a_move_whose_mover_was_killed_can_be_rolled_back[settle]",
    "tests/ops/test_shard_moves.py::test_the_end_of_a_move_can_be_killed_and_done_again[finish-delete]",
    "tests/upgrades/test_stored.py::test_a_store_of_every_version_is_opened_and_keeps_what_was_in_it[sqlite-6]",
    "tests/upgrades/test_stored.py::test_a_store_of_every_version_is_opened_and_keeps_what_was_in_it[postgresql-5]",
    "tests/web/chromium/test_every_page.py::test_every_page_is_in_the_list",
    "tests/web/chromium/test_links_and_buttons.py::test_every_control_for_strangers",
    "tests/web/chromium/test_walks.py::test_from_signing_up_to_logging_out[desk]",
    "tests/web/remembering/test_remembered_pages.py::test_a_remembered_page_is_as_a_fresh_one[2]",
)
"""The sample of those that `make test` runs."""

_DEEP = tuple(DEEP)


def is_deep(item: pytest.Item) -> bool:
    """Return whether a test belongs to the second tier without the marker."""
    callspec = getattr(item, "callspec", None)
    if callspec is not None and any(
        isinstance(value, str) and value in COMBINATIONS for value in callspec.params.values()
    ):
        return True
    return item.nodeid.startswith(_DEEP) and not item.nodeid.startswith(KEPT)


def deep(*values: object) -> list[ParameterSet]:
    """Return parameters whose tests only `make test-all` runs, because they repeat the code of another parameter.

    Example:
        `@pytest.mark.parametrize("suffix", [".mp3", *deep(".wav", ".flac")])`
    """
    return [pytest.param(value, marks=pytest.mark.deep) for value in values]
