"""Expecting the failures that were injected."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager

import pytest


def os_error(error: int) -> AbstractContextManager[pytest.ExceptionInfo[OSError]]:
    """Expect an OSError with this errno, and no other."""
    return pytest.raises(OSError, match=re.escape(f"[Errno {error}] "))


def any_os_error() -> AbstractContextManager[pytest.ExceptionInfo[OSError]]:
    """Expect an OSError that has an errno."""
    return pytest.raises(OSError, match=r"\[Errno \d+\] ")
