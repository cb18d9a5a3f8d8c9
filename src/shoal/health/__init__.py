"""Probes of the engines: connection, load and capacity."""
