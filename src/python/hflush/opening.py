"""The ways in: create, append, open with the modes of the built-in open(), and put_if_absent."""

from __future__ import annotations

import codecs
import io
import os
import sys
import warnings

from .errors import StreamClosedError
from .filesystem import FileSystem
from .options import CreateFlag, whole
from .streams import FSDataInputStream, FSDataOutputStream
from .write_only import leave_block

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Literal, TypeAlias, overload

    from typing_extensions import Buffer, Self, Unpack

    from .keywords import AnyArguments, AppendArguments, CreateArguments, OpenArguments
    from .namespace import Conf
    from .paths import StrPath

    BinaryWriteMode: TypeAlias = Literal["wb", "bw", "ab", "ba", "xb", "bx"]
    BinaryReadMode: TypeAlias = Literal["rb", "br"]
    TextMode: TypeAlias = Literal[
        "r", "rt", "tr", "w", "wt", "tw", "a", "at", "ta", "x", "xt", "tx"
    ]

__all__ = ["append", "commit", "create", "open", "put_if_absent", "resume"]


def create(
    url: StrPath, *, overwrite: bool = True, conf: Conf = None, **options: Unpack[CreateArguments]
) -> FSDataOutputStream:
    """Create a file, with its missing parents, and open it for writing.

    Parameters
    ----------
    url : str or os.PathLike
        ``/a/b``, ``file:///a/b``, ``file+crc:///a/b``, ``hdfs://host:port/a/b``,
        ``hdfs://service/a/b``, ``s3://bucket/a/b``; without a scheme ``fs.defaultFS`` decides.
    overwrite : bool
        Replace a file that exists; False is an atomic check.
    conf : mapping, optional
        Hadoop keys, set on top of the default :class:`hflush.Configuration`.
    **options
        As for :meth:`hflush.FileSystem.create`: ``block_size="128m"``, ``replication=3``, ….

    Raises
    ------
    FileExistsError, PathIsDirectoryError, ParentNotDirectoryError, InvalidPathError, OSError
        As :meth:`hflush.FileSystem.create`.
    UnsupportedFileSystemError
        No store serves the scheme.

    Examples
    --------
    >>> import hflush, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "log")
    >>> with hflush.create(path) as out:
    ...     _ = out.write(b"record")
    ...     out.hsync()
    >>> hflush.open(path).read()
    'record'
    """
    return FileSystem.get(url, conf).create(url, overwrite=overwrite, **options)


def append(
    url: StrPath, *, conf: Conf = None, **options: Unpack[AppendArguments]
) -> FSDataOutputStream:
    """Open a file to write at its end.

    Parameters
    ----------
    url, conf
        As for :func:`create`.
    **options
        As for :meth:`hflush.FileSystem.append`.

    Raises
    ------
    FileNotFoundError, IsADirectoryError, OSError
        As :meth:`hflush.FileSystem.append`.
    io.UnsupportedOperation
        The store cannot append.
    """
    return FileSystem.get(url, conf).append(url, **options)


def put_if_absent(url: StrPath, data: Buffer, *, conf: Conf = None) -> bool:
    """Make a file of some bytes if there is none: of many processes that try, one wins.

    Parameters
    ----------
    url : str or os.PathLike
        As for :func:`create`.
    data : bytes-like
        All of its content.
    conf : mapping, optional
        Hadoop keys, as for :func:`create`.

    Returns
    -------
    bool
        True: this call made the file; it is whole, and on disk. False: another one did; that file
        is unchanged, and can be read.

    Raises
    ------
    PathIsDirectoryError, ParentNotDirectoryError, InvalidPathError, TypeError, NotDurableError
        As :meth:`hflush.FileSystem.put_if_absent`.
    io.UnsupportedOperation
        A store of S3's kind that does not check ``If-None-Match``.
    OSError
        The store refuses, and there is no file; or whether this call has made one is not known.

    Notes
    -----
    Source: docs/semantics.md; contract CKPT-16.

    Examples
    --------
    >>> import hflush, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "00000.json")
    >>> hflush.put_if_absent(path, b"mine"), hflush.put_if_absent(path, b"too late")
    (True, False)
    >>> hflush.open(path).read()
    'mine'
    """
    return FileSystem.get(url, conf).put_if_absent(url, data)


