"""Names of a package that are imported at their first use."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["needs", "on_demand"]

# What brings a library: an extra of the package, or what the library is a part of.
_BROUGHT_BY = {
    "fsspec": "hflush[fsspec]",
    "numpy": "hflush[numpy]",
    "pandas": "hflush[spark]",
    "pyarrow": "hflush[spark]",
    "pyspark": "hflush[spark]",
    "upath": "universal_pathlib",
}


def on_demand(package: str, places: Mapping[str, str]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package.

    Parameters
    ----------
    package : str
        Its name.
    places : mapping
        Each name, and where it is: ``"module:name"``, or ``"module"`` for the module itself. One
        that needs a library which is missing is AttributeError, as :func:`hasattr` and
        :func:`help` expect.
    """

    def get(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        import importlib

        module, _, attribute = places[name].partition(":")
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as missing:
            if _top(missing.name) == _top(package):
                raise
            said = needs(f"{package}.{name}", missing)
            # `from package import name` would say nothing of an AttributeError.
            caller = sys._getframe().f_back
            if caller is not None and caller.f_code.co_name == "_handle_fromlist":
                raise ModuleNotFoundError(said, name=missing.name) from missing
            raise AttributeError(said) from missing
        value = getattr(found, attribute) if attribute else found
        setattr(sys.modules[package], name, value)  # Python finds it there from now on
        return value

    return get


def needs(what: str, missing: ModuleNotFoundError) -> str:
    """Return which library a part of the package needs, and how to install it."""
    said = f"{what} needs {missing.name!r}"
    brought_by = _BROUGHT_BY.get(_top(missing.name))
    return f"{said}: pip install '{brought_by}'" if brought_by else said


def _top(module: str | None) -> str:
    return (module or "").partition(".")[0]
