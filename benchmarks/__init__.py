"""Benchmarks of Shoal: each module measures one table of docs/figures.md, next to a bare engine."""
