"""The classes of failures: what they are, what they carry, and that they travel."""

from __future__ import annotations

import errno
import io
import pickle

import hflush
import pytest
from hflush import LeaseHeldError, errors
from hflush.status import FailedNode, StreamEvent

BASES = {
    "ChecksumError": (OSError,),
    "ConcurrentWriterError": (FileExistsError,),
    "CorruptLogError": (OSError,),
    "EndOfFileError": (EOFError, OSError),
    "FileLeaseHeldError": (LeaseHeldError, FileExistsError),
    "InvalidPathError": (OSError, ValueError),
    "InvalidPathHandleError": (OSError,),
    "LeaseHeldError": (OSError,),
    "LeaseLostError": (OSError,),
    "NotDurableError": (OSError,),
    "NotAFileError": (IsADirectoryError, FileNotFoundError),
    "ParentNotDirectoryError": (NotADirectoryError, FileExistsError),
    "PathIsDirectoryError": (IsADirectoryError, FileExistsError),
    "PipelineError": (OSError,),
    "PreconditionFailedError": (OSError,),
    "SeekError": (OSError, ValueError, EOFError),
    "StreamClosedError": (OSError, ValueError),
    "UnsupportedFileSystemError": (OSError,),
}


@pytest.mark.parametrize("name", BASES)
def test_one_object_is_everything_its_callers_expect(name: str):
    """Each class has the bases of contract §1, and carries errno, message and path."""
    error_class = getattr(hflush, name)
    error = error_class(errno.EIO, "it broke", "/a/b")
    assert all(isinstance(error, base) for base in BASES[name])
    assert (error.errno, error.strerror, error.filename) == (errno.EIO, "it broke", "/a/b")
    assert str(error) == "[Errno 5] it broke: '/a/b'"


def test_every_class_is_exported():
    """What errors.py names is there under hflush, too."""
    assert set(errors.__all__) == {*BASES, "InternalError", "NotPublishedWarning"}
    assert all(name in hflush.__all__ for name in errors.__all__)


@pytest.mark.parametrize("name", BASES)
def test_errors_survive_pickling(name: str):
    """A failure in a worker process arrives as the same class with the same contents."""
    error = getattr(hflush, name)(errno.EIO, "it broke", "/a/b")
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is type(error)
    assert (copied.errno, copied.filename, str(copied)) == (errno.EIO, "/a/b", str(error))


def test_a_checksum_error_says_where_and_what():
    """ChecksumError has path, position, expected and actual, also after pickling."""
    error = hflush.ChecksumError(errno.EIO, "checksum mismatch", "/a/b")
    error.position, error.expected, error.actual = 512, 1, 2
    copied = pickle.loads(pickle.dumps(error))
    assert (copied.path, copied.position, copied.expected, copied.actual) == ("/a/b", 512, 1, 2)


def test_a_pipeline_error_tells_the_story():
    """PipelineError has nodes, block, stamps and history, also after pickling; none by itself."""
    error = hflush.PipelineError(errno.EIO, "all failed", "/a/b")
    assert (error.failed_nodes, error.block, error.generation_stamps) == ((), "", ())
    assert (error.acknowledged, error.history) == (0, ())
    node = FailedNode("10.0.0.1:9866", 1, "is lost", 512, 1e9)
    error.failed_nodes, error.history = (node,), [StreamEvent(1e9, "complete", 2)]
    error.block, error.generation_stamps, error.acknowledged = "blk_1_1002", (1001, 1002), 512
    copied = pickle.loads(pickle.dumps(error))
    assert vars(copied) == vars(error)
    assert copied.failed_nodes[0].address == "10.0.0.1:9866"


def test_a_closed_stream_is_no_unsupported_operation():
    """StreamClosedError must not look like something the store cannot do."""
    assert not issubclass(hflush.StreamClosedError, io.UnsupportedOperation)


def test_a_refusal_names_operation_store_and_path():
    """io.UnsupportedOperation says what was asked of which store."""
    refusal = errors.unsupported("concat", "raw local files", "/a")
    assert isinstance(refusal, io.UnsupportedOperation)
    assert refusal.errno == errno.ENOTSUP
    assert refusal.filename == "/a"
    assert "concat is not supported by raw local files" in str(refusal)


def test_what_failed_besides_is_a_note():
    """A second failure is attached to the one that propagates."""
    error = OSError(errno.EIO, "first")
    errors.attach(error, PermissionError(errno.EACCES, "second", "/a"))
    assert len(error.__notes__) == 1
    assert "PermissionError" in error.__notes__[0]
    assert "/a" in error.__notes__[0]
