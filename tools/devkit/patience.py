"""How much longer than usual everything may take: HFLUSH_TEST_PATIENCE, a factor."""

from __future__ import annotations

import os

PATIENCE = float(os.environ.get("HFLUSH_TEST_PATIENCE") or 1)
