"""The options of a write, read and checked on the driver before anything happens."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .. import registry
from ..configuration import parse_size, parse_time, parse_whole
from ..deprecations import RENAMED
from ..spelling import did_you_mean
from .commit import Mode
from .encodings import ENCODINGS
from .logs import LEVELS
from .partitions import check_partitions
from .schemas import check_columns
from .secrets import with_secrets
from .urls import absolute

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark import TaskContext
    from pyspark.sql.types import StructType

    from .encodings import Encoding

__all__ = ["KEY_FAMILIES", "OPTIONS", "WriteSettings", "parse_conf", "task_conf"]

# Every option as it is written, with what it is for: docs/spark.md has the table.
OPTIONS = (
    "path",
    "encoding",
    "compression",
    "partitionBy",
    "maxRecordsPerFile",
    "maxBytesPerFile",
    "durability",
    "partitionOverwriteMode",
    "ifExists",
    "commitId",
    "conf",
    "secrets",
    "header",
    "logLevel",
    "retention",
)
_DURABILITIES = ("close", "hflush", "hsync")
_MAX_ROWS = "spark.sql.files.maxRecordsPerFile"
# How the names of Hadoop's keys begin, and of those of Spark's that its logs go by.
KEY_FAMILIES = ("dfs.", "fs.", "hadoop.", "hflush.", "io.", "ipc.", "spark.sql.streaming.")


@dataclass(frozen=True)
class WriteSettings:
    """What a write was asked for. Travels to the tasks.

    Attributes
    ----------
    url : str
        The destination: as it was given, and absolute from :meth:`on_driver` on.
    encoding : str
        A name of :data:`ENCODINGS`.
    compression : str
        One of its compressions.
    partition_by : tuple of str
        Names of columns.
    directories_by : tuple of str
        The same as the directories of the destination have them, if in another case.
    max_rows, max_bytes : int or None
        Of a file; 0: no limit; None: the session may have one of rows. The bytes are met roughly.
    durability : str
        ``close``, ``hflush`` or ``hsync``.
    mode : Mode
        What happens to the files that are there.
    commit_id : str
        Recognises a run that repeats one; empty: none was given.
    keys : dict
        Hadoop keys, but for the secret ones.
    encoding_options : dict
        What only the encoding hears.
    log_level : str
        A name of :data:`.logs.LEVELS`: what of the tasks and the commit is in Spark's log.
    secrets : str
        The file with secret keys that the session has handed out; empty: there is none.
    asks_session : bool
        Whether no option says if all files go, or those of the written partitions: the session may.
    retention : float or None
        Of a streaming query, in seconds: the log drops the entries of older files.
    """

    url: str
    encoding: str
    compression: str
    partition_by: tuple[str, ...] = ()
    max_rows: int | None = None
    max_bytes: int = 0
    durability: str = "close"
    mode: Mode = Mode.APPEND
    commit_id: str = ""
    keys: dict[str, str] = field(default_factory=dict)
    encoding_options: dict[str, str] = field(default_factory=dict)
    log_level: str = "warn"
    secrets: str = ""
    asks_session: bool = False
    retention: float | None = None
    directories_by: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, str], overwrite: bool) -> WriteSettings:
        """Read the options that Spark passes, with names in lower case.

        Raises
        ------
        ValueError
            An option is missing, unknown or malformed; the message names it.
        """
        given = {name.lower(): value for name, value in options.items() if "." not in name}
        if "retention" in given:
            raise ValueError("option 'retention' is for streaming queries: leave it out")
        conf = parse_conf(given.get("conf", "{}"))
        conf |= _keys({name: options[name] for name in options if "." in name})
        known = {name.lower(): name for name in OPTIONS}
        for name in given:
            if name not in known:
                hint = did_you_mean(name, known)
                raise ValueError(f"unknown option {name!r}{hint}; there are {', '.join(OPTIONS)}")
        url = given.get("path", "")
        if not url.strip():
            raise ValueError("option 'path' is missing: say where to write, save('hdfs://…/table')")
        encoding = ENCODINGS[_one_of("encoding", given.get("encoding", "parquet"), ENCODINGS)]
        own = _own(encoding, given)
        if "header" in given and "header" not in own:
            raise ValueError(f"option 'header' is not for the encoding {encoding.name}")
        partition_by = _names(given["partitionby"]) if "partitionby" in given else ()
        if "commitid" in given and not given["commitid"].strip():
            raise ValueError(
                "option 'commitId' is empty: without a name a repeated run would write again; "
                "give one, or leave the option out"
            )
        return cls(
            url,
            encoding.name,
            _compression(given.get("compression"), encoding),
            partition_by,
            _limit("maxRecordsPerFile", given) if "maxrecordsperfile" in given else None,
            _limit("maxBytesPerFile", given),
            _one_of("durability", given.get("durability", "close"), _DURABILITIES),
            _mode(given, overwrite, partition_by),
            given.get("commitid", ""),
            conf,
            own,
            _one_of("logLevel", given.get("loglevel", "warn"), LEVELS),
            given.get("secrets", ""),
            overwrite and bool(partition_by) and "partitionoverwritemode" not in given,
        )

    @classmethod
    def of_stream(cls, options: Mapping[str, str]) -> WriteSettings:
        """Read the options of a streaming query.

        Raises
        ------
        ValueError
            As :meth:`of`; or an option of jobs only.
        """
        given = {name.lower(): value for name, value in options.items()}
        for name in ("ifExists", "partitionOverwriteMode", "commitId"):
            if name.lower() in given:
                raise ValueError(f"option {name!r} is not for streaming queries")
        for name in ("checkpointlocation", "queryname"):  # Spark's own
            given.pop(name, None)
        retention = _retention(given.pop("retention", None))
        return replace(cls.of(given, overwrite=False), retention=retention)

    def on_driver(self, schema: StructType) -> WriteSettings:
        """Return what the tasks are to have: columns as the schema spells them, an absolute URL.

        Raises
        ------
        ValueError, TypeError
            The columns cannot be written so; the message names one.
        OSError
            There is no file system for the destination.
        """
        columns = check_columns(schema, self.partition_by)
        check_partitions(schema, columns)
        data = [field for field in schema.fields if field.name not in columns]
        self.format.check(type(schema)(data))
        return replace(self, partition_by=columns, url=absolute(self.url, self.conf))

    def in_task(self, context: TaskContext) -> WriteSettings:
        """Return the same with what the session of a task has set, of which only the task hears."""
        if self.max_rows is not None:
            return self
        rows = parse_whole(context.getLocalProperty(_MAX_ROWS) or "0")
        return replace(self, max_rows=max(rows, 0))

    @property
    def conf(self) -> dict[str, str]:
        """All Hadoop keys. Only the process that uses them has the secret ones, in its memory."""
        return with_secrets(self.keys, self.secrets)

    @property
    def format(self) -> Encoding:
        """The encoding itself."""
        return ENCODINGS[self.encoding]


def _one_of(option: str, value: str, known: Mapping[str, object] | tuple[str, ...]) -> str:
    lowered = value.strip().lower()
    if lowered not in known:
        raise ValueError(f"option {option!r} is {value!r}; it can be {', '.join(known)}")
    return lowered


def _own(encoding: Encoding, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options that only the encoding hears, once each can be read."""
    own = {name: given[name] for name in encoding.options if name in given}
    for name, text in own.items():
        try:
            encoding.options[name](text)
        except ValueError as odd:  # noqa: PERF203 -- the first one is enough
            raise ValueError(f"option {name!r}: {odd}") from None
    return own


