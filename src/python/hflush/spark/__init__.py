"""Spark writes through hflush: ``df.write.format("hflush")``.

docs/spark.md is the guide. Spark finds the format by itself, through the module ``pyspark_hflush``;
:func:`register` does it for a session that looks for no modules, and makes it known to the calling
thread. What is committed how is in :mod:`hflush.spark.commit`, which needs no Spark.

pyspark and pyarrow are loaded with the first use of a name.
"""

from __future__ import annotations

from .._on_demand import on_demand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .commit import Record, Report, TaskReport
    from .foreach import ForeachWriter
    from .reading import files
    from .session import hadoop_conf, options, register
    from .settings import task_conf
    from .source import HflushDataSource
    from .stream import ForeignQueryError
    from .watching import Progress, last_commit, progress

__all__ = [
    "ForeachWriter",
    "ForeignQueryError",
    "HflushDataSource",
    "Progress",
    "Record",
    "Report",
    "TaskReport",
    "files",
    "hadoop_conf",
    "last_commit",
    "options",
    "progress",
    "register",
    "task_conf",
]

if not TYPE_CHECKING:
    __getattr__ = on_demand(
        __name__,
        {
            "ForeachWriter": "hflush.spark.foreach:ForeachWriter",
            "ForeignQueryError": "hflush.spark.stream:ForeignQueryError",
            "HflushDataSource": "hflush.spark.source:HflushDataSource",
            "Progress": "hflush.spark.watching:Progress",
            "Record": "hflush.spark.commit:Record",
            "Report": "hflush.spark.commit:Report",
            "TaskReport": "hflush.spark.commit:TaskReport",
            "files": "hflush.spark.reading:files",
            "hadoop_conf": "hflush.spark.session:hadoop_conf",
            "last_commit": "hflush.spark.watching:last_commit",
            "options": "hflush.spark.session:options",
            "progress": "hflush.spark.watching:progress",
            "register": "hflush.spark.session:register",
            "task_conf": "hflush.spark.settings:task_conf",
        },
    )


def __dir__() -> list[str]:
    return __all__
