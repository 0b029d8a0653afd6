"""The umask: which permissions new files and directories get."""

from __future__ import annotations

import os

__all__ = ["parse_umask", "process_umask"]

KEY = "fs.permissions.umask-mode"


def process_umask() -> int:
    """Return the umask of the process, without changing it for a moment as os.umask() does."""
    try:
        with open("/proc/self/status", "rb", 0) as status:
            for line in status.read(512).splitlines():
                if line.startswith(b"Umask:"):
                    return int(line[6:], 8)
    except OSError:
        pass
    umask = os.umask(0o022)
    os.umask(umask)
    return umask


def parse_umask(text: str) -> int:
    """Return the umask that ``fs.permissions.umask-mode`` means: ``022``, ``u=rwx,g=rx,o=``.

    Who is not among the symbols is allowed nothing, as in Hadoop; ``+`` is ``=``.

    Raises
    ------
    ValueError
        Neither octal nor a list of what stays allowed.
    """
    stripped = text.strip()
    try:
        umask = int(stripped, 8)
    except ValueError:
        return _symbolic_umask(stripped)
    if not 0 <= umask <= 0o777:
        raise ValueError(f"{KEY} must be within 0 and 777 (octal), not {text!r}")
    return umask


def _symbolic_umask(text: str) -> int:
    bits = {"r": 4, "w": 2, "x": 1}
    shifts = {"u": 6, "g": 3, "o": 0}
    allowed = dict.fromkeys(shifts, 0)
    for clause in text.replace("+", "=").split(","):
        who, equals, letters = clause.strip().partition("=")
        if not equals or not set(who) <= set("ugoa") or not set(letters) <= bits.keys():
            raise ValueError(f"{KEY} must be like 022 or u=rwx,g=rx,o=, not {text!r}")
        for one in "ugo" if "a" in who or not who else who:
            allowed[one] = sum(bits[letter] for letter in set(letters))
    return sum((7 & ~allowed[who]) << shift for who, shift in shifts.items())
