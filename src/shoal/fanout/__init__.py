"""What follows from an event: idempotent and commutative consequences."""
