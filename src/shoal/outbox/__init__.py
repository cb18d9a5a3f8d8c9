"""Delivery of events: claim, run, acknowledge, retry and park; in process or through RabbitMQ."""
