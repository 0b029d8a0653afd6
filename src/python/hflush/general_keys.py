"""The configuration keys of every store: docs/keys.md shows the table."""

from __future__ import annotations

from .configuration import DEFAULTS, MORE_FILES, Configuration
from .keys import BOOL, Key, choice, names, number, number_of, size, text, time

__all__ = ["KEYS", "LEFT_OUT", "PICKLE_SECRETS", "S3_PICKLE_SECRETS", "pickles_secrets"]

PICKLE_SECRETS = "hflush.pickle.secrets"
# Its older name, among the keys of S3, where it may be that of one bucket: it means every store.
S3_PICKLE_SECRETS = "hflush.s3.pickle.secrets"
LEFT_OUT = "hflush.pickle.left-out"


def pickles_secrets(conf: Configuration) -> bool:
    """Whether a configuration has what is sent take its secrets along, by either name."""
    return any(map(conf.get_bool, (PICKLE_SECRETS, S3_PICKLE_SECRETS)))


_ALL = "All stores"
_CHECKPOINTS = "Checkpoints"
_SPARK = "spark.sql.streaming"


def _of_file_log(which: str, what: str) -> tuple[Key, ...]:
    """Return the keys of one of Spark's two kinds of file logs."""
    return (
        Key(_CHECKPOINTS, f"{_SPARK}.{which}.log.deletion", BOOL,
            f"{what}: remove files that a compact file has replaced", default="true"),
        Key(_CHECKPOINTS, f"{_SPARK}.{which}.log.compactInterval", number(1),
            f"{what}: the compact interval, in batches, of a log without compact files",
            default="10"),
        Key(_CHECKPOINTS, f"{_SPARK}.{which}.log.cleanupDelay", time(),
            f"{what}: the age from which they are removed", default="10m"),
    )  # fmt: skip


KEYS = (
    Key(_ALL, "fs.defaultFS", text("URL"),
        "the file system of a path without a scheme, and the host of a URL without one",
        default=DEFAULTS["fs.defaultFS"]),
    Key(_ALL, MORE_FILES, names("files"),
        "files of the form of core-site.xml that are read after Hadoop's own, by commas: paths "
        "and `file:` URIs, absolute or in the directory of those"),
    Key(_ALL, "fs.permissions.umask-mode", text("octal or symbolic"),
        "permissions that new files and directories do not get; unless set: 022 on HDFS, the umask "
        "of the process on local files"),
    Key(_ALL, "io.file.buffer.size", size(0),
        "bytes that an input stream reads at a time; unless set: as suits the store"),
    Key(_ALL, "dfs.support.append", BOOL, "false: append is refused", default="true"),
    Key(_ALL, "fs.trash.interval", number_of("minutes"),
        "how long the trash keeps a file, unless the NameNode says so; 0: no trash",
        default="0"),
    Key(_ALL, "hflush.close.on-exception", choice("abort", "publish"),
        "what `close()` does to the file where an exception brings it about, by a wrapper or "
        "`finally`; the stream's own `with` block aborts in any case", default="abort"),
    Key(_ALL, "hflush.atomic.sweep-after", time("s"),
        "the age from which temporary files of killed writers are removed, on HDFS",
        default="1h"),
    Key(_ALL, "hflush.syncable.downgrade", BOOL,
        "true: hflush and hsync that are not supported only flush, instead of raising",
        default="false"),
    Key(_ALL, PICKLE_SECRETS, BOOL,
        "a file system that is sent to another process takes its secrets along, so that it works "
        "there: keys that are secret, tokens of HDFS, credentials of S3. For people that may read "
        "what they send",
        default="false"),
    Key(_ALL, LEFT_OUT, text("names"),
        "set by hflush: keys that a file system has lost on its way, as they are secret; what "
        "needs one is refused"),
    Key(_CHECKPOINTS, "hflush.checkpoint.sync", BOOL,
        "a checkpoint is on disk before its rename, and the rename before close returns",
        default="true"),
    Key(_CHECKPOINTS, "hflush.checkpoint.verify-rename", BOOL,
        "check after the rename that the file exists", default="false"),
    Key(_CHECKPOINTS, "hflush.checkpoint.keep-existing", BOOL,
        "a checkpoint that exists and may not be overwritten is kept, and close succeeds",
        default="false"),
    Key(_CHECKPOINTS, "spark.sql.streaming.checkpointFileManagerClass", text("class"),
        "the manager of checkpoint files: one of Spark's classes by its whole name, or "
        "module.Class of one's own"),
    Key(_CHECKPOINTS, f"{_SPARK}.minBatchesToRetain", number(1),
        "so many batches of a file log can be read one by one: what they need is not removed",
        default="100"),
    *_of_file_log("fileSink", "log of a file sink"),
    *_of_file_log("fileSource", "log of a file source"),
)  # fmt: skip
