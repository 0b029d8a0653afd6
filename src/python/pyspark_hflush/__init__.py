"""Where Spark finds the data source ``hflush``: it imports every module named ``pyspark_*``.

One that cannot be imported hides all others: this one can, even where hflush cannot.
"""

from __future__ import annotations

__all__ = ["DefaultSource"]

try:
    from hflush.spark.source import HflushDataSource as DefaultSource
except ImportError as _missing:
    import warnings

    __all__.clear()
    warnings.warn(f"no data source hflush: {_missing}", RuntimeWarning, stacklevel=2)
