"""Secrets of a Spark session: neither in plans nor in logs, whatever options(spark) hands over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from integration import secret_job
from integration.secret_job import ORDINARY, SECRETS, TOKEN

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_no_secret_is_in_plans_and_logs(tmp_path: Path) -> None:
    """The tasks of a job get user, keys, secrets and tokens of the driver.

    A query's plan, the events that Spark's UI shows and Spark's log are searched.
    """
    environment = {
        "HADOOP_USER_NAME": "alice",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, secret_job.__file__, str(tmp_path)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    conf = json.loads((tmp_path / "telling.told").read_text())
    assert conf["hflush.hdfs.user"] == "alice"
    assert (ORDINARY | SECRETS | {"hadoop.tokens": TOKEN}).items() <= conf.items()
    events = "".join(path.read_text() for path in (tmp_path / "events").rglob("events_*"))
    # What is searched has what it is searched for.
    assert "WriteToDataSourceV2" in done.stdout
    assert "SparkListenerSQLExecutionStart" in events
    assert all(f"spark.hadoop.{key}" in events for key in SECRETS)
    assert "hflush.spark.writer: " in done.stderr
    for secret in (*SECRETS.values(), TOKEN):
        assert secret not in events
        assert secret not in done.stderr
        assert secret not in done.stdout
