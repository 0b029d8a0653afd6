"""How files are created and opened: flags, keys of options, and the meaning of values."""

from __future__ import annotations

import enum
import math
import operator

from .configuration import parse_size
from .spelling import did_you_mean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeAlias, TypeVar

    T = TypeVar("T")
    OptionValue: TypeAlias = "str | bool | int | float | Sequence[str] | Callable[[], None]"
    Options: TypeAlias = "dict[str, tuple[OptionValue, Wish]]"

__all__ = ["CreateFlag", "CreateOptions", "Rename"]

# Keys of options that mean the same on every store; a store's own begin with fs.SCHEME.
PERMISSION = "fs.option.create.permission"
BUFFER_SIZE = "fs.option.create.buffer.size"
REPLICATION = "fs.option.create.replication"
BLOCK_SIZE = "fs.option.create.block.size"
PROGRESS = "fs.option.create.progress"
CHECKSUM_TYPE = "fs.option.create.checksum.type"
BYTES_PER_CHECKSUM = "fs.option.create.bytes.per.checksum"
SYNC_ON_CLOSE = "fs.option.create.sync.on.close"
CONDITIONAL_OVERWRITE = "fs.option.create.conditional.overwrite"
CONDITIONAL_ETAG = "fs.option.create.conditional.overwrite.etag"
CONTENT_TYPE = "fs.option.create.content.type"
IN_CLOSE = "fs.option.create.in.close"
ATOMIC = "fs.option.create.atomic"
# What close() does where an exception brings it about: abort or publish.
ON_EXCEPTION = "hflush.close.on-exception"

CREATE_KEYS = frozenset(
    (
        PERMISSION,
        BUFFER_SIZE,
        REPLICATION,
        BLOCK_SIZE,
        PROGRESS,
        CHECKSUM_TYPE,
        BYTES_PER_CHECKSUM,
        SYNC_ON_CLOSE,
        ATOMIC,
        ON_EXCEPTION,
    )
)
MAX_REPLICATION = 0x7FFF
_MAX_CHUNK = 0xFFFFFFFF
# Those that mean something for a file that is there already.
APPEND_KEYS = frozenset((BUFFER_SIZE, PROGRESS, SYNC_ON_CLOSE, ATOMIC, ON_EXCEPTION))

READ_POLICY = "fs.option.openfile.read.policy"
LENGTH = "fs.option.openfile.length"
SPLIT_START = "fs.option.openfile.split.start"
SPLIT_END = "fs.option.openfile.split.end"
OPEN_BUFFER_SIZE = "fs.option.openfile.buffer.size"
FOOTER_CACHE = "fs.option.openfile.footer.cache"

# What a caller may know before; not needed here.
SIZES_KNOWN = frozenset((LENGTH, SPLIT_START, SPLIT_END))
# Hadoop's standard ones: every store takes them, though most are hints to other readers.
OPEN_KEYS = frozenset((READ_POLICY, LENGTH, SPLIT_START, SPLIT_END, OPEN_BUFFER_SIZE, FOOTER_CACHE))

_LONGEST = (1 << 63) - 1


class Wish(enum.Enum):
    """How much an option matters."""

    HINT = enum.auto()  # ignored where it is unknown, malformed or not supported
    ASKED = (
        enum.auto()
    )  # a named setting: must be well-formed, and is ignored where it means nothing
    MUST = enum.auto()  # refused with ValueError where it is unknown, malformed or not supported


