"""The graph in one DynamoDB table."""

from __future__ import annotations

from shoal.graph.dynamodb.store import DynamoGraph

__all__ = ["DynamoGraph"]
