"""Client for Redis and Redis Cluster, and the version tokens of caches that processes share."""
