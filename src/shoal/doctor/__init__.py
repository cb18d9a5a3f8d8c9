"""`shoal doctor`: looks at everything that a server needs, side by side, and changes none of it.

Each part returns findings: a line each, good or not, with what to do. No wait for another machine is longer than `SECONDS`.
"""

from __future__ import annotations

from shoal.doctor.doctor import examine
from shoal.doctor.findings import Diagnosis

__all__ = ["Diagnosis", "examine"]
