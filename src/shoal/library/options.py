"""The settings that `Shoal.open` takes by name, with their types."""

from __future__ import annotations

from typing import Literal, TypedDict


class Options(TypedDict, total=False):
    """As `shoal.settings.Settings`, which says what each is; a test compares the two. `store` is the URL itself."""

    timelines: str
    broker: str
    tags: str
    tag_merge_tags: int
    tag_merge_increments: int
    tag_merge_seconds: float
    tag_merge_pause_seconds: float
    search: str
    run_consequences: bool
    media: str
    base_url: str
    host: str
    port: int
    metrics_host: str
    metrics_port: int
    trusted_proxies: tuple[str, ...]
    connections_per_address: int
    title: str
    description: str
    contact_email: str
    mail: str
    mail_from: str
    email_confirmation: Literal["none", "asked", "required"]
    push_key: str
    push_networks: tuple[str, ...]
    contact_account: str
    rules: tuple[str, ...]
    registrations: bool
    approval: bool
    signup_work: int
    invitations: Literal["off", "staff", "members"]
    staff_second_factor: bool
    public_pages: bool
    token_days: int
    password_grant: bool
    max_post_characters: int
    max_media_per_post: int
    max_upload_bytes: int
    max_pixels: int
    feed_edge: int
    keep_originals: bool
    max_member_bytes: int
    max_video_bytes: int
    max_video_seconds: int
    max_archive_bytes: int
    archives: str
    max_follows: int
    leaving_days: int
    recipe: dict[str, float | dict[str, float]]
    for_you_list: bool
    reports_to_hold: int
    reporter_age_days: float
    timeline_length: int
    timeline_members: int
    timeline_idle_days: float
    loud_from: int
    object_cache: int
    answer_cache: int
    tombstone_days: float
    audit_days: float
    follow_history_days: float
    rate_limits: bool
    limits: dict[str, str]
    requests_at_work: int
    requests_waiting: int
    waiting_seconds: float
    most_behind_seconds: float
    development: bool
    log_format: Literal["text", "json"]
    request_log: Literal["off", "slow", "all"]
    slow_ms: float
    opentelemetry: bool
    log_level: Literal["debug", "info", "warning", "error"]
