"""The outbox carried by a message broker to workers on other machines."""