class CreateFlag(enum.Flag):
    """What create may do, as in Hadoop's FileContext: pass a set, or several joined by ``|``.

    The flags below APPEND say how the file is kept, and are hints where a store cannot do so.
    """

    __module__ = "hflush"

    CREATE = enum.auto()
    OVERWRITE = enum.auto()
    APPEND = enum.auto()
    SYNC_BLOCK = enum.auto()  # each block is on disk when it is complete
    LAZY_PERSIST = enum.auto()  # in memory first, on disk some time later
    NEW_BLOCK = enum.auto()  # append begins a block instead of filling up the last
    NO_LOCAL_WRITE = enum.auto()  # no replica on the writer's own host
    SHOULD_REPLICATE = enum.auto()  # replicas also where the directory would erasure-code
    IGNORE_CLIENT_LOCALITY = enum.auto()  # replicas anywhere

    @classmethod
    def joined(cls, flags: CreateFlag | Iterable[CreateFlag]) -> CreateFlag:
        """Return one flag value of one or several.

        Raises
        ------
        TypeError
            An element is not a CreateFlag.
        ValueError
            None of CREATE, OVERWRITE and APPEND is among them, or APPEND together with OVERWRITE.
        """
        value = cls(0)
        for flag in (flags,) if isinstance(flags, CreateFlag) else flags:
            if not isinstance(flag, CreateFlag):
                raise TypeError(f"flags must be CreateFlag, not {type(flag).__name__}")
            value |= flag
        if not value & (cls.CREATE | cls.OVERWRITE | cls.APPEND):
            raise ValueError(f"flags must include CREATE, OVERWRITE or APPEND: {value}")
        if cls.APPEND in value and cls.OVERWRITE in value:
            raise ValueError(f"APPEND and OVERWRITE exclude each other: {value}")
        return value


class Rename(enum.Enum):
    """What an exact rename does with a destination that exists."""

    __module__ = "hflush"

    NONE = "none"
    OVERWRITE = "overwrite"


class CreateOptions:
    """The checked options of a new stream; None where the caller gave none.

    Attributes
    ----------
    create_parent : bool
        Make missing parent directories.
    permission : int or None
        Mode bits, before the umask.
    buffer_size, replication, block_size : int or None
        Hints in bytes and copies; a buffer size of 0 hands every write to the store at once.
    checksum_type : str or None
        ``CRC32``, ``CRC32C`` or ``NULL`` for none.
    bytes_per_checksum : int or None
        Bytes per chunk.
    sync_on_close : bool or None
        Whether close persists like hsync.
    atomic : bool or None
        Whether the file appears whole and durable at close, or not at all.
    on_exception : str or None
        What close does where an exception brings it about: ``abort`` or ``publish``.
    progress : callable or None
        Called from time to time by stores on a network.
    flags : CreateFlag
        Those that say how the file is kept.
    asked : dict
        All options by key, as given: for the keys that only one store knows.
    """

    permission: int | None = None
    buffer_size: int | None = None
    replication: int | None = None
    block_size: int | None = None
    checksum_type: str | None = None
    bytes_per_checksum: int | None = None
    sync_on_close: bool | None = None
    atomic: bool | None = None
    on_exception: str | None = None
    progress: Callable[[], None] | None = None

    def __init__(
        self,
        options: Options,
        create_parent: bool = True,
        flags: CreateFlag = CreateFlag.CREATE,
    ) -> None:
        self.asked = options
        self.create_parent = create_parent
        self.flags = flags
        for key, (name, convert) in _ATTRIBUTES.items():
            if key in options:
                setattr(self, name, read(options, key, convert))
        if self.sync_on_close is None and CreateFlag.SYNC_BLOCK in flags:
            self.sync_on_close = True
        if self.atomic and CreateFlag.APPEND in flags:
            self._refuse_atomic(options, "appended bytes are visible as they are written")
        if self.atomic and self.sync_on_close is False:
            self._refuse_atomic(options, "sync_on_close=False contradicts it")
        if self.atomic:
            self.sync_on_close = True

    def _refuse_atomic(self, options: Options, reason: str) -> None:
        """Raise, unless `atomic` was only a hint."""
        if options[ATOMIC][1] is not Wish.HINT:
            raise ValueError(f"an atomic file appears whole, and on disk, or not at all: {reason}")
        self.atomic = None


