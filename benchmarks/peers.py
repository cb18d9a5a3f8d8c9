"""Figures published by the makers of feed servers and of their stores, each with its source.

They appear on the page as a table (`table`), and on the chart of the limits next to the path with a similar operation (`marks`).
Machines, loads and guarantees differ from ours and from each other: they indicate an order of magnitude, not a ranking.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_MINUTE, _DAY, _MONTH = 60, 86_400, 30 * 86_400
"""Seconds."""


class Document(NamedTuple):
    """A document to cite. `account` names its author if that is not the maker; the document then reports the maker's statements."""

    title: str
    by: str
    year: str
    address: str
    account: str = ""

    def cited(self) -> str:
        source = f", as reported by {self.account}" if self.account else ""
        return f"{self.by}, [{self.title}]({self.address}), {self.year or 'undated'}{source}"


class PeerFigure(NamedTuple):
    """A figure from a document.

    `rate` is in operations per second. `machines` is their number if the document has one, else 0; `each` is the term for one of
    them. `path` is the comparable path of `benchmarks.limits` on the chart; empty if there is none.
    """

    peer: str
    says: str
    on: str
    document: Document
    rate: float = 0.0
    machines: int = 0
    each: str = "machine"
    path: str = ""

    def rate_of_one(self) -> float:
        """Return operations per second of one machine, or of all if their number is unknown."""
        return self.rate / (self.machines or 1)

    def label(self) -> str:
        return f"{self.peer} {self.document.year}, {f'a {self.each}' if self.machines else 'all of it'}"

    def cells(self) -> tuple[str, str, str, str, str]:
        of_one = f"{self.rate_of_one():,.0f} per second" if self.machines > 1 else ""
        return self.peer, self.says, self.on, of_one, self.document.cited()


class Mark(NamedTuple):
    label: str
    rate: float


