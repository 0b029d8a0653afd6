"""Secrets of a Spark session: neither in plans nor in logs, whatever options(spark) hands over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from integration import secret_job
from integration.secret_job import ORDINARY, SECRETS

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_no_secret_is_in_plans_and_logs(tmp_path: Path) -> None:
    """The tasks of a job get user and ordinary keys; its secrets stay in the driver's session.

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
    *plan, told = done.stdout.splitlines()
    conf = json.loads(told)
    assert conf["hflush.hdfs.user"] == "alice"
    assert ORDINARY.items() <= conf.items()
    assert SECRETS.keys().isdisjoint(conf)
    events = "".join(path.read_text() for path in (tmp_path / "events").rglob("events_*"))
    # What is searched has what it is searched for.
    assert "WriteToDataSourceV2" in "\n".join(plan)
    assert "SparkListenerSQLExecutionStart" in events
    assert all(f"spark.hadoop.{key}" in events for key in SECRETS)
    assert "hflush.spark.writer: " in done.stderr
    for secret in SECRETS.values():
        assert secret not in events
        assert secret not in done.stderr
        assert secret not in done.stdout