_SETTINGS = {
    "permission": PERMISSION,
    "buffer_size": BUFFER_SIZE,
    "replication": REPLICATION,
    "block_size": BLOCK_SIZE,
}
# Keyword arguments that are short for keys; stores add their own (hflush.registry).
CREATE_KEYWORDS = {
    "checksum_type": CHECKSUM_TYPE,
    "bytes_per_checksum": BYTES_PER_CHECKSUM,
    "sync_on_close": SYNC_ON_CLOSE,
    "atomic": ATOMIC,
    "close_on_exception": ON_EXCEPTION,
    "progress": PROGRESS,
    "content_type": CONTENT_TYPE,
    "if_match": CONDITIONAL_ETAG,
}
OPEN_KEYWORDS = {
    "read_policy": READ_POLICY,
    "length": LENGTH,
    "split_start": SPLIT_START,
    "split_end": SPLIT_END,
}


def required(
    options: Mapping[str, object], keywords: Mapping[str, str], arguments: Iterable[str]
) -> Options:
    """Return the keyword options of create, append and open as options that must be honoured.

    A name with a dot is a key as it stands; any other is short for a shared key, as `keywords` say.
    `arguments` are the names that the function itself has.

    Raises
    ------
    TypeError
        An unknown name.
    """
    keyed: Options = {}
    for name, value in options.items():
        key = keywords.get(name, name)
        if "." not in key:
            known = sorted({*keywords, *arguments})
            raise TypeError(
                f"unknown option {name!r}{did_you_mean(name, known)}; there are {', '.join(known)}"
            )
        keyed[key] = (value, Wish.MUST)  # type: ignore[assignment]  # checked where it is read
    return keyed


def asked(**settings: OptionValue | None) -> Options:
    """Return the named settings of create that were given, by the names of the constants here."""
    return {
        _SETTINGS[name]: (value, Wish.ASKED)
        for name, value in settings.items()
        if value is not None
    }


_KEYWORD_OF = {key: name for name, key in (CREATE_KEYWORDS | OPEN_KEYWORDS).items()}


def check_known(options: Options, known: frozenset[str]) -> None:
    """Refuse mandatory options that a store does not have.

    Raises
    ------
    ValueError
        It names the first, one that is like it, and all that are known.
    """
    for key, (_, wish) in options.items():
        if wish is Wish.MUST and key not in known:
            keyword = _KEYWORD_OF.get(key)  # what some store knows is not misspelt
            also = f", {keyword}," if keyword else ""
            like = "" if keyword else did_you_mean(key, known)
            raise ValueError(
                f"mandatory option {key!r}{also} is unknown here or not supported{like}; "
                f"there are {', '.join(sorted(known))}"
            )


# --- values --------------------------------------------------------------------------------------


def read(options: Options, key: str, convert: Callable[[OptionValue], T]) -> T | None:
    """Return the converted value of an option, None if it is not given.

    Raises
    ------
    TypeError, ValueError
        The value is malformed, and not just a hint.
    """
    if key not in options:
        return None
    value, wish = options[key]
    try:
        return convert(value)
    except (TypeError, ValueError) as error:
        if wish is Wish.HINT:
            return None
        raise type(error)(f"{key}: {error}") from None


def as_int(value: OptionValue) -> int:
    """Return a whole number: an int, a float without a fraction, or text with a binary prefix."""
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(f"must be a whole number, not {value!r}")
    if isinstance(value, (float, str)):
        number = parse_size(value if isinstance(value, str) else int(value))
    elif isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"must be a whole number, not {type(value).__name__}")
    else:  # of numpy's types, too
        number = operator.index(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"must fit into 64 bits, unlike {number}")
    return number


def as_replication(value: OptionValue) -> int:
    """Return a number of replicas: a NameNode keeps of a larger one what fits into 16 bits."""
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            raise ValueError(f"must be a whole number, not {value!r}") from None
    return _at_most(MAX_REPLICATION, as_positive(value))


def as_chunk_size(value: OptionValue) -> int:
    """Return the number of bytes that have one checksum."""
    return _at_most(_MAX_CHUNK, as_positive(value))


def _at_most(limit: int, number: int) -> int:
    if number > limit:
        raise ValueError(f"must be {limit} at most, not {number}")
    return number


def as_positive(value: OptionValue) -> int:
    """Return a whole number above 0."""
    number = as_int(value)
    if number <= 0:
        raise ValueError(f"must be above 0, not {number}")
    return number


