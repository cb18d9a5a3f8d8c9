"""Long timeouts of engines and of the ranking in this process, so that a busy machine does not break tests."""

from __future__ import annotations

from typing import Any

from shoal import amqp
from shoal.admin import moderation_rules
from shoal.graph.dynamodb import DynamoGraph
from shoal.graph.postgres import PostgresGraph, connections, primary
from shoal.graph.postgres.derived import DerivedStore
from shoal.graph.postgres.owner import Owner
from shoal.graph.redis.client import Nodes
from shoal.graph.sharding import live_map
from shoal.queries.foryou import feed
from shoal.tagcloud.dynamodb import DynamoCloud
from shoal.timelines.dynamodb import DynamoTimelines

PATIENT_SECONDS = 60.0
_NAMES = {"patience", "connect_seconds", "answer_seconds", "deadline"}


def be_patient() -> None:
    """Lengthen the default timeouts. Tests in which an engine does not answer, or a ranking is late, pass timeouts of their own."""
    primary._CONNECT_SECONDS = amqp._CONNECT_SECONDS = PATIENT_SECONDS
    moderation_rules._PATIENCE_SECONDS = live_map._PATIENCE_SECONDS = PATIENT_SECONDS
    kinds: list[Any] = [DynamoCloud, DynamoGraph, DynamoTimelines, DerivedStore, PostgresGraph]
    functions: list[Any] = [Nodes.__init__, Owner.__init__, *(kind.open.__func__ for kind in kinds)]
    functions += [feed.page, feed.new_reading, feed.list_page]
    for function in functions:
        function.__kwdefaults__.update(dict.fromkeys(function.__kwdefaults__.keys() & _NAMES, PATIENT_SECONDS))
    # Their last parameter with a default that is not for keywords only is the timeout.
    others: list[Any] = [connections.connect, connections.ConnectionPool.__init__]
    for function in others:
        function.__defaults__ = (*function.__defaults__[:-1], PATIENT_SECONDS)
