"""Why the native part cannot be loaded, and what to do: imported only if that happens."""

from __future__ import annotations

import os
import re
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["advice"]

_NO_FILE = re.compile(r"([\w+.-]+\.so[\w.]*): cannot open shared object file")
_PACKAGES = {"libstdc++.so.6": "libstdc++6 (libstdc++)", "libgcc_s.so.1": "libgcc-s1 (libgcc)"}


def advice(missing: ImportError, directories: Iterable[str]) -> str:
    """Return what to tell a program that imported hflush from `directories`."""
    said = f"the native part of hflush, hflush._core, cannot be loaded: {missing}"
    places = [Path(directory) for directory in directories]
    archive = next((found for place in places if (found := _archive(place))), None)
    if archive is not None:
        return (
            "hflush has native code, which Python cannot import from an archive, as it is in "
            f"{archive}. Install it where the program runs (pip install), or send a whole "
            "environment: in Spark --archives with venv-pack or conda-pack, not --py-files and "
            "sc.addPyFile"
        )
    if "subinterpreter" in str(missing):
        return f"{said}. It works in the main interpreter alone: use threads or processes"
    built = sorted(file.name for place in places for file in place.glob("_core.*so"))
    usable = {f"_core{suffix}" for suffix in EXTENSION_SUFFIXES}
    if not built:
        roots = [root for place in places for root in place.parents[2:3]]
        if any((root / "tools" / "devkit").is_dir() for root in roots):
            return f"{said}. It is not built: run ./dev build"
        return f"{said}. It is not built: pip install hflush or, with a compiler, pip install ."
    if usable.isdisjoint(built):
        return (
            f"{said}. It is built for another Python ({', '.join(built)}) than this one, "
            f"{sys.implementation.cache_tag} on {sys.platform}: install it for this one"
        )
    library = _NO_FILE.search(str(missing))
    if library is not None:
        package = _PACKAGES.get(library[1], f"that has {library[1]}")
        return f"{said}. Install the system's package {package}"
    return f"{said}. Install it again (pip install --force-reinstall), for this system"


def _archive(place: Path) -> str | None:
    """Return the archive on sys.path that a directory lies in, None if it lies in none."""
    for above in (place, *place.parents):
        if above.exists():
            return os.fspath(above) if above.is_file() else None
    return None
