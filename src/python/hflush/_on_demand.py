"""Names of a package that are imported at their first use."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["on_demand"]


def on_demand(package: str, places: Mapping[str, str]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package.

    Parameters
    ----------
    package : str
        Its name.
    places : mapping
        Each name, and where it is: ``"module:name"``, or ``"module"`` for the module itself.
    """

    def get(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        import importlib

        module, _, attribute = places[name].partition(":")
        found = importlib.import_module(module)
        value = getattr(found, attribute) if attribute else found
        setattr(sys.modules[package], name, value)  # Python finds it there from now on
        return value

    return get
