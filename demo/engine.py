"""The Spark session: quiet, patient with failing tasks, its Python workers in this environment."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import journal
import tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_ATTEMPTS = 4
QUIET = Path(__file__).with_name("log4j2.properties").as_uri()


@contextmanager
def session(master: str) -> Iterator[SparkSession]:
    """Start Spark and stop it at the end. Executors need hflush and pyarrow, not this directory."""
    from pyspark.sql import SparkSession

    ship()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers run PATH's python3
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    settings = {
        "spark.app.name": "hflush demo",
        "spark.task.maxFailures": str(TASK_ATTEMPTS),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={QUIET}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
    }
    builder = SparkSession.builder.master(with_retries(master))
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def ship() -> None:
    """Send the demo's own modules along with the functions of its tasks."""
    from pyspark import cloudpickle

    for module in (journal, tasks):
        cloudpickle.register_pickle_by_value(module)


def with_retries(master: str) -> str:
    """Let a local master repeat failed tasks, as clusters do; the setting above is not for it."""
    local = re.fullmatch(r"local(?:\[([^,\]]+)\])?", master)
    return f"local[{local[1] or 1},{TASK_ATTEMPTS}]" if local else master


def failed_tasks(spark: SparkSession, job_group: str) -> int:
    """Return how many task attempts of a job group failed, as Spark's own status store has it."""
    tracker = spark.sparkContext.statusTracker()
    jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(job_group))
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return sum(stage.numFailedTasks for stage in stages if stage)
