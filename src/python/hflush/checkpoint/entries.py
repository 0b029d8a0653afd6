"""What Spark's logs hold: values, and the texts of their files.

Pure. Each ``dump_…`` returns the bytes of a file as Spark 4.3 writes it, each ``load_…`` reads such
a file of any version up to that; both raise :class:`ValueError` that says what is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from .lines import Fields, decode_path, encode_path, joined, split, to_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Self

    from ..filesystem import FileSystem
    from ..status import FileStatus

__all__ = [
    "CommitMetadata",
    "Entry",
    "FileEntry",
    "OffsetMap",
    "OffsetSeq",
    "OffsetSeqMetadata",
    "SinkFileStatus",
    "SinkMetadataInfo",
    "SourceMetadataInfo",
    "dump_commit",
    "dump_offsets",
    "load_commit",
    "load_offsets",
]

_OFFSET_VERSION = 2
_COMMIT_VERSION = 3
_VOID = "-"


# --- file logs -----------------------------------------------------------------------------------


class Entry(Protocol):
    """One file in a log of files."""

    def dump(self) -> str:
        """Return its line."""
        ...

    @classmethod
    def load(cls, text: str, line: int) -> Self:
        """Return the entry of a line with this number."""
        ...


@dataclass(frozen=True)
class SinkFileStatus:
    """One file of a streaming sink.

    Attributes
    ----------
    path : str
        Its URL, as :func:`hflush.open` takes it: nothing is quoted.
    size : int
        Its exact length in bytes: Spark's readers read no further, and look at nothing else.
    is_dir : bool
        False for all files.
    modification_time : int
        Milliseconds since the epoch, UTC.
    block_replication, block_size : int
        Copies; bytes.
    action : str
        ``add``. ``delete`` is of logs older than Spark 3.1: see :class:`FileStreamSinkLog`.
    extra : mapping
        Further fields of its JSON, which Spark's readers ignore and Spark's compaction drops.
    """

    path: str
    size: int
    is_dir: bool = False
    modification_time: int = 0
    block_replication: int = 1
    block_size: int = 0
    action: str = "add"
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def of(
        cls, filesystem: FileSystem, status: FileStatus, extra: Mapping[str, Any] | None = None
    ) -> SinkFileStatus:
        """Return the entry of a file that is complete.

        Parameters
        ----------
        filesystem : FileSystem
            Where it is: makes its URL. On S3 that begins with ``s3:``; a Spark that reads by S3A
            wants ``s3a:``, as by :func:`dataclasses.replace`, or ``fs.s3.impl`` set to it.
        status : FileStatus
            What :meth:`hflush.FileSystem.get_file_status` returned after the file was closed.
        extra : mapping, optional
            Further fields.
        """
        return cls(
            filesystem.make_qualified(status.path),
            status.length,
            modification_time=status.modification_time,
            block_replication=status.replication,
            block_size=status.block_size,
            extra=extra or {},
        )

    def dump(self) -> str:
        """Return its line."""
        fields = {
            "path": encode_path(self.path),
            "size": self.size,
            "isDir": self.is_dir,
            "modificationTime": self.modification_time,
            "blockReplication": self.block_replication,
            "blockSize": self.block_size,
            "action": self.action,
        }
        if taken := fields.keys() & self.extra.keys():
            raise ValueError(f"extra fields must not be called {', '.join(sorted(taken))}")
        return to_json({**fields, **self.extra})

    @classmethod
    def load(cls, text: str, line: int) -> SinkFileStatus:
        """Return the entry of a line with this number."""
        fields = Fields(text, line)
        return cls(
            decode_path(fields.take("path", str)),
            fields.take("size", int),
            fields.take("isDir", bool),
            fields.take("modificationTime", int),
            fields.take("blockReplication", int),
            fields.take("blockSize", int),
            fields.take("action", str),
            fields.rest(),
        )


@dataclass(frozen=True)
class FileEntry:
    """One file that a streaming file source has read.

    Attributes
    ----------
    path : str
        Its URL, as :func:`hflush.open` takes it.
    timestamp : int
        Its modification time: milliseconds since the epoch, UTC.
    batch_id : int
        The batch of the source's log that it belongs to.
    """

    path: str
    timestamp: int
    batch_id: int

    def dump(self) -> str:
        """Return its line."""
        path = encode_path(self.path)
        return to_json({"path": path, "timestamp": self.timestamp, "batchId": self.batch_id})

    @classmethod
    def load(cls, text: str, line: int) -> FileEntry:
        """Return the entry of a line with this number."""
        fields = Fields(text, line)
        path = decode_path(fields.take("path", str))
        return cls(path, fields.take("timestamp", int), fields.take("batchId", int))


# --- offsets -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SourceMetadataInfo:
    """A source, as an :class:`OffsetMap` describes it: Spark's id, provider and API version."""

    source_id: str
    provider_name: str
    api_version: str


