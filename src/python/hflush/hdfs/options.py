"""The options of create and append that HDFS alone has."""

from __future__ import annotations

from ..options import CREATE_KEYS, as_bool, as_name, as_names, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Options

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

    __slots__ = ("ec_policy", "favored_nodes", "storage_policy", "update_length")

    def __init__(self, asked: Options) -> None:
        self.favored_nodes = read(asked, FAVORED_NODES, as_names)
        self.storage_policy = read(asked, STORAGE_POLICY, as_name)
        self.ec_policy = read(asked, EC_POLICY, as_name)
        self.update_length = read(asked, UPDATE_LENGTH, as_bool)
