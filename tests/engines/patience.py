"""Long timeouts of engines in this process, so that a busy machine does not break tests."""

from __future__ import annotations

from typing import Any

from shoal.graph.dynamodb import DynamoGraph
from shoal.graph.postgres import PostgresGraph, primary
from shoal.graph.postgres.derived import DerivedStore
from shoal.graph.redis.client import Nodes
from shoal.tagcloud.dynamodb import DynamoCloud
from shoal.timelines.dynamodb import DynamoTimelines

PATIENT_SECONDS = 60.0


def be_patient() -> None:
    """Lengthen the default timeouts of engines. Tests in which an engine does not answer pass timeouts of their own."""
    primary._CONNECT_SECONDS = PATIENT_SECONDS
    kinds: list[Any] = [DynamoCloud, DynamoGraph, DynamoTimelines, DerivedStore, PostgresGraph]
    functions: list[Any] = [Nodes.__init__, *(kind.open.__func__ for kind in kinds)]
    for function in functions:
        defaults = function.__kwdefaults__
        defaults.update(
            dict.fromkeys(defaults.keys() & {"patience", "connect_seconds", "answer_seconds"}, PATIENT_SECONDS)
        )