@dataclass(frozen=True)
class OffsetSeqMetadata:
    """What Spark stores beside the offsets of a batch.

    Attributes
    ----------
    batch_watermark_ms, batch_timestamp_ms : int
        Milliseconds since the epoch: the watermark, and the time of the batch.
    conf : mapping of str to str
        The settings of SQL that are pinned for the query.
    source_metadata_info : mapping of str to SourceMetadataInfo
        By source id; in an :class:`OffsetMap` only.
    control_batch_info : mapping, optional
        The JSON of Spark's control batches; in an :class:`OffsetMap` only.
    """

    batch_watermark_ms: int = 0
    batch_timestamp_ms: int = 0
    conf: Mapping[str, str] = field(default_factory=dict, hash=False)
    source_metadata_info: Mapping[str, SourceMetadataInfo] = field(default_factory=dict, hash=False)
    control_batch_info: Mapping[str, Any] | None = field(default=None, hash=False)

    def dump(self, version: int) -> str:
        """Return its line in a file of this version."""
        fields: dict[str, Any] = {
            "batchWatermarkMs": self.batch_watermark_ms,
            "batchTimestampMs": self.batch_timestamp_ms,
            "conf": dict(self.conf),
        }
        if version == 1:
            if self.source_metadata_info or self.control_batch_info is not None:
                raise ValueError("an OffsetSeq has no metadata of sources: use an OffsetMap")
            return to_json(fields)
        fields["sourceMetadataInfo"] = {
            name: {
                "sourceId": source.source_id,
                "providerName": source.provider_name,
                "apiVersion": source.api_version,
            }
            for name, source in self.source_metadata_info.items()
        }
        if self.control_batch_info is not None:
            fields["controlBatchInfo"] = dict(self.control_batch_info)
        return to_json(fields)

    @classmethod
    def load(cls, text: str, version: int) -> OffsetSeqMetadata:
        """Return the value of the second line of a file of this version."""
        fields = Fields(text, 2)
        sources, control = {}, None
        if version > 1:
            for name, source in fields.take("sourceMetadataInfo", dict, {}).items():
                of_source = Fields(to_json(source), 2)
                sources[name] = SourceMetadataInfo(
                    of_source.take("sourceId", str),
                    of_source.take("providerName", str),
                    of_source.take("apiVersion", str),
                )
            control = fields.optional("controlBatchInfo", dict)
        return cls(
            fields.take("batchWatermarkMs", int, 0),
            fields.take("batchTimestampMs", int, 0),
            fields.take("conf", dict, {}),
            sources,
            control,
        )


@dataclass(frozen=True)
class OffsetSeq:
    """The offsets of a batch by the order of the sources: version 1, which Spark writes by default.

    Attributes
    ----------
    offsets : sequence of str or None
        Of each source the text of its offset, JSON as a rule, as the source wrote it; or None.
    metadata : OffsetSeqMetadata, optional
    """

    offsets: Sequence[str | None] = ()
    metadata: OffsetSeqMetadata | None = None


@dataclass(frozen=True)
class OffsetMap:
    """The offsets of a batch by the ids of the sources: version 2.

    Attributes
    ----------
    offsets : mapping of str to (str or None)
        As in :class:`OffsetSeq`.
    metadata : OffsetSeqMetadata
    """

    offsets: Mapping[str, str | None] = field(hash=False)
    metadata: OffsetSeqMetadata


def dump_offsets(batch: OffsetSeq | OffsetMap) -> bytes:
    """Return the file of a batch of the offset log."""
    if isinstance(batch, OffsetSeq):
        head = "" if batch.metadata is None else batch.metadata.dump(1)
        return joined(1, [head, *(_offset_line("", offset) for offset in batch.offsets)])
    lines = [batch.metadata.dump(2)]
    for source, offset in batch.offsets.items():
        if ":" in source:
            raise ValueError(f"the id of a source must not hold a colon, as {source!r} does")
        lines.append(_offset_line(f"{source}:", offset))
    return joined(2, lines)


def load_offsets(content: bytes) -> OffsetSeq | OffsetMap:
    """Return the batch of a file of the offset log."""
    version, lines = split(content, _OFFSET_VERSION)
    if not lines:
        if version == 1 and content.endswith((b"\n", b"\r")):
            return OffsetSeq()  # neither metadata nor offsets: the second line is empty
        raise ValueError("line 2: the metadata are missing: the file is cut off")
    head = lines[0].strip()
    if version == 1:
        metadata = OffsetSeqMetadata.load(head, 1) if head else None
        return OffsetSeq(tuple(None if text == _VOID else text for text in lines[1:]), metadata)
    if not head:
        raise ValueError("line 2: the metadata are missing, which version 2 needs")
    offsets: dict[str, str | None] = {}
    for number, text in enumerate(lines[1:], 3):
        source, colon, offset = text.partition(":")
        if not colon:
            raise ValueError(f"line {number}: id:offset is expected, not {text[:60]!r}")
        offsets[source] = None if offset == _VOID else offset
    return OffsetMap(offsets, OffsetSeqMetadata.load(head, 2))


