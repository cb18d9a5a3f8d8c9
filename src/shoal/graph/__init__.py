"""The graph store (objects, associations, keys) and the outbox that commits with it."""