_RAMA_RUN = Document(
    "Twitter-scale Mastodon instance",
    "Red Planet Labs",
    "2023",
    "https://blog.redplanetlabs.com/twitter-scale-mastodon-instance/",
)
_RAMA_SCALING = Document(
    "twitter-scale-mastodon, README and its chart of scalability",
    "Red Planet Labs",
    "2023",
    "https://github.com/redplanetlabs/twitter-scale-mastodon",
)
_TIMELINES = Document(
    "Timelines at Scale (talk)",
    "Raffi Krikorian, Twitter",
    "2013",
    "https://highscalability.com/the-architecture-twitter-uses-to-deal-with-150m-active-users/",
    "High Scalability",
)
_UPDATES = Document(
    "Staple Yourself to a Tweet",
    "Raffi Krikorian, Twitter",
    "2013",
    "https://tanzu.vmware.com/content/blog/case-study-staple-yourself-to-a-tweet-to-understand-30-billion-redis-updates-per-day",
    "Adam Bloom, VMware Tanzu",
)
_FOR_YOU = Document(
    "Twitter's Recommendation Algorithm",
    "Twitter",
    "2023",
    "https://blog.twitter.com/engineering/en_us/topics/open-source/2023/twitter-recommendation-algorithm",
)
_FLOCKDB = Document("FlockDB, README", "Twitter", "2010", "https://github.com/twitter-archive/flockdb")
_TUMBLR = Document(
    "Tumblr Architecture",
    "Blake Matheny, Tumblr",
    "2012",
    "http://highscalability.com/blog/2012/2/13/tumblr-architecture-15-billion-page-views-a-month-and-harder.html",
    "High Scalability",
)
_STREAM = Document(
    "Stream & Go: News Feeds for Over 300 Million End Users",
    "Stream",
    "2018",
    "https://getstream.io/blog/stream-and-go-news-feeds-for-over-300-million-end-users",
)
_STREAM_RUN = Document("Activity feeds benchmark", "Stream", "", "https://getstream.io/blog/activity-feeds-benchmark")
_INSTAGRAM = Document(
    "Instagram's Shift to Cassandra from Redis (talk)",
    "Rick Branson, Instagram",
    "2013",
    "http://planetcassandra.org/blog/cassandra-summit-2013-instagrams-shift-to-cassandra-from-redis-by-rick-branson/",
    "Planet Cassandra",
)
_PINLATER = Document("PinLater, README", "Pinterest", "2017", "https://github.com/pinterest/pinlater")
_TAO = Document(
    "TAO: Facebook's Distributed Data Store for the Social Graph, USENIX ATC",
    "Bronson and others, Facebook",
    "2013",
    "https://www.usenix.org/conference/atc13/technical-sessions/presentation/bronson",
)
_COMMENTS = Document(
    "Live Commenting: Behind the Scenes",
    "Ken Deeter, Facebook",
    "2011",
    "https://engineering.fb.com/2011/02/07/core-infra/live-commenting-behind-the-scenes",
)
_LINKEDIN = Document(
    "Feed Infrastructure",
    "LinkedIn",
    "",
    "https://engineering.linkedin.com/teams/data/data-infrastructure/feed-infrastructure",
)
_RELAY = Document("Relay Updates for Sync v1.1", "Bluesky", "2025", "https://docs.bsky.app/blog/relay-sync-updates")
_PDS = Document("PDS, README", "Bluesky", "", "https://github.com/bluesky-social/pds")
_GOTOSOCIAL = Document(
    "Deployment considerations, v0.21", "GoToSocial", "", "https://docs.gotosocial.org/en/v0.21.0/getting_started/"
)
_STREAMING = Document("Scaling up your server", "Mastodon", "", "https://docs.joinmastodon.org/admin/scaling/")
_DELETION = Document(
    "Pull request 23320", "ClearlyClaire, Mastodon", "2023", "https://github.com/mastodon/mastodon/pull/23320"
)
_NEXTCLOUD = Document(
    "Pull request 2145", "karlitschek, Nextcloud", "2026", "https://github.com/nextcloud/social/pull/2145"
)
_NUAGE = Document("Nuage, README", "Nuage, a fork of Mastodon", "", "https://github.com/nametoolong/nuage")
_REDIS = Document(
    "Redis benchmark",
    "Redis",
    "",
    "https://github.com/redis/redis-doc/blob/1c0d8f401e54d3d9a297b68c55a289cce5575bc3/docs/management/optimization/benchmarks/index.md",
)
_PARTITIONS = Document(
    "Best practices for designing and using partition keys",
    "Amazon DynamoDB",
    "",
    "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html",
)

_RAMA_NODES = "128 nodes, r6gd.large at AWS"
_RAMA_FOLLOWERS = 403

