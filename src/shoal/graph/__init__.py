"""Objects, associations and keys, and the outbox that commits with them."""
