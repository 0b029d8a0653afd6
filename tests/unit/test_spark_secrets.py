"""The file in which secrets of a session travel: one for each content, and its owner's alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import hflush.spark
import pytest
from hflush.spark.foreach import ForeachWriter
from hflush.spark.secrets import hand_out
from hflush.spark.settings import WriteSettings
from pyspark import SparkFiles

SECRETS = {"fs.s3a.secret.key": "sesame"}


class Context:
    """What is asked of a session and its context."""

    def __init__(self, application: str) -> None:
        self.applicationId = application
        self.added: list[Path] = []

    @property
    def sparkContext(self) -> Context:
        return self

    def addFile(self, path: str) -> None:
        self.added.append(Path(path))


@pytest.fixture
def session(request: pytest.FixtureRequest) -> Any:
    return Context(request.node.nodeid)


def test_one_file_for_each_content(session: Any) -> None:
    """Which says nothing in its name, and can be read by its owner only."""
    first, again = hand_out(session, SECRETS), hand_out(session, dict(SECRETS))
    assert first == again != hand_out(session, {"fs.s3a.secret.key": "other"})
    assert [path.name for path in session.added][:1] == [first]
    assert len(session.added) == 2
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in session.added)
    assert hand_out(Context("another"), SECRETS) != first  # type: ignore[arg-type]


def test_a_task_reads_it_where_it_is_used(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the settings of a write nor a ForeachWriter have secrets in them."""
    name = hand_out(session, SECRETS)
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    monkeypatch.setattr(SparkFiles, "_root_directory", os.fspath(session.added[0].parent))
    settings = WriteSettings.of({"path": "s3://b", "secrets": name, "conf": '{"k": "v"}'}, False)
    assert "sesame" not in repr(settings)
    assert settings.conf == {"k": "v", **SECRETS}
    handed = {"conf": '{"k": "v"}', "secrets": name, "logLevel": "info", "other": 1}
    assert "sesame" not in repr(ForeachWriter("s3://b", conf=handed).__getstate__())
    assert hflush.spark.task_conf(handed) == {**settings.conf, "other": 1}
    assert hflush.spark.task_conf({"k": "v"}) == {"k": "v"}
    with pytest.raises(FileNotFoundError, match="of the same application"):
        hflush.spark.task_conf({"secrets": "another"})