def resume(token: bytes, *, conf: Conf = None) -> FSDataOutputStream:
    """Go on with a stream at exactly the byte where it was persisted.

    Nothing before it is lost or doubled; what was written after it is dropped. The writer that made
    the token may be dead, or still alive: on HDFS its lease is taken, and its next call fails; on
    local files it is left alone, and this call fails; on S3 the one that publishes first wins, and
    the other one's ``close`` fails.

    Parameters
    ----------
    token : bytes
        What :meth:`FSDataOutputStream.persist` returned, here or in another process.
    conf : mapping, optional
        Hadoop keys, as for :func:`create`.

    Returns
    -------
    FSDataOutputStream
        Its ``tell()`` is the length that the token stands for. It can be persisted again, and the
        token can be used again.

    Raises
    ------
    ValueError
        It is not a token, or is one of another store, bucket or cluster.
    StaleTokenError
        The file is gone, was replaced, or has lost bytes; on S3 the upload has ended.
    LeaseHeldError
        On local files: the writer is alive.
    TimeoutError
        On HDFS: the servers did not let go of the dead writer's last block in five minutes.
    OSError
        As :func:`append`.

    Notes
    -----
    Source: Flink's RecoverableWriter.recover; docs/semantics.md.

    Examples
    --------
    >>> import hflush, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "log")
    >>> out = hflush.create(path)
    >>> _ = out.write(b"kept ")
    >>> token = out.persist()
    >>> _ = out.write(b"dropped")
    >>> out.close()
    >>> with hflush.resume(token) as out:
    ...     _ = out.write(b"and new")
    >>> hflush.open(path).read()
    'kept and new'
    """
    from .tokens import Token

    return FileSystem.get(Token.unpack(token).url, conf).resume(token)


def commit(token: bytes, *, conf: Conf = None) -> None:
    """Publish what a token stands for: exactly the bytes up to where the stream was persisted.

    It may be called any number of times, also after a crash, and when it was done before.

    Parameters
    ----------
    token : bytes
        What :meth:`FSDataOutputStream.persist` returned. The stream is done with: close it before,
        or it fails (HDFS, S3), or this call does (local files).
    conf : mapping, optional
        Hadoop keys, as for :func:`create`.

    Raises
    ------
    ValueError, StaleTokenError, LeaseHeldError, TimeoutError, OSError
        As :func:`resume`. On S3 an upload that ended by publishing these bytes is no error.
    FileExistsError, PreconditionFailedError, FileNotFoundError
        On S3: the condition that the stream was created with does not hold.

    Notes
    -----
    Source: Flink's RecoverableFsDataOutputStream.Committer; docs/semantics.md.
    """
    from .tokens import Token

    FileSystem.get(Token.unpack(token).url, conf).commit(token)


if TYPE_CHECKING:

    @overload
    def open(
        url: StrPath,
        mode: BinaryWriteMode,
        buffering: int = -1,
        encoding: None = None,
        errors: None = None,
        newline: None = None,
        *,
        conf: Conf = None,
        **options: Unpack[CreateArguments],
    ) -> FSDataOutputStream: ...
    @overload
    def open(
        url: StrPath,
        mode: BinaryReadMode,
        buffering: int = -1,
        encoding: None = None,
        errors: None = None,
        newline: None = None,
        *,
        conf: Conf = None,
        **options: Unpack[OpenArguments],
    ) -> FSDataInputStream: ...
    @overload
    def open(
        url: StrPath,
        mode: TextMode = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        *,
        conf: Conf = None,
        **options: Unpack[AnyArguments],
    ) -> io.TextIOWrapper: ...
    @overload
    def open(
        url: StrPath,
        mode: str,
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        *,
        conf: Conf = None,
        **options: Unpack[AnyArguments],
    ) -> FSDataOutputStream | FSDataInputStream | io.TextIOWrapper: ...


