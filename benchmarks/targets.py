"""All targets. They apply to the full sizes, on two cores."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Literal, NamedTuple


class Target(NamedTuple):
    benchmark: str
    figure: str
    side: Literal["least", "most"]
    value: float
    of_raw: bool = False
    """The value is a multiple of the raw engine's figure in this run."""


TARGETS = (
    Target("attack", "*: p99 of another client", "most", 500),
    Target("attack", "*: peak memory", "most", 250),
    Target("cluster", "home: processor time, total", "most", 1_000),
    Target("dynamodb_queries", "home, one of two processes: requests, warm", "most", 2),
    Target("cluster", "home: processor time, web", "most", 600),
    Target("cluster", "two: home: capacity of the web processes", "least", 1.5, of_raw=True),
    Target("cluster", "post: processor time, total", "most", 2_000),
    Target("cluster", "post alone: p50", "most", 4),
    Target("discovery", "1,000 candidates scored, median", "most", 2),
    Target("discovery", "1,500 candidates scored by an expression and explained, CPU, median", "most", 3),
    Target("discovery", "a warm page, median", "most", 15),
    Target("discovery", "a warm page, p99", "most", 40),
    Target("discovery", "a page after it, median", "most", 3),
    Target("discovery_quality", "ours, recall@10", "least", 1.0, of_raw=True),
    Target("discovery_quality", "ours, recall@50", "least", 1.0, of_raw=True),
    Target("discovery_quality", "photos: ours, relative to the better of popularity and recency", "least", 2.0),
    Target("discovery_quality", "suggestions for a member with 500 followees: processor time, median", "most", 30),
    Target("kind_filters", "1,000,000 posts: *: cold, median", "most", 5),
    Target("processes", "2: home: capacity", "least", 1.7, of_raw=True),
    Target("processes", "2: home, rendered again: capacity", "least", 1.7, of_raw=True),
    Target("public_server", "a home page: processor time", "most", 1.01, of_raw=True),
    Target("web_pages", "home: processor time", "most", 3),
    Target("web_pages", "home, requested again: processor time", "most", 1),
    Target("web_pages", "a *, for a visitor, requested again: processor time", "most", 1),
    Target("web_pages", "home: HTML, compressed", "most", 40),
    Target("web_pages", "a *, for a visitor: processor time", "most", 2),
    Target("web_pages", "all scripts, compressed", "most", 45),
    Target("web_pages", "all styles, compressed", "most", 25),
    Target("web_pages", "home pages", "least", 300),
    Target("web_pages", "*: Largest Contentful Paint", "most", 1_000),
    Target("web_pages", "*: layout shift", "most", 0.02),
    Target("web_pages", "*, slow phone: first photo", "most", 2_500),
    Target("web_pages", "*, slow phone: bytes before photos", "most", 150),
    Target("web_pages", "*: interaction to next paint", "most", 150),
    Target("end_to_end", "offered: durable posts", "least", 3_482),
    Target("end_to_end", "offered: written deliveries", "least", 1.41e6),
    Target("end_to_end", "offered: lag to delivery, p99", "most", 1_000),
    Target("fanout_memory", "memory including the index", "most", 8.5),
    Target("fanout_memory", "written deliveries", "least", 6e6),
    Target("fanout_memory", "share of the bare ring", "least", 0.7),
    Target("home_page", "*: warm page, median", "most", 400),
    Target("home_page", "most expensive size / cheapest size", "most", 1.2),
    Target("home_page", "cold page, follows 9,* median", "most", 250),
    Target("home_page", "cold page, * median", "most", 25),
    Target("http_load*", "client's ceiling: correct responses", "least", 8_000),
    Target("http_network", "home: correct responses", "least", 8_000),
    Target("http_network", "home, not modified: correct responses", "least", 11_000),
    Target("http_network", "home, rendered again: correct responses", "least", 3_500),
    Target("http_network", "home: p99", "most", 25),
    Target("http_network", "home in the process, a liked post / all posts new", "most", 0.5),
    Target("http_network", "home in the process, a post on it was liked: processor time", "most", 120),
    Target("http_network", "home in the process, everything on it is new: processor time", "most", 350),
    Target("http_network", "post: correct responses", "least", 1_000),
    Target("http_network", "time to the first response", "most", 1.5),
    Target("http_network", "memory when idle", "most", 120),
    Target("http_network", "memory after *", "most", 250),
    Target("import_real", "all of it", "most", 180),
    Target("import_real", "follows per second", "least", 10_000),
    Target("mixed_load", "*: all: p99", "most", 20),
    Target("mixed_load", "*: post: p99", "most", 20),
    Target("mixed_load", "*: event loop pauses: longest", "most", 10),
    Target("mixed_load", "*: garbage was collected: longest", "most", 10),
    Target("mixed_load", "1: at 800/s: processor time per request", "most", 350),
    Target("mixed_load", "1: at 2,000/s: answers", "least", 0.99, of_raw=True),
    Target("mixed_load", "1: at 2,000/s: p99 of answers", "most", 20),
    Target("mixed_load", "2: at 3,000/s: answers", "least", 0.99, of_raw=True),
    Target("mixed_load", "*: overload: p99 of answers", "most", 250),
    Target("mixed_load", "1: memory at the end", "most", 250),
    Target("placement_study", "real names, MD5: all of it", "most", 5),
    Target("placement_study", "real names, every scheme: all of it", "most", 30),
    Target("placement_study", "real names: largest deviation of an MD5 bucket", "most", 10),
    Target("placement_study", "made-up names: all of it", "most", 120),
    Target("placement_study", "made-up names: memory", "most", 300),
    Target("post_costs", "*: bytes written per post", "most", 8_192),
    Target("rabbitmq_jobs", "jobs relayed and done by one worker", "least", 5_000),
    Target("redis_structures", "packed string, filled", "most", 18),
    Target("redis_structures", "packed string, in use", "most", 18),
    Target("redis_structures", "fan-out of one worker, compared with ZADD and trim", "least", 1.7, of_raw=True),
    Target("redis_structures", "longest call: *", "most", 3),
    Target("shared_fanout", "*: post to all arrived, *", "most", 10),
    Target("shared_fanout", "*: lag of other posts during it, p99", "most", 1_000),
    Target("shared_home", "*: nothing changed, median", "most", 1.5),
    Target("shared_home", "*: nothing changed, round trips, max", "most", 4),
    Target("shared_stores", "post*, one store: sequential waits", "most", 3),
    Target("shared_stores", "follow*, one store: sequential waits", "most", 4),
    Target("shared_stores", "like*, one store: sequential waits", "most", 2),
    Target("shared_stores", "home page, one store: sequential waits", "most", 2),
    Target("shared_stores", "posts, 2 % of a core each: two stores compared with one", "least", 1.7),
    Target("ten_million", "*: members imported per second", "least", 20_000),
    Target("ten_million", "*: follows imported per second", "least", 60_000),
    Target("ten_million", "*: [!p]*, over * members", "most", 1.3),
    Target("ten_million", "*: post to 400, over * members", "most", 1.3),
    Target("ten_million", "*: profile, over * members", "most", 1.3),
    Target("tag_merge", "* tag uses merged", "most", 60),
    Target("tag_merge", "lock held by a merge, median", "most", 1_000),
    Target("tag_merge", "lock held by a merge, p99", "most", 1_000),
    Target("tag_merge", "head and cloud, warm, median", "most", 1),
    Target("tag_merge", "in the request per tag", "most", 2),
    Target("tag_merge", "emitting in total per tag", "most", 2),
    Target("tag_updates", "delay of a version, p99", "most", 100),
    Target("tag_updates", "quiet: requests to the store, a process and minute", "most", 0.15, of_raw=True),
)


def target_of(benchmark: str, figure: str) -> Target | None:
    return next(
        (
            target
            for target in TARGETS
            if fnmatchcase(benchmark, target.benchmark) and fnmatchcase(figure, target.figure)
        ),
        None,
    )
