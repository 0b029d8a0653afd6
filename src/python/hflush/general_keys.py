"""The configuration keys of every store: docs/keys.md shows the table."""

from __future__ import annotations

from .configuration import DEFAULTS
from .keys import BOOL, Key, choice, number_of, size, text, time

__all__ = ["KEYS"]

_ALL = "All stores"
_CHECKPOINTS = "Checkpoints"

KEYS = (
    Key(_ALL, "fs.defaultFS", text("URL"),
        "the file system of a path without a scheme, and the host of a URL without one",
        default=DEFAULTS["fs.defaultFS"]),
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
        "what leaving a `with` block by an exception does to the file", default="abort"),
    Key(_ALL, "hflush.atomic.sweep-after", time("s"),
        "the age from which temporary files of killed writers are removed, on HDFS",
        default="1h"),
    Key(_ALL, "hflush.syncable.downgrade", BOOL,
        "true: hflush and hsync that are not supported only flush, instead of raising",
        default="false"),
    Key(_CHECKPOINTS, "hflush.checkpoint.sync", BOOL,
        "a checkpoint is on disk before its rename, and the rename before close returns",
        default="true"),
    Key(_CHECKPOINTS, "hflush.checkpoint.verify-rename", BOOL,
        "check after the rename that the file exists", default="false"),
    Key(_CHECKPOINTS, "hflush.checkpoint.keep-existing", BOOL,
        "a checkpoint that exists and may not be overwritten is kept, and close succeeds",
        default="false"),
)  # fmt: skip
