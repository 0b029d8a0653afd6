"""The options of create and append that HDFS alone has."""

from __future__ import annotations

from ..options import CREATE_KEYS, as_bool, as_name, as_names, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..options import Options, OptionValue

__all__ = [
    "CREATE_KEYWORDS",
    "EC_POLICY",
    "FAVORED_NODES",
    "KEYS",
    "STORAGE_POLICY",
    "UPDATE_LENGTH",
    "HdfsOptions",
]

# ``host:port`` of the data nodes that had better keep the replicas.
FAVORED_NODES = "fs.hdfs.create.favored.nodes"
# By name.
STORAGE_POLICY = "fs.hdfs.create.storage.policy"
EC_POLICY = "fs.hdfs.create.ec.policy"
# Whether hsync also brings the length that status and listings report up to date.
UPDATE_LENGTH = "fs.hdfs.create.update.length"

KEYS = CREATE_KEYS | {FAVORED_NODES, STORAGE_POLICY, EC_POLICY, UPDATE_LENGTH}
CREATE_KEYWORDS = {
    "favored_nodes": FAVORED_NODES,
    "storage_policy": STORAGE_POLICY,
    "ec_policy": EC_POLICY,
    "update_length": UPDATE_LENGTH,
}


class HdfsOptions:
    """What a caller asked of HDFS alone, checked; None where nothing was asked.

    Raises
    ------
    TypeError, ValueError
        A value is malformed, and not just a hint.
    """

    favored_nodes: tuple[str, ...] | None = None
    storage_policy: str | None = None
    ec_policy: str | None = None
    update_length: bool | None = None

    def __init__(self, asked: Options) -> None:
        if _ATTRIBUTES.keys().isdisjoint(asked):  # most often
            return
        for key, (name, convert) in _ATTRIBUTES.items():
            if key in asked:
                setattr(self, name, read(asked, key, convert))


_ATTRIBUTES: dict[str, tuple[str, Callable[[OptionValue], object]]] = {
    FAVORED_NODES: ("favored_nodes", as_names),
    STORAGE_POLICY: ("storage_policy", as_name),
    EC_POLICY: ("ec_policy", as_name),
    UPDATE_LENGTH: ("update_length", as_bool),
}
