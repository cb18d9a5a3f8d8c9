"""The two tiers of the tests: `make test` runs every behavior once, `make test-all` runs every combination.

A test belongs to the second tier if it has the marker `deep`, a parameter in `COMBINATIONS`, or a name with a prefix in `DEEP`
and none in `KEPT`. CONTRIBUTING.md lists `DEEP` with the reasons.
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
    "tests/api/http/test_response_cache.py::test_response_cache_test": "verifies that the cache tests can fail",
    "tests/api/http/test_response_cache_multiprocess.py::test_response_cache_test": "verifies that the cache tests can fail",
    "tests/api/http/test_response_cache_readers.py::test_reader_process_cache_test": "verifies that the cache tests can fail",
    "tests/api/login/test_oauth_browser.py::test_authorize_pages_fit_phone_screen_in_light_and_dark_mode[dark]": (
        "the same pages in dark mode"
    ),
    "tests/api/test_media.py::test_video_processing_resumes": "kills a server during a video conversion",
    "tests/archives/test_invalid_archives.py::test_archive_tar_with": "archives with a million entries",
    "tests/archives/test_plain_text.py::test_plain_text_of_malformed": "one measurement for each kind of malformed HTML",
    "tests/audit/test_audited_actions.py::test_audited_action_retried": (
        "repeats each action; the actions share the code that retries"
    ),
    "tests/audit/test_log.py::test_audit_log_filtered_pages_return": "each engine with several page sizes",
    "tests/backups/test_repository.py::test_backup_killed_keeps_earlier": "kills a backup while it writes each kind of data",
    "tests/benchmarks/test_smoke.py::test_benchmark_in_smallest": "each benchmark starts separate servers",
    "tests/broker/test_rabbitmq.py::test_rabbitmq_outbox_broker_restart": "stops and kills RabbitMQ under load",
    "tests/cli/test_demo.py::test_demo_creation_interrupted_by_signal": "interrupts the demo with each signal",
    "tests/cli/test_demo.py::test_demo_folder_keeps_its_network_without_fresh_option": "makes two demo networks",
    "tests/cli/test_demo.py::test_demo_same_seed_creates_same_network_and_other": "makes three demo networks",
    "tests/clients/test_generated_clients.py": "generates and runs a client library; schemathesis checks its document",
    "tests/clients/test_toot.py": "each test starts several toot processes; Mastodon.py covers these calls",
    "tests/contracts/test_association_ranks.py::test_graph_assoc_ranks_match_plain_list_after_random_changes[dynamodb": (
        "random changes of each kind of list"
    ),
    "tests/contracts/test_channels.py::test_update_log_reader_receives_every_message_in_order_or_gap[dynamodb]": (
        "a thousand requests"
    ),
    "tests/contracts/test_graph.py::test_graph_assoc_ranges_matches_individual_assoc_range_calls[dynamodb-120]": (
        "a thousand requests"
    ),
    "tests/contracts/test_graph.py::test_graph_inverse_operations_converge_in_any_order_and_with_repeats[dynamodb]": (
        "a thousand requests"
    ),
    "tests/contracts/test_graph_model.py::test_graph_random_commits_match_reference_model[cached-sharded-sqlite]": (
        "random commits on one more combination"
    ),
    "tests/contracts/test_search_indexes.py::test_search_index_query_results": "property test for each index size",
    "tests/contracts/test_tag_stores.py::test_tag_store_keeps_limited_number_of_clouds[dynamodb]": "a thousand requests",
    "tests/contracts/test_tag_stores.py::test_tag_store_stores_version_with_thousands_of_tags[dynamodb]": "a thousand requests",
    "tests/contracts/test_tag_stores.py::test_tag_store_version_is_atomic_when_writer": "stops a writer at each step",
    "tests/contracts/test_timelines.py::test_timeline_store_random_operations_match_model_above_floor[dynamodb, small heads]": (
        "random operations with one more setting"
    ),
    "tests/core/test_linear_time.py::test_text_parser_runs_in_time": (
        "one measurement for each function; the limits of requests bound all texts"
    ),
    "tests/core/test_placement.py::test_media_directories_of_real": "places all names of the test data",
    "tests/core/test_placement.py::test_shard_placement_spreads_real": "places all names of the test data",
    "tests/deploy/test_container.py::test_container_image": "builds and starts the container image",
    "tests/deploy/test_deploy_guide.py::test_deploy_guide_commands_set_up": "installs a server on a bare Debian",
    "tests/deploy/test_deploy_guide.py::test_deploy_guide_server_files_are_readable_only": "uses the installed server",
    "tests/faults/test_archive_kill.py": "kills an archive import at many moments",
    "tests/faults/test_attacks.py": "each attack keeps a separate server busy for seconds",
    "tests/faults/test_audit_kill.py": "kills a server between actions of moderators",
    "tests/faults/test_backup_faults.py": "backs up, destroys and restores a network under load",
    "tests/faults/test_broker_faults.py": "a cluster of three RabbitMQ nodes",
    "tests/faults/test_cluster_faults.py": "kills members of a cluster; tests/ops/test_cluster.py starts a cluster too",
    "tests/faults/test_owner_kill.py": "kills processes that share a file at many moments",
    "tests/faults/test_server_kill.py": "kills servers under load at many moments",
    "tests/faults/test_standby_faults.py": "PostgreSQL with a synchronous standby",
    "tests/faults/test_webhook_kills.py": "kills a server while it delivers webhooks",
    "tests/flows/feeds/test_for_you_real.py": "ranks the posts of the test data",
    "tests/flows/feeds/test_positions.py::test_timeline_positions_count_stored_entries_including_hidden_ones[two stores": (
        "the same positions on one more combination"
    ),
    "tests/flows/feeds/test_search_real.py": "searches the posts of the test data in each index",
    "tests/flows/feeds/test_share_folding.py::test_share_folding_pages_of_any_size": "each page size in both directions",
    "tests/flows/simulation/test_simulation.py": "random operations on each number of stores, with and without shared memory",
    "tests/flows/test_account_deletion.py::test_account_deletion_of_large": "a thousand requests",
    "tests/graph/test_event_log_dynamodb.py::test_dynamodb_event_log_misses_no_commit_of_processes": (
        "many commits of several processes; the contract tests do it in one process"
    ),
    "tests/graph/test_event_log_dynamodb.py::test_dynamodb_event_log_survives_kill": (
        "kills writers at many moments; tests/faults kills a server with a log"
    ),
    "tests/graph/test_event_log_postgres.py::test_postgres_event_log_survives_kill": (
        "kills writers at many moments; tests/faults kills a server with a log"
    ),
    "tests/graph/test_postgres_standby.py::test_postgres_failover_reads": "each kind of failover to a standby",
    "tests/graph/test_sqlite.py::test_sqlite_event_log_survives_kill": (
        "kills writers at many moments; tests/faults kills a server with a log"
    ),
    "tests/graph/test_use_case_requests.py": "a thousand requests; docs state their numbers",
    "tests/media/test_clips.py::test_media_upload_in_each_accepted_codec": "one conversion for each codec",
    "tests/media/test_clips.py::test_video_with_unsupported_format": "one conversion for each unsupported format",
    "tests/media/test_decoder.py::test_image_decoder_largest": "decodes the largest picture of each format",
    "tests/ops/test_bulk_import.py::test_bulk_import_killed_midway_resumes": "kills a bulk import at many moments",
    "tests/ops/test_check.py::test_shoal_check_of_network_in_use": "checks a network again and again under load",
    "tests/ops/test_import.py::test_import_killed_repeatedly_resumes": "kills an import at many moments",
    "tests/ops/test_import_real.py": "imports the test data and kills the import",
    "tests/ops/test_shard_moves.py::test_shard_move_after_mover_kill_can": "one kill for each phase of a rollback",
    "tests/ops/test_shard_moves.py::test_shard_move_after_mover_kill_keeps": "one kill for each phase of a move",
    "tests/ops/test_shard_moves.py::test_shard_move_of_half": "one kill for each phase of a move of a part",
    "tests/ops/test_shard_moves.py::test_shard_move_rollback_or_finish": "one kill for each final step",
    "tests/planner/test_simulation.py::test_simulation_with_fewer": "simulates a network for each number of workers",
    "tests/readers/test_reader_processes.py::test_killed_server_process_is_replaced": "kills each process of a server",
    "tests/sdk/test_gallery.py::test_gallery_pages_are_accessible_and_fit_window[390": "the same pages in a second width",
    "tests/sdk/test_package.py": "builds, installs and documents the npm package",
    "tests/study/test_constraints.py::test_placement_study_constraint_results_of_very_short": "several studies",
    "tests/study/test_independent_count.py::test_placement_study_figures_of_random_names": (
        "random names; the lists of the test data are counted too"
    ),
    "tests/study/test_study_page.py": "repeats the commands of the page, which study all names of the test data",
    "tests/tagcloud/test_collector_takeover.py::test_tag_collector_killed_between_parts": (
        "kills a collector, for each store and transport"
    ),
    "tests/tagcloud/test_dynamodb.py::test_tag_cloud_write_killed_at_any_request": "stops a writer at each request",
    "tests/test_docs.py::test_planning_page_plans": "repeats each command of the planning page, which simulate large networks",
    "tests/test_docs_site.py": "builds the documentation site; tests/test_docs.py checks its pages",
    "tests/test_examples.py::test_notice_board_example_returns_library_errors": (
        "starts an example again; its first test uses the same routes"
    ),
    "tests/test_examples.py::test_notice_board_example_sends_live": "starts an example again; the streams have separate tests",
    "tests/test_examples.py::test_reading_club_example_refuses": "starts an example again; refusals have separate tests",
    "tests/test_examples.py::test_swap_example_refuses": "starts an example again; refusals have separate tests",
    "tests/test_guestbook.py::test_django_example_with": "kills the owner of a shared file, for each worker start method",
    "tests/test_package.py::test_shoal_demo_of_installed": "makes a demo network with the installed package",
    "tests/test_shop_example.py::test_shop_demo_has_reviews": "makes the demo of the shop; the other tests use the shop without it",
    "tests/test_tutorials.py::test_embedding_guide": "runs the programs of a second page in new interpreters",
    "tests/test_tutorials.py::test_library_guide": "runs the programs of a third page in new interpreters",
    "tests/tls/test_engine_logins.py::test_engine_login_over_tls_accepts_password_with_special_characters[redis-cluster]": (
        "the same client as with redis"
    ),
    "tests/upgrades/test_rolling_upgrade.py": "runs two versions under load",
    "tests/upgrades/test_schema_versions.py::test_stored_network_of_each": "opens a store of each earlier version",
    "tests/upgrades/test_tag_upgrade.py::test_tag_upgrade_killed_after_each": "kills an upgrade after each commit",
    "tests/upgrades/test_tag_upgrade.py::test_tag_upgrade_of_many_tags_fits_commit_limits_of_each_engine[in_dynamodb]": (
        "a thousand requests"
    ),
    "tests/upgrades/test_tag_upgrade.py::test_tag_upgrade_when_repeated_changes_no_data[in_dynamodb]": (
        "a thousand requests; the first upgrade is tested on each engine"
    ),
    "tests/upgrades/test_upgrade_sqlite.py::test_sqlite_upgrade_killed": "kills an upgrade at many moments",
    "tests/web/chromium/test_compose_photos.py::test_compose_page_with_photos_and_open_options_fits_the_window[1280]": (
        "the same page in a second width"
    ),
    "tests/web/chromium/test_compose_photos.py::test_compose_photos_pasted_or_dropped_are_uploaded[paste]": (
        "the same upload by a second gesture"
    ),
    "tests/web/chromium/test_csp.py::test_content_security_policy_is_not_violated_by_refused": "every form, refused",
    "tests/web/chromium/test_every_page.py": "every page, for five kinds of viewers in two widths",
    "tests/web/chromium/test_links_and_buttons.py": "clicks every control",
    "tests/web/chromium/test_onboarding.py": "the same steps in two widths and with two networks",
    "tests/web/chromium/test_page_weight.py::test_page_weighs_less": "pages that share layout and scripts",
    "tests/web/chromium/test_page_weight.py::test_photo_in_the_viewer_is_loaded_in_about_the_size_in_which_it_is_shown[1280]": (
        "the same photo in a second width"
    ),
    "tests/web/chromium/test_page_weight.py::test_photo_on_any_page_is_loaded_in_about_the_size_in_which_it_is_shown[1280]": (
        "the same pages in a second width"
    ),
    "tests/web/chromium/test_passkeys.py::test_copied_passkey_with": "tests/web/test_passkeys.py covers it without a browser",
    "tests/web/chromium/test_passkeys.py::test_passkey_pages_are": "accessibility of the passkey pages in light and dark",
    "tests/web/chromium/test_passkeys.py::test_passkeys_of_two_browsers_both_log_in": (
        "tests/web/test_passkeys.py covers it without a browser"
    ),
    "tests/web/chromium/test_passkeys.py::test_removed_passkey_login_is_refused": (
        "tests/web/test_passkeys.py covers it without a browser"
    ),
    "tests/web/chromium/test_profile.py::test_profile_menu_works_with_keyboard_and_without_scripts[post]": (
        "the same menu on a second page"
    ),
    "tests/web/chromium/test_profile.py::test_profile_tabs_portfolio_and_photo_pages_are_accessible[1280]": (
        "the same pages in a second width"
    ),
    "tests/web/chromium/test_streamed_pages.py::test_streamed_page_hides_photo_grid_until_it_is_complete[1280]": (
        "the same page in a second width"
    ),
    "tests/web/chromium/test_user_journeys.py": "a walk through all pages, in three kinds of browser",
    "tests/web/chromium/test_viewer.py::test_photo_viewer_is_accessible_and_fits_window[1280": "the same viewer in a second width",
    "tests/web/chromium/test_viewer.py::test_photo_viewer_opens_and_closes_with_view_transition_unless_motion_is_reduced": (
        "looks of the viewer; the other tests open and close it"
    ),
    "tests/web/chromium/test_viewer.py::test_photo_viewer_receives_clicks": "looks of the viewer; the other tests click in it",
    "tests/web/test_page_cache.py": "random changes between two reads of each page",
    "tests/web/test_page_cache_external_data.py::test_page_cache_that_does_not_compare": "verifies that the cache tests can fail",
    "tests/webhooks/test_kills.py::test_webhook_worker_killed_at_any_step_loses_no_event_and_keeps_order[dynamodb]": (
        "kills a worker at each step on one more engine"
    ),
}
"""Prefixes of the names of tests that only `make test-all` runs, with the reasons."""

KEPT = (
    "tests/archives/test_plain_text.py::test_plain_text_of_malformed_html_takes_linear_time[<div><p>]",
    "tests/archives/test_plain_text.py::test_plain_text_of_malformed_html_takes_linear_time[<pre>",
    "tests/audit/test_audited_actions.py::test_audited_action_retried_after_conflict_writes_one_entry[member.",
    "tests/audit/test_audited_actions.py::test_audited_action_retried_after_unknown_outcome_writes_one_entry[member.",
    "tests/audit/test_log.py::test_audit_log_filtered_pages_return_each_entry_once_newest_first[cached-sharded-sqlite-7]",
    "tests/audit/test_log.py::test_audit_log_filtered_pages_return_each_entry_once_newest_first[dynamodb-40]",
    "tests/audit/test_log.py::test_audit_log_filtered_pages_return_each_entry_once_newest_first[memory-",
    "tests/audit/test_log.py::test_audit_log_filtered_pages_return_each_entry_once_newest_first[postgres-4]",
    "tests/audit/test_log.py::test_audit_log_filtered_pages_return_each_entry_once_newest_first[sqlite-",
    "tests/backups/test_repository.py::test_backup_killed_keeps_earlier_generations_and_is_cleaned_up_by_next_backup[media]",
    "tests/benchmarks/test_smoke.py::test_benchmark_in_smallest_size_passes_its_checks[home_page]",
    "tests/benchmarks/test_smoke.py::test_benchmark_in_smallest_size_passes_its_checks[tag_merge]",
    "tests/clients/test_toot.py::test_toot_client_uploads_and_posts_media",
    "tests/contracts/test_association_ranks.py::test_graph_assoc_ranks_match_plain_list_after_random_changes[dynamodb-POSTED]",
    "tests/contracts/test_search_indexes.py::test_search_index_query_results_match_memory_index[postgres-0]",
    "tests/contracts/test_search_indexes.py::test_search_index_query_results_match_memory_index[sqlite-2]",
    "tests/contracts/test_tag_stores.py::test_tag_store_version_is_atomic_when_writer_crashes_at_given_step[dynamodb-6]",
    "tests/contracts/test_tag_stores.py::test_tag_store_version_is_atomic_when_writer_crashes_at_given_step[postgres-6]",
    "tests/contracts/test_tag_stores.py::test_tag_store_version_is_atomic_when_writer_crashes_at_given_step[sqlite-6]",
    "tests/core/test_linear_time.py::test_text_parser_runs_in_time_linear_in_input_length[check_text of a post]",
    "tests/core/test_linear_time.py::test_text_parser_runs_in_time_linear_in_input_length[filters]",
    "tests/core/test_linear_time.py::test_text_parser_runs_in_time_linear_in_input_length[fold]",
    "tests/core/test_linear_time.py::test_text_parser_runs_in_time_linear_in_input_length[words_of]",
    "tests/faults/test_attacks.py::test_server_with_unterminated_request_heads_uses_bounded_memory",
    "tests/faults/test_server_kill.py::test_tag_cloud_merge_resumes_immediately_after_owner_is_killed",
    "tests/flows/feeds/test_search_real.py::test_search_index_with_real_posts_matches_full_scan_in_every_script[sqlite]",
    "tests/flows/feeds/test_share_folding.py::test_share_folding_pages_of_any_size_and_direction_match_definition[8-4]",
    "tests/flows/feeds/test_share_folding.py::test_share_folding_pages_of_any_size_and_direction_match_definition[800-40]",
    "tests/flows/simulation/test_simulation.py::test_simulation_with_equal_seed_gives_identical_runs[some-2-True]",
    "tests/flows/simulation/test_simulation.py::test_system_simulation_of_random_operations_ends_in_the_state_that_the_model_defines[some-1-True]",
    "tests/graph/test_postgres_standby.py::test_postgres_failover_reads_and_writes_reach_promoted_standby[killed]",
    "tests/media/test_clips.py::test_media_upload_in_each_accepted_codec_is_converted[.mp4-libx265aac]",
    "tests/media/test_clips.py::test_media_upload_in_each_accepted_codec_is_converted[.wav",
    "tests/media/test_clips.py::test_media_upload_in_each_accepted_codec_is_converted[.webm-libvpx-vp9libopus]",
    "tests/media/test_clips.py::test_video_with_unsupported_format_is_reencoded[large]",
    "tests/media/test_clips.py::test_video_with_unsupported_format_is_reencoded[mpeg4]",
    "tests/media/test_decoder.py::test_image_decoder_largest_allowed_image_fits_memory_limit[WEBP-RGBA-limits4]",
    "tests/ops/test_shard_moves.py::test_shard_move_after_mover_kill_can_be_rolled_back[settle]",
    "tests/ops/test_shard_moves.py::test_shard_move_after_mover_kill_keeps_network_writable_and_can_be_repeated[switch]",
    "tests/ops/test_shard_moves.py::test_shard_move_of_half_a_data_source_under_load_and_after_mover_kill_loses_no_data[switch]",
    "tests/ops/test_shard_moves.py::test_shard_move_rollback_or_finish_after_kill_can_be_repeated[finish-delete]",
    "tests/tagcloud/test_collector_takeover.py::test_tag_collector_killed_between_parts_of_increment_is_replaced_and_uses_count_once[sqlite-rabbitmq]",
    "tests/upgrades/test_schema_versions.py::test_stored_network_of_each_schema_version_opens_with_all_data[postgresql-5]",
    "tests/upgrades/test_schema_versions.py::test_stored_network_of_each_schema_version_opens_with_all_data[sqlite-6]",
    "tests/web/chromium/test_every_page.py::test_web_page_list_of_browser_tests_contains_all_web_routes",
    "tests/web/chromium/test_every_page.py::test_web_pages_render_completely_accessibly_and_without_layout_shift[member-1280]",
    "tests/web/chromium/test_onboarding.py::test_onboarding_of_new_member_leads_to_feed_with_posts_of_the_network[390-one-post]",
    "tests/web/chromium/test_page_weight.py::test_page_weighs_less_than_150_kilobytes_before_its_photos[front]",
    "tests/web/chromium/test_page_weight.py::test_page_weighs_less_than_150_kilobytes_before_its_photos[home]",
    "tests/web/test_page_cache.py::test_cached_page_equals_fresh_page[1]",
)
"""Prefixes of the names of tests that match `DEEP` but run in `make test`, too, as a sample."""

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
