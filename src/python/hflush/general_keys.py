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
        "what new files and directories do not permit; unless set 022 on HDFS, the umask of the "
        "process on local files"),
    Key(_ALL, "io.file.buffer.size", size(0),
        "what an input stream reads at a time; unless set: what suits the store"),
    Key(_ALL, "dfs.support.append", BOOL, "false: append is refused", default="true"),
    Key(_ALL, "fs.trash.interval", number_of("minutes"),
        "when the trash is emptied, unless the NameNode says it; 0: there is no trash",
        default="0"),
    Key(_ALL, "hflush.close.on-exception", choice("abort", "publish"),
        "what leaving a `with` block by an exception does to the file", default="abort"),
    Key(_ALL, "hflush.atomic.sweep-after", time("s"),
        "the age from which temporary files that a killed writer left are removed, on HDFS",
        default="1h"),
    Key(_ALL, "hflush.syncable.downgrade", BOOL,
        "hflush and hsync that are not supported do nothing; they raise otherwise",
        default="false"),
    Key(_CHECKPOINTS, "hflush.checkpoint.sync", BOOL,
        "checkpoints are durable when they are published", default="true"),
    Key(_CHECKPOINTS, "hflush.checkpoint.verify-rename", BOOL,
        "after a rename the file is looked for", default="false"),
    Key(_CHECKPOINTS, "hflush.checkpoint.keep-existing", BOOL,
        "a checkpoint that exists and may not be overwritten is kept, and close succeeds",
        default="false"),
)  # fmt: skip