def as_size(value: OptionValue) -> int:
    """Return a number of bytes, 0 or more."""
    number = as_int(value)
    if number < 0:
        raise ValueError(f"must not be negative, not {number}")
    return number


def as_number(value: OptionValue) -> float:
    """Return a number of any size and sign, or what the text of one means."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError(f"must be a number, not {value!r}") from None
    except OverflowError:
        return math.inf


def as_bool(value: OptionValue) -> bool:
    """Return a bool, or what Hadoop's ``true`` and ``false`` mean."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ValueError(f"must be true or false, not {value!r}")


def as_permission(value: OptionValue) -> int:
    """Return mode bits: an int, or octal digits as text."""
    number = int(value, 8) if isinstance(value, str) else as_int(value)
    if not 0 <= number <= 0o7777:
        raise ValueError(f"must be mode bits from 0 to 0o7777, not {number:#o}")
    return number


def as_checksum_type(value: OptionValue) -> str:
    """Return ``CRC32``, ``CRC32C`` or ``NULL``."""
    if not isinstance(value, str):
        raise TypeError(f"a checksum type must be str, not {type(value).__name__}")
    if value.upper() not in ("CRC32", "CRC32C", "NULL"):
        raise ValueError(f"a checksum type must be CRC32, CRC32C or NULL, not {value!r}")
    return value.upper()


def as_on_exception(value: OptionValue) -> str:
    """Return ``abort`` or ``publish``."""
    if value not in ("abort", "publish"):
        raise ValueError(f"must be abort or publish, not {value!r}")
    return str(value)


def as_name(value: OptionValue) -> str:
    """Return a name, which is not empty."""
    if not isinstance(value, str):
        raise TypeError(f"must be str, not {type(value).__name__}")
    if not value.strip():
        raise ValueError("must not be empty")
    return value.strip()


def as_names(value: OptionValue) -> tuple[str, ...]:
    """Return several names, given as a sequence or as one text with commas."""
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    if callable(value) or isinstance(value, (bool, int, float)):
        raise TypeError(f"must be names, not {type(value).__name__}")
    return tuple(as_name(name) for name in value)


def as_callable(value: OptionValue) -> Callable[[], None]:
    """Return something to call."""
    if not callable(value):
        raise TypeError(f"must be callable, not {type(value).__name__}")
    return value


def flag(name: str, value: bool) -> bool:
    """Return an argument that must be a bool: the text ``"false"`` is not taken as true.

    Raises
    ------
    TypeError
        It is anything else.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be bool, not {type(value).__name__}")
    return value


def whole(name: str, value: int) -> int:
    """Return an argument that must be an int, or of a type that stands for one, as numpy's do.

    Raises
    ------
    TypeError
        It is anything else.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be int, not {type(value).__name__}") from None


def file_length(value: int) -> int:
    """Return the argument `length`, to which a file is cut.

    Raises
    ------
    TypeError, ValueError
        It is not an int; no file has that length.
    """
    length = whole("length", value)
    if not 0 <= length <= _LONGEST:
        raise ValueError(f"length={length} is negative or above that of any file")
    return length


def check_principal(name: str, value: str | None) -> None:
    """Refuse an argument that is neither the name of a user or group nor None.

    Raises
    ------
    TypeError
        It is anything else.
    """
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} must be str or None, not {type(value).__name__}")


# The attributes of CreateOptions that options of create become, in the order of their checks.
_ATTRIBUTES: dict[str, tuple[str, Callable[[OptionValue], object]]] = {
    PERMISSION: ("permission", as_permission),
    BUFFER_SIZE: ("buffer_size", as_size),
    REPLICATION: ("replication", as_replication),
    BLOCK_SIZE: ("block_size", as_positive),
    CHECKSUM_TYPE: ("checksum_type", as_checksum_type),
    BYTES_PER_CHECKSUM: ("bytes_per_checksum", as_chunk_size),
    SYNC_ON_CLOSE: ("sync_on_close", as_bool),
    ATOMIC: ("atomic", as_bool),
    ON_EXCEPTION: ("on_exception", as_on_exception),
    PROGRESS: ("progress", as_callable),
}
