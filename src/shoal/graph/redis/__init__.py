"""State on Redis that several processes share: the client, and the version tokens of their caches."""
