"""Discrete-event simulation of a server or a cluster."""
