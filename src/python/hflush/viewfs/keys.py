"""The configuration keys of views: docs/keys.md shows the table."""

from __future__ import annotations

from ..keys import Key, mapped, text

__all__ = ["DEFAULT_TABLE", "KEYS", "PREFIX", "STRATEGY"]

PREFIX = "fs.viewfs.mounttable."
DEFAULT_TABLE = f"{PREFIX}default.name.key"
STRATEGY = "fs.viewfs.rename.strategy"

_VIEWS = "Views: viewfs://TABLE/"

KEYS = (
    Key(_VIEWS, PREFIX, text("URL"),
        "of each mount table: <TABLE>.link.<path>, what is at a path; <TABLE>.linkFallback, what "
        "is where no link leads; <TABLE>.linkMergeSlash, instead of both: what the whole is; "
        "<TABLE>.linkRegex.<regex>, before all of these: what is where an expression finds "
        "something, with its groups, as $1 and ${name}, in the URL; <TABLE>.homedir, what home "
        "directories are below, /user unless set. linkMerge and linkNfly are refused"),
    Key(_VIEWS, DEFAULT_TABLE, text(),
        "the mount table of viewfs:///", default="default"),
    Key(_VIEWS, STRATEGY,
        mapped({name: name for name in (
            "SAME_MOUNTPOINT",
            "SAME_TARGET_URI_ACROSS_MOUNTPOINT",
            "SAME_FILESYSTEM_ACROSS_MOUNTPOINT",
        )}),
        "between which links a rename works: within one; also between those of one URL; also "
        "between those into one file system", default="SAME_MOUNTPOINT"),
)  # fmt: skip
