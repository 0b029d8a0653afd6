"""Tokens and secrets, and the files that carry them: Hadoop's ``Credentials``.

A job that runs for a user has no ticket: its submitter asked the NameNode for a token, and
YARN or Spark put it into the file that ``HADOOP_TOKEN_FILE_LOCATION`` names. A file system takes
that name when it is made, and what the file has whenever it connects: docs/security.md.

Neither tokens nor credentials are pickled, as what is pickled ends up in plans, logs and caches:
they travel in files that only their owner reads.
"""

from __future__ import annotations

import base64
import os
from typing import NamedTuple, NoReturn

from . import _core
from .configuration import TOKEN_BY_VALUE, TOKEN_FILE, listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .paths import StrPath

__all__ = ["Credentials", "Token"]


class Token(NamedTuple):
    """A token: its holder may act for its owner, so its ``repr`` has no part of its secret.

    Parameters
    ----------
    identifier, password : bytes
        What a server knows it by, and what proves that the caller has it.
    kind : str
        Who gave it: ``HDFS_DELEGATION_TOKEN`` of a NameNode.
    service : str
        Whom it is for: ``10.0.0.1:8020``, ``nn.example.com:8020`` or ``ha-hdfs:nameservice``.
    """

    identifier: bytes
    password: bytes
    kind: str
    service: str

    def __repr__(self) -> str:
        return f"<Token {self.kind} for {self.service}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} is not pickled, as it has a secret: Credentials.write() puts it into a file"
        )

    def __copy__(self) -> Token:
        return self

    def __deepcopy__(self, memo: object) -> Token:
        return self

    def to_url_string(self) -> str:
        """Return the token as Hadoop's tools take it, in base64 for URLs."""
        return base64.urlsafe_b64encode(_core.encode_token(self)).rstrip(b"=").decode()

    @classmethod
    def from_url_string(cls, text: str) -> Token:
        """Return the token that :meth:`to_url_string`, or Hadoop, has spelled.

        Raises
        ------
        ValueError
            It is none.
        """
        padded = text + "=" * (-len(text) % 4)
        try:
            return cls(*_core.decode_token(base64.b64decode(padded, b"-_", validate=True)))
        except ValueError:
            raise ValueError("what is given is no token of Hadoop") from None


class Credentials:
    """Tokens and secrets by alias; for a token of HDFS the alias is its service.

    Parameters
    ----------
    tokens : dict, optional
        Tokens by alias.
    secrets : dict, optional
        Other secrets, bytes by alias.
    """

    def __init__(
        self, tokens: dict[str, Token] | None = None, secrets: dict[str, bytes] | None = None
    ) -> None:
        self.tokens = dict(tokens or {})
        self.secrets = dict(secrets or {})

    def __repr__(self) -> str:
        return f"<Credentials: {len(self.tokens)} tokens, {len(self.secrets)} secrets>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} are not pickled, as they are secret: write() puts them in a file"
        )

    def __copy__(self) -> Credentials:
        return type(self)(self.tokens, self.secrets)

    def __deepcopy__(self, memo: object) -> Credentials:
        return self.__copy__()  # of values that do not change

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Credentials):
            return NotImplemented
        return (self.tokens, self.secrets) == (other.tokens, other.secrets)

    __hash__ = None  # type: ignore[assignment]

    def add(self, token: Token, alias: str | None = None) -> None:
        """Add a token, in place of one of the same alias.

        Parameters
        ----------
        token : Token
            The token.
        alias : str, optional
            Its service unless given.
        """
        self.tokens[token.service if alias is None else alias] = token

    @classmethod
    def read(cls, path: StrPath) -> Credentials:
        """Return what a token file has, of either format.

        Parameters
        ----------
        path : str or os.PathLike
            A local file.

        Raises
        ------
        OSError
            It cannot be read.
        ValueError
            It is no token file; the message has its name and where it ends to be one.
        """
        with open(path, "rb") as file:
            content = file.read()
        try:
            tokens, secrets = _core.decode_credentials(content)
        except ValueError as error:
            raise ValueError(f"{os.fsdecode(path)}: {error}") from None
        return cls({alias: Token(*token) for alias, token in tokens.items()}, secrets)

    def write(self, path: StrPath, *, protobuf: bool = False) -> None:
        """Write a token file that only its owner may read; one that is there is replaced whole.

        Parameters
        ----------
        path : str or os.PathLike
            A local file.
        protobuf : bool, optional
            Whether to write the later of Hadoop's formats. Every release reads the earlier one.

        Raises
        ------
        OSError
            It cannot be written.
        """
        content = _core.encode_credentials(self.tokens, self.secrets, protobuf)
        temporary = f"{os.fsdecode(path)}.{os.urandom(8).hex()}.tmp"
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                os.replace(temporary, path)  # noqa: PTH105
            except BaseException:
                os.unlink(temporary)  # noqa: PTH108
                raise
        except OSError as failure:
            raise OSError(failure.errno, failure.strerror, os.fsdecode(path)) from failure

    @classmethod
    def of_process(cls) -> Credentials:
        """Return what the files of ``HADOOP_TOKEN_FILE_LOCATION`` and ``HADOOP_TOKEN`` have.

        Of one alias, what the latter has.

        Raises
        ------
        OSError
            A file cannot be read.
        ValueError
            It is no token file; the other variable has no tokens.
        """
        found = of_files(token_files())
        for token in tokens_by_value():
            found.add(token)
        return found


def of_files(paths: Iterable[StrPath]) -> Credentials:
    """Return what several token files have; of one alias, what the last has."""
    found = Credentials()
    for path in paths:
        one = Credentials.read(path)
        found.tokens.update(one.tokens)
        found.secrets.update(one.secrets)
    return found


def tokens_by_value() -> list[Token]:
    """Return the tokens that ``HADOOP_TOKEN`` has, by commas.

    Raises
    ------
    ValueError
        There is something else.
    """
    try:
        return [*map(Token.from_url_string, listed(os.environ.get(TOKEN_BY_VALUE, "")))]
    except ValueError as error:
        raise ValueError(f"{TOKEN_BY_VALUE}: {error}") from None


def token_files() -> list[str]:
    """Return the files that ``HADOOP_TOKEN_FILE_LOCATION`` names, by commas."""
    return listed(os.environ.get(TOKEN_FILE, ""))
