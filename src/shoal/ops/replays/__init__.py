"""Replays: what another recipe would change in the ranked feed."""