def open(
    url: StrPath,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    *,
    conf: Conf = None,
    **options: Any,
) -> FSDataOutputStream | FSDataInputStream | io.TextIOWrapper:
    """Open a file of any store with the modes of the built-in ``open()``.

    Parameters
    ----------
    url : str or os.PathLike
        As for :func:`create`; file descriptors are TypeError.
    mode : str
        ``r``, ``w``, ``x`` or ``a``, with ``b`` or ``t``. Update mode, ``+``, is not supported.
    buffering : int
        0 hands every write on at once (binary only), 1 does so after each line (text only), more
        is the size in bytes of the read buffer.
    encoding, errors, newline : str, optional
        Text only, as for the built-in ``open()``; ``"locale"`` is the encoding of the locale.
    conf : mapping, optional
        Hadoop keys, set on top of the default :class:`hflush.Configuration`.
    **options
        As for ``FileSystem.create``, ``append`` and ``open``.

    Returns
    -------
    FSDataOutputStream, FSDataInputStream or io.TextIOWrapper
        For ``wb``, ``xb``, ``ab``; for ``rb``; for text.

    Raises
    ------
    ValueError
        An unknown mode, or a text argument in binary mode.
    io.UnsupportedOperation
        ``+``; appending to a store that cannot.
    OSError
        As :meth:`hflush.FileSystem.create`, ``append`` and ``open``.

    Notes
    -----
    docs/semantics.md lists what these streams answer otherwise than those of the built-in
    ``open()``. A text stream that is dropped without close publishes nothing, and one whose
    ``with`` block raises is aborted where its store can, as a binary one.
    """
    action, binary = _parse_mode(mode)
    buffering = whole("buffering", buffering)
    if binary:
        _check_binary(mode, buffering, encoding, errors, newline)
    else:
        if buffering == 0:
            raise ValueError("can't have unbuffered text I/O")
        encoding = io.text_encoding(encoding)  # type: ignore[attr-defined]  # since 3.10
        check_text(encoding, errors, newline)
    line_buffering = not binary and buffering == 1
    if buffering >= 0 and buffering != 1:
        options.setdefault("buffer_size", buffering)
    stream = _open_binary(FileSystem.get(url, conf), url, action, options)
    if binary:
        return stream
    try:
        text = _text(stream, action, encoding, errors, newline, line_buffering)
    except BaseException:
        stream.close()
        raise
    text.mode = mode  # type: ignore[misc]
    return text


def _open_binary(
    filesystem: FileSystem, url: StrPath, action: str, options: dict[str, Any]
) -> FSDataOutputStream | FSDataInputStream:
    if action == "r":
        return filesystem.open(url, **options)
    if action == "a":
        return filesystem.create(url, flags=CreateFlag.CREATE | CreateFlag.APPEND, **options)
    return filesystem.create(url, overwrite=action == "w", **options)


def _text(
    stream: FSDataOutputStream | FSDataInputStream,
    action: str,
    encoding: str | None,
    errors: str | None,
    newline: str | None,
    line_buffering: bool,
) -> io.TextIOWrapper:
    if action == "r":
        return io.TextIOWrapper(stream, encoding, errors, newline, line_buffering)
    return written_text(stream, encoding, errors, newline, line_buffering)


def written_text(
    stream: Any,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    line_buffering: bool = False,
) -> TextOutputWrapper:
    """Return text over an output stream, which begins as text at that place of a file does.

    Nothing is held back: io would drop it if the write of it is interrupted.
    """
    encoding = resolved(encoding)
    if stream.tell() > 0:
        encoding = without_mark(encoding)
    text = TextOutputWrapper(stream, encoding, errors, newline, line_buffering, write_through=True)
    text._begin()
    return text


def check_text(
    encoding: str | None = None, errors: str | None = None, newline: str | None = None
) -> None:
    """Raise a text wrapper's errors about its arguments, before a file is touched."""
    known = "utf-8" if encoding is None else encoding  # None warns under -X warn_default_encoding
    io.TextIOWrapper(io.BytesIO(), known, errors, newline).detach()
    if errors is not None:  # io checks it only in its development mode
        codecs.lookup_error(errors)


def _parse_mode(mode: str) -> tuple[str, bool]:
    """Return which of r, w, x and a it is, and whether it is binary."""
    if not isinstance(mode, str):
        raise TypeError(f"mode must be str, not {type(mode).__name__}")
    letters = set(mode)
    if letters - set("rwxabt+") or len(mode) > len(letters):
        raise ValueError(f"invalid mode: {mode!r}")
    if {"b", "t"} <= letters:
        raise ValueError("can't have text and binary mode at once")
    actions = letters & set("rwxa")
    if len(actions) != 1:
        raise ValueError("must have exactly one of create/read/write/append mode")
    if "+" in letters:
        raise io.UnsupportedOperation(f"no update mode {mode!r}: written bytes are never changed")
    return actions.pop(), "b" in letters


