"""Expecting the failures that were injected."""

from __future__ import annotations

import pytest


def os_error(error: int) -> pytest.RaisesExc[OSError]:
    """Expect an OSError with this errno, and no other."""
    return pytest.raises(OSError, match=rf"^\[Errno {error}\] ")