PEERS = (
    PeerFigure(
        "Rama",
        "at most 19,400 posts per second, 403 followers each (read off the chart)",
        _RAMA_NODES,
        _RAMA_SCALING,
        19_400,
        128,
        "node",
        "Durable posts",
    ),
    PeerFigure(
        "Rama",
        "of these, timeline deliveries: 403 each",
        _RAMA_NODES,
        _RAMA_SCALING,
        19_400 * _RAMA_FOLLOWERS,
        128,
        "node",
        "Deliveries in memory",
    ),
    PeerFigure(
        "Rama",
        "3,500 posts per second, 403 followers each, for nine days",
        "a cluster, size not stated",
        _RAMA_RUN,
        3_500 * _RAMA_FOLLOWERS,
        path="Deliveries in memory",
    ),
    PeerFigure(
        "Twitter",
        "300,000 home timelines read per second",
        "the whole fleet",
        _TIMELINES,
        300_000,
        path="Home page, re-rendered",
    ),
    PeerFigure("Twitter", "6,000 writes per second", "the whole fleet", _TIMELINES, 6_000, path="Durable posts"),
    PeerFigure(
        "Twitter",
        "30 billion timeline updates a day",
        "the whole fleet",
        _UPDATES,
        30e9 / _DAY,
        path="Deliveries in memory",
    ),
    PeerFigure(
        "Twitter",
        "5 billion For You timelines a day, each in 1.5 s and with 220 s of processor time",
        "the whole fleet",
        _FOR_YOU,
        5e9 / _DAY,
        path="For You",
    ),
    PeerFigure(
        "FlockDB",
        "20,000 writes of the follow graph per second, and 100,000 reads, at peak",
        "Twitter's cluster",
        _FLOCKDB,
        20_000,
        path="Follows imported",
    ),
    PeerFigure(
        "Tumblr",
        "a million writes to dashboards per second",
        "about 1,000 machines, which do all else too",
        _TUMBLR,
        1_000_000,
        1_000,
        path="Deliveries in memory",
    ),
    PeerFigure(
        "Tumblr",
        "50,000 reads of dashboards per second",
        "about 1,000 machines, which do all else too",
        _TUMBLR,
        50_000,
        1_000,
        path="Home page, re-rendered",
    ),
    PeerFigure(
        "Stream",
        "34 billion feed updates a month",
        "180 servers",
        _STREAM,
        34e9 / _MONTH,
        180,
        "server",
        "Deliveries in memory",
    ),
    PeerFigure(
        "Stream",
        "1,500 requests per second, nine in ten of them reads, in 11 to 15 ms at the median",
        "not stated",
        _STREAM_RUN,
        1_500,
    ),
    PeerFigure(
        "Instagram",
        "23,000 writes to inboxes of news per second",
        "12 nodes of Cassandra at EC2",
        _INSTAGRAM,
        23_000,
        12,
        "node",
        "Deliveries to Redis",
    ),
    PeerFigure(
        "Instagram",
        "16,000 reads of inboxes of news per second",
        "12 nodes of Cassandra at EC2",
        _INSTAGRAM,
        16_000,
        12,
        "node",
        "Home page from Redis",
    ),
    PeerFigure(
        "PinLater",
        "no more than 1,000 jobs per second a shard (advice)",
        "a shard on MySQL",
        _PINLATER,
        1_000,
        1,
        "shard",
        "Jobs through RabbitMQ",
    ),
    PeerFigure("TAO", "a billion reads and millions of writes per second", "thousands of machines", _TAO, 1e9),
    PeerFigure("Facebook", "650,000 comments a minute", "the whole fleet", _COMMENTS, 650_000 / _MINUTE),
    PeerFigure("LinkedIn", "tens of thousands of feed queries per second", "the whole fleet", _LINKEDIN),
    PeerFigure("Bluesky relay", "thousands of messages per second", "about 2 vCPUs, 12 GB", _RELAY),
    PeerFigure("Bluesky PDS", "1 to 20 members", "1 core, 1 GB (advice)", _PDS),
    PeerFigure(
        "Nextcloud",
        "Nextcloud Social: a home page in 49.6 ms among 22,642 posts",
        "one reader in the process, machine not stated",
        _NEXTCLOUD,
        1_000 / 49.6,
        1,
        "reader",
        "Home page, library",
    ),
    PeerFigure(
        "Nuage",
        'a home page over HTTP in 358 ms at the median; 545 ms of the Mastodon next to it ("completely unscientific")',
        "not stated",
        _NUAGE,
    ),
    PeerFigure("GoToSocial", "250 to 350 MB for 1 to 20 active members", "1 core, 1 GB (advice)", _GOTOSOCIAL),
    PeerFigure(
        "Mastodon",
        "800 to 1,200 streaming connections with 50,000 accounts",
        "typical, machines not stated",
        _STREAMING,
    ),
    PeerFigure("Mastodon", "56 to 96 new posts a minute", "mastodon.social", _DELETION),
    PeerFigure("Redis", "403,063 SET and 508,388 GET per second, 16 to a pipeline", "one instance", _REDIS),
    PeerFigure("Redis", "72,145 SET per second without pipelines", "one instance", _REDIS),
    PeerFigure("DynamoDB", "at most 3,000 read and 1,000 write units per second", "a partition", _PARTITIONS),
)


def marks(path: str) -> Iterator[Mark]:
    peers = [figure for figure in PEERS if figure.path == path]
    for figure in sorted(peers, key=PeerFigure.rate_of_one, reverse=True):
        yield Mark(figure.label(), figure.rate_of_one())


def table() -> str:
    lines = ["| | published | on | for each machine | document |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(figure.cells())} |" for figure in PEERS]
    return "\n".join(lines) + "\n"
