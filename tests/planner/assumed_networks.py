"""Random network assumptions for tests of the planner."""

from __future__ import annotations

from hypothesis import strategies as st

from shoal_planner.workload import Assumptions

NETWORKS = st.builds(
    Assumptions,
    members=st.integers(100, 2_000_000_000),
    daily=st.floats(0.01, 1),
    warm=st.floats(0.01, 1),
    posts=st.floats(0.01, 20),
    pages=st.floats(0.1, 100),
    changes=st.floats(0, 50),
    follows=st.floats(1, 2_000),
    exponent=st.floats(1.5, 3.5),
    largest=st.floats(0.001, 1),
    eagerness=st.floats(0, 1.5),
    years=st.floats(0.1, 10),
)
"""Networks of 100 to 2,000,000,000 members."""
