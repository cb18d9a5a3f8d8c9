"""Webhooks: commands on endpoints, requests to them, and the worker that delivers the event log."""