def _compression(value: str | None, encoding: Encoding) -> str:
    if value is None:
        return next(iter(encoding.compressions))
    lowered = value.strip().lower()
    return _one_of(
        f"compression of {encoding.name}",
        "none" if lowered == "uncompressed" else lowered,
        dict(encoding.compressions),
    )


def parse_conf(text: str) -> dict[str, str]:
    """Return the keys of the option that :func:`hflush.spark.options` makes; ValueError if odd."""
    try:
        conf = json.loads(text)
    except ValueError as odd:
        raise ValueError(f"option 'conf' is not what hflush.spark.options makes: {odd}") from None
    if not isinstance(conf, dict) or not all(isinstance(value, str) for value in conf.values()):
        raise ValueError("option 'conf' is not what hflush.spark.options makes: a JSON object")
    return conf


def task_conf(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Hadoop keys that :func:`hflush.spark.options` has made, the secret ones, too.

    Parameters
    ----------
    options : mapping
        What it returned; other keys in it are taken as they are.

    Returns
    -------
    dict
        For `conf` of anything in hflush. It may have secrets: call this where it is used, in a
        task, and do not return it from there.

    Raises
    ------
    ValueError
        ``conf`` is not what :func:`hflush.spark.options` makes.
    FileNotFoundError
        Another application has made it.

    Notes
    -----
    Source: docs/spark.md.

    Examples
    --------
    >>> handed = hflush.spark.options(spark)  # doctest: +SKIP
    >>> def write(rows):  # doctest: +SKIP
    ...     with hflush.create(url, conf=hflush.spark.task_conf(handed)) as out:
    ...         out.writelines(rows)
    """
    own = ("conf", "logLevel", "secrets")
    others = {name: value for name, value in options.items() if name not in own}
    keys = parse_conf(options.get("conf", "{}")) | others
    return with_secrets(keys, options.get("secrets", ""))


def _names(text: str) -> tuple[str, ...]:
    """Return the columns of a list with commas, or of a JSON array for names that have some."""
    stripped = text.strip()
    names = [name.strip() for name in stripped.split(",") if name.strip()]
    if stripped.startswith("["):
        try:
            names = json.loads(stripped)
        except ValueError as odd:
            raise ValueError(f"option 'partitionBy' is no JSON array of names: {odd}") from None
        if not all(isinstance(name, str) for name in names):
            raise ValueError(f"option 'partitionBy' has more than names: {stripped}")
    if not names:
        raise ValueError("option 'partitionBy' names no column: name one, or leave the option out")
    return tuple(names)


def _limit(option: str, given: Mapping[str, str]) -> int:
    text = given.get(option.lower())
    if text is None:
        return 0
    try:
        number = parse_size(text) if "Bytes" in option else parse_whole(text)
    except ValueError as odd:
        raise ValueError(f"option {option!r}: {odd}") from None
    if number < 0:
        raise ValueError(f"option {option!r} is {number}; it must not be negative (0: no limit)")
    return number


def _retention(text: str | None) -> float | None:
    """Return seconds; a number without a unit has milliseconds, as Spark reads it."""
    if text is None:
        return None
    try:
        seconds = parse_time(text)
    except ValueError as odd:
        raise ValueError(f"option 'retention': {odd}") from None
    if seconds <= 0:
        raise ValueError(
            f"option 'retention' is {text!r}: it must be more than 0, or the rows of a batch could "
            "be dropped when they come; leave it out to keep all"
        )
    return seconds


def _mode(given: Mapping[str, str], overwrite: bool, partition_by: tuple[str, ...]) -> Mode:
    exists = _one_of("ifExists", given.get("ifexists", "append"), ("append", "error", "ignore"))
    partitions = _one_of(
        "partitionOverwriteMode", given.get("partitionoverwritemode", "static"), _OVERWRITES
    )
    if overwrite:
        if "ifexists" in given:
            raise ValueError("option 'ifExists' contradicts mode('overwrite'): use mode('append')")
        if partitions == "dynamic" and not partition_by:
            raise ValueError(
                "option 'partitionOverwriteMode' is dynamic, and option 'partitionBy' is missing: "
                "without a column all files would be replaced"
            )
        return _OVERWRITES[partitions]
    if "partitionoverwritemode" in given:
        raise ValueError("option 'partitionOverwriteMode' needs mode('overwrite')")
    return {"append": Mode.APPEND, "error": Mode.CREATE, "ignore": Mode.IGNORE}[exists]


_OVERWRITES = {"static": Mode.OVERWRITE, "dynamic": Mode.OVERWRITE_PARTITIONS}


def _keys(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that are keys, as keys are written: Spark passes them in lower case.

    Raises
    ------
    ValueError
        One is none, such as ``parquet.encryption.footer.key``: it would change nothing.
    """
    exact = {key.lower(): key for key in (*registry.known_keys(), *RENAMED)}
    for name in options:
        if name.lower() not in exact and not name.lower().startswith(KEY_FAMILIES):
            raise ValueError(
                f"unknown option {name!r}: with a dot in its name it would be a key of Hadoop's or "
                f"hflush's, which begin with {', '.join(KEY_FAMILIES)}"
            )
    named = [
        value
        for name, value in options.items()
        if name.lower().startswith(("dfs.nameservices", "dfs.ha.namenodes."))
    ]
    # Of nameservices and NameNodes, which are parts of keys.
    own = {name.lower(): name for name in ",".join(named).replace(" ", "").split(",")}

    def spelt(name: str) -> str:
        first, second, *others = name.split(".")
        return ".".join([first, second, *(own.get(other.lower(), other) for other in others)])

    return {exact.get(name.lower()) or spelt(name): value for name, value in options.items()}
