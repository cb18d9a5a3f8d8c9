"""The modules of a server, with cheap password hashes and without the names of towns, for `fork_template.py`."""

from __future__ import annotations

from shoal import gazetteer
from shoal.cli import serve
from shoal.graph import dynamodb, postgres, redis
from shoal.outbox import rabbitmq
from tests.cheap_hashes import make_hashes_cheap
from tests.cheap_starts import make_starts_cheap

__all__ = ["dynamodb", "postgres", "rabbitmq", "redis", "serve"]

make_hashes_cheap()
make_starts_cheap()
# Do not read the names of places, because that takes as long as starting the server.
vars(gazetteer)["installed"] = lambda: None