def _offset_line(head: str, offset: str | None) -> str:
    text = head + (_VOID if offset is None else offset)
    if "\n" in text or "\r" in text:
        raise ValueError(f"an offset must be one line, not {text!r}")
    return text


# --- commits -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SinkMetadataInfo:
    """A sink, as commits of version 3 describe it.

    Attributes
    ----------
    sink_name, provider_name, api_version : str
        As Spark names them.
    commit_offset : str
        The text of the offset that was committed to it, ``-`` for none.
    is_active : bool
        Whether the query writes to it now.
    """

    sink_name: str
    commit_offset: str
    provider_name: str
    api_version: str
    is_active: bool = True


@dataclass(frozen=True)
class CommitMetadata:
    """The commit of a batch.

    Attributes
    ----------
    next_batch_watermark_ms : int
        Milliseconds since the epoch.
    version : int
        1; 2 where state stores have checkpoints of format 2; 3 with sinks.
    state_unique_ids : mapping of int to nested sequences of str, optional
        By operator, of each partition the ids of its stores; from version 2 on.
    sink_metadata : mapping of str to SinkMetadataInfo
        By name; from version 3 on.
    """

    next_batch_watermark_ms: int = 0
    version: int = 1
    state_unique_ids: Mapping[int, Sequence[Sequence[str]]] | None = field(default=None, hash=False)
    sink_metadata: Mapping[str, SinkMetadataInfo] = field(default_factory=dict, hash=False)


def dump_commit(commit: CommitMetadata) -> bytes:
    """Return the file of a batch of the commit log."""
    if not 1 <= commit.version <= _COMMIT_VERSION:
        raise ValueError(f"version={commit.version} must be from 1 to {_COMMIT_VERSION}")
    fields: dict[str, Any] = {"nextBatchWatermarkMs": commit.next_batch_watermark_ms}
    if commit.state_unique_ids is not None:
        if commit.version < 2:
            raise ValueError("state_unique_ids need version 2")
        fields["stateUniqueIds"] = {
            str(operator): [list(stores) for stores in partitions]
            for operator, partitions in commit.state_unique_ids.items()
        }
    if commit.version >= 3:
        if sum(sink.is_active for sink in commit.sink_metadata.values()) != 1:
            raise ValueError("version 3 needs one sink that is active in sink_metadata")
        fields["sinkMetadataMap"] = {
            name: {
                "sinkName": sink.sink_name,
                "commitOffset": sink.commit_offset,
                "providerName": sink.provider_name,
                "apiVersion": sink.api_version,
                "isActive": sink.is_active,
            }
            for name, sink in commit.sink_metadata.items()
        }
    elif commit.sink_metadata:
        raise ValueError("sink_metadata need version 3")
    return joined(commit.version, [to_json(fields)])


def load_commit(content: bytes) -> CommitMetadata:
    """Return the batch of a file of the commit log."""
    version, lines = split(content, _COMMIT_VERSION)
    fields = Fields(lines[0] if lines else "{}", 2)
    watermark = fields.take("nextBatchWatermarkMs", int, 0)
    found = fields.optional("stateUniqueIds", dict) if version > 1 else None
    sinks = {}
    if version >= 3:
        for name, sink in fields.take("sinkMetadataMap", dict, {}).items():
            of_sink = Fields(to_json(sink), 2)
            sinks[name] = SinkMetadataInfo(
                of_sink.take("sinkName", str),
                of_sink.take("commitOffset", str),
                of_sink.take("providerName", str),
                of_sink.take("apiVersion", str),
                of_sink.take("isActive", bool, True),
            )
    return CommitMetadata(watermark, version, None if found is None else _state_ids(found), sinks)


def _state_ids(found: Mapping[str, Any]) -> dict[int, list[list[str]]]:
    for operator, partitions in found.items():
        whole = operator.isdecimal() and isinstance(partitions, list)
        if not whole or not all(
            isinstance(stores, list) and all(isinstance(name, str) for name in stores)
            for stores in partitions
        ):
            raise ValueError(
                f"line 2: stateUniqueIds of operator {operator!r} are not lists of ids"
            )
    return {int(operator): partitions for operator, partitions in found.items()}
