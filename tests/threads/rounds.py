"""How often thread tests repeat themselves: HFLUSH_THREAD_ROUNDS is a percentage, 100 by default.

Instrumented builds run the same tests with fewer rounds.
"""

from __future__ import annotations

import os


def rounds(full: int) -> int:
    """So many rounds, scaled; at least one."""
    percentage = float(os.environ.get("HFLUSH_THREAD_ROUNDS", "100"))
    return max(1, round(full * percentage / 100))
