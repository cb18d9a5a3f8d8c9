"""What Shoal is fast at, and how fast: each module measures one figure of docs/performance.md, beside the raw engine."""
