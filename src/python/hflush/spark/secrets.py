"""The secrets of a session on their way to the tasks: in a file that Spark hands out.

What is in an option becomes part of plans, events and Spark's UI. So the option has the name of a
file only, and ``SparkContext.addFile`` brings its content to each machine, as Spark itself brings
delegation tokens to its executors: over the connections of the session.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import threading
import uuid
from typing import TYPE_CHECKING, Any

from ..filesystem import call_first_at_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["TOKENS", "hand_out", "tokens_of", "with_secrets"]

# Hadoop's key for delegation tokens that are given by value.
TOKENS = "hadoop.tokens"
_KIND = "HDFS_DELEGATION_TOKEN"

_lock = threading.Lock()
# The name of the file with a content, by application. The file stays as long as this process, from
# which executors that start later fetch it.
_handed_out: dict[tuple[str, str], str] = {}
_directories: list[tuple[str, int]] = []  # and the process that has made each


def tokens_of(jvm: Any) -> str:
    """Return the tokens of HDFS that the driver has, by commas; from a file, or got by Spark."""
    user = jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser()
    tokens = user.getCredentials().getAllTokens().toArray()
    spelled = (token.encodeToUrlString() for token in tokens if str(token.getKind()) == _KIND)
    return ",".join(sorted(spelled))


def hand_out(spark: SparkSession, secrets: dict[str, str]) -> str:
    """Give each machine of an application a file of secret keys; return its name."""
    context = spark.sparkContext
    content = json.dumps(secrets, sort_keys=True).encode("ascii")
    place = str(context.applicationId), hashlib.sha256(content).hexdigest()
    with _lock:
        if place not in _handed_out:
            directory = tempfile.mkdtemp(prefix="hflush-")
            _directories.append((directory, os.getpid()))
            call_first_at_end(_remove_all)
            name = f"hflush-{uuid.uuid4().hex}"
            path = os.path.join(directory, name)  # noqa: PTH118
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
            context.addFile(path)
            _handed_out[place] = name
        return _handed_out[place]


def _remove_all() -> None:
    """Remove the directories of this process at its end; a forked child leaves its parent's."""
    for directory, process in _directories:
        if os.getpid() == process:
            shutil.rmtree(directory, ignore_errors=True)


def with_secrets(conf: dict[str, str], name: str) -> dict[str, str]:
    """Return keys together with those of a file that was handed out, if one is named.

    Raises
    ------
    FileNotFoundError
        Another application has handed it out.
    """
    if not name:
        return conf
    from pyspark import SparkFiles

    try:
        with open(SparkFiles.get(name), encoding="ascii") as file:
            secrets: dict[str, str] = json.load(file)
    except FileNotFoundError as missing:
        missing.strerror = (
            "option 'secrets': no such file on this machine; what hflush.spark.options(spark) "
            "returns is for writes of the same application"
        )
        raise
    return secrets | conf
