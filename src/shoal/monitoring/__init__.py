"""Prometheus endpoint and the checks of `shoal doctor`."""
