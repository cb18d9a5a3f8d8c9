"""Benchmarks of Shoal: each module measures one figure of docs/performance.md, beside the raw engine."""
