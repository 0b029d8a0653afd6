"""What a program does with its session."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..checkpoint.keys import MANAGER_CLASS
from ..configuration import Configuration
from .properties import Property, parse
from .secrets import TOKENS, hand_out, tokens_of
from .settings import KEY_FAMILIES
from .source import HflushDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["hadoop_conf", "options", "register"]

_USER = "hflush.hdfs.user"


def options(spark: SparkSession, *, secrets: bool = True) -> dict[str, str]:
    """Return the options that give the tasks of a write the driver's Hadoop configuration and user.

    Parameters
    ----------
    spark : SparkSession
        The session that writes.
    secrets : bool
        The keys of stores in the session's configuration, and the driver's delegation tokens of
        HDFS, go to the tasks, too: in a file that Spark brings to each machine.

    Returns
    -------
    dict
        For ``DataFrameWriter.options`` and ``DataStreamWriter.options``, or `conf` of
        :class:`hflush.spark.ForeachWriter`. ``conf`` has what :func:`hadoop_conf` returns,
        ``logLevel`` is that of Log4j's logger ``hflush``, ``secrets`` is the name of the file, if
        there is anything secret. They are for this application.

    Raises
    ------
    TypeError
        As :func:`hadoop_conf`.

    Notes
    -----
    Source: docs/spark.md. Without it a task reads the site files of its own machine. A thread that
    has no active session, where Spark would find no Python data source, gets this one.

    Examples
    --------
    >>> df.write.format("hflush").options(**options(spark)).save(url)  # doctest: +SKIP
    """
    ordinary, secret = _conf_of(spark)
    activate(spark)
    found = {
        "conf": json.dumps(ordinary, sort_keys=True),
        "logLevel": _log_level(spark._jvm),
    }
    if secrets and (whole := _with_tokens(spark, secret)):
        found["secrets"] = hand_out(spark, whole)
    return found


def hadoop_conf(spark: SparkSession) -> dict[str, str]:
    """Return the driver's Hadoop configuration and user, for `conf` of anything in hflush.

    Parameters
    ----------
    spark : SparkSession
        What ``spark.hadoop.*`` and its site files set, and the keys ``spark.sql.streaming.*``, but
        for the class of checkpoint managers, which is one of the JVM and for the checkpoint only.

    Returns
    -------
    dict
        Without secrets, as it becomes a part of plans and pickles; :func:`options` has a way for
        these.

    Raises
    ------
    TypeError
        It is a session of Spark Connect, which has no configuration of Hadoop's: that of its server
        holds there.

    Notes
    -----
    Source: docs/spark.md.

    Examples
    --------
    >>> conf = hadoop_conf(spark)  # doctest: +SKIP
    >>> writer = ForeachWriter(url, conf=conf)  # doctest: +SKIP
    """
    return _conf_of(spark)[0]


def driver_conf(spark: SparkSession) -> dict[str, str]:
    """Return all that :func:`options` hands to the tasks, for use in the memory of the driver."""
    ordinary, secret = _conf_of(spark)
    return ordinary | _with_tokens(spark, secret)


def _with_tokens(spark: SparkSession, secret: dict[str, str]) -> dict[str, str]:
    """Return secret keys, and the tokens that the driver has."""
    tokens = tokens_of(spark._jvm)
    return {**secret, TOKENS: tokens} if tokens else secret


def _conf_of(spark: SparkSession) -> tuple[dict[str, str], dict[str, str]]:
    """Return the keys that may be seen, and those that are secret."""
    session: Any = getattr(spark, "_jsparkSession", None)
    if session is None:
        raise TypeError(
            "a session of Spark Connect has no Hadoop configuration: that of its server holds; "
            "give other keys as options of the write"
        )
    jvm: Any = spark._jvm
    written = jvm.java.io.ByteArrayOutputStream()
    session.sessionState().newHadoopConf().write(jvm.java.io.DataOutputStream(written))
    conf, names = _handed_on(parse(written.toByteArray()))
    hidden = conf.secret_keys()
    ordinary = {name: conf[name] for name in names if name not in hidden}
    user = jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser()
    ordinary.setdefault(_USER, user.getShortUserName())
    return ordinary, {name: conf[name] for name in names if name in hidden}


def _log_level(jvm: Any) -> str:
    level = str(jvm.org.apache.logging.log4j.LogManager.getLogger("hflush").getLevel()).lower()
    return {"all": "debug", "trace": "debug", "fatal": "error"}.get(level, level)


def _handed_on(properties: list[Property]) -> tuple[Configuration, list[str]]:
    """Return Hadoop's configuration, and its names that something else than defaults has set."""
    conf = Configuration(load_defaults=False)
    # The defaults first: a program may have set a key under an old name.
    for name, value, _ in sorted(properties, key=lambda found: not found.is_default):
        if name.strip():
            conf[name] = value
    return conf, [
        found.name
        for found in properties
        if found.name.startswith(KEY_FAMILIES)
        and found.name != MANAGER_CLASS
        and not found.is_default
    ]


def register(spark: SparkSession) -> None:
    """Make the format ``hflush`` known to a session, and to the calling thread.

    Only needed where another module ``pyspark_*`` cannot be imported, which stops Spark's own
    search; and in threads other than the one that began the session, if neither :func:`options`
    nor :func:`progress` is called there. Call it in the thread that writes.

    Parameters
    ----------
    spark : SparkSession
        The session whose DataFrames are written.
    """
    spark.dataSource.register(HflushDataSource)
    if getattr(spark, "_jsparkSession", None) is not None:  # the server of Connect has the threads
        activate(spark)


def activate(spark: SparkSession) -> None:
    """Let Spark find Python data sources in the calling thread: it asks the thread's session."""
    jvm: Any = spark._jvm
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    if not sessions.getActiveSession().isDefined():
        sessions.setActiveSession(spark._jsparkSession)