def _check_binary(
    mode: str, buffering: int, encoding: str | None, errors: str | None, newline: str | None
) -> None:
    given = {"encoding": encoding, "errors": errors, "newline": newline}
    for name, value in given.items():
        if value is not None:
            article = "a" if name == "newline" else "an"
            raise ValueError(f"binary mode {mode!r} doesn't take {article} {name} argument")
    if buffering == 1:
        warnings.warn(
            "line buffering (buffering=1) isn't supported in binary mode, the default buffer "
            "size will be used",
            RuntimeWarning,
            stacklevel=3,
        )


def resolved(encoding: str | None) -> str:
    """Return the name of a codec: that of the locale for ``locale``, and for None."""
    if encoding is not None and encoding != "locale":
        return encoding
    return io.TextIOWrapper(io.BytesIO(), encoding).encoding


def without_mark(encoding: str) -> str:
    """Return the encoding for appending to text: without a byte order mark at the start."""
    order = "le" if sys.byteorder == "little" else "be"
    name = codecs.lookup(encoding).name
    return {"utf-8-sig": "utf-8", "utf-16": f"utf-16-{order}", "utf-32": f"utf-32-{order}"}.get(
        name, encoding
    )


# What io leaves out where it cannot seek: the byte order mark of these encodings; and the way back
# to ASCII, in which ISO-2022-JP begins, from the characters that a file ends with.
_MARKED = frozenset(("utf-16", "utf-32"))
_MARK = "\ufeff"
_TO_ASCII = "\x1b(B"


class TextOutputWrapper(io.TextIOWrapper):
    """Text over an output stream, which keeps the stream's promises about what is published."""

    _mark = ""  # what is still to be written before the next text

    def __enter__(self) -> Self:
        entered = super().__enter__()
        self.buffer._enter()  # type: ignore[attr-defined]
        return entered

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        leave_block(self.buffer, self.close, error)  # type: ignore[arg-type]

    def close(self) -> None:
        """Hand on buffered text and publish. If that fails, a stream that can abort aborts.

        io's own close would close the stream below even then, and after an interrupt.
        """
        if self.closed:
            return
        refusal = None
        try:
            self.flush()
        except StreamClosedError as closed:
            refusal = closed
        except BaseException as error:
            if not self.buffer._has_refused(error):  # type: ignore[attr-defined]
                leave_block(self.buffer, self.buffer.close, error)  # type: ignore[arg-type]
            raise
        self.buffer.close()  # of a stream that has failed: it says why
        if refusal is not None:
            raise refusal

    def tell(self) -> int:
        """Return the position in bytes, behind all that was written."""
        self.flush()
        return int(self.buffer.tell())  # type: ignore[attr-defined]

    def seek(self, cookie: int, whence: int = os.SEEK_SET, /) -> int:
        """Return the position where the end is meant, as logging does; the rest is refused."""
        if (cookie, whence) == (0, os.SEEK_END):
            return self.tell()
        return super().seek(cookie, whence)

    def reconfigure(self, **changes: Any) -> None:
        """Change how text is written from here on; at the start an encoding brings its mark."""
        super().reconfigure(**changes)
        if self._begin() and codecs.lookup(self.encoding).name == "utf-8-sig":
            super().reconfigure(encoding="utf-8", errors=self.errors)  # io would mark it again

    def _begin(self) -> int:
        """Have the next text begin as it does at this place of the file; return the place."""
        name = codecs.lookup(self.encoding).name
        place: int = self.buffer.tell()  # type: ignore[attr-defined]
        if place:
            self._mark = _TO_ASCII if name.startswith("iso2022_jp") else ""
        else:
            self._mark = _MARK if name in _MARKED else ""
        if self._mark:
            self.__class__ = MarkedTextOutputWrapper
        return place

    def __del__(self) -> None:
        """Do not close, as io's own would: the stream below is abandoned, with a warning."""


class MarkedTextOutputWrapper(TextOutputWrapper):
    """Writes the mark before the next text."""

    def write(self, text: str, /) -> int:
        """Write text, and return how many characters it had."""
        if not self._mark or self.buffer is None:  # detached: io refuses it
            return super().write(text)
        tell = self.buffer.tell  # type: ignore[attr-defined]
        place = tell()
        mark, self._mark = self._mark, ""
        try:
            return super().write(mark + text) - len(mark)
        except BaseException:
            if tell() == place:  # nothing is written
                self._mark = mark
            raise
