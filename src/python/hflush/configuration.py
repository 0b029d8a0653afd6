"""Hadoop's configuration: its ``*-site.xml`` files, then what the program sets.

Keys are Hadoop's own, old names included. Sizes take Hadoop's binary prefixes (``128m``), times
its units (``30s``), values may refer to other keys (``${dfs.nameservices}``) and to the environment
(``${env.HOME}``, ``${env.USER:-nobody}``).
"""

# pathlib would be a third of the time that `import hflush` takes.
# ruff: noqa: PTH110, PTH111, PTH112, PTH116, PTH118, PTH120, PTH208

from __future__ import annotations

import contextlib
import errno
import operator
import os
from collections.abc import Iterator, Mapping, MutableMapping

from . import paths
from .deprecations import RENAMED, names_of_today
from .warn import warn_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable
    from typing import Any, TypeAlias, TypeVar
    from xml.etree.ElementTree import Element

    T = TypeVar("T")
    Value: TypeAlias = str | bool | int | float
    # Of one resource: name -> (value or None, is final, the name under which it is written).
    Resource: TypeAlias = "dict[str, tuple[str | None, bool, str]]"

__all__ = ["Configuration", "parse_size", "parse_time"]

# Values before any file is read: the few defaults of core-default.xml that hflush uses.
DEFAULTS: Mapping[str, str] = {
    "fs.defaultFS": "file:///",
    "fs.file.checksum": "false",
    "file.bytes-per-checksum": "512",
    "fs.local.block.size": "32m",
    "hadoop.tmp.dir": "${java.io.tmpdir}/hadoop-${user.name}",
}

# Names whose values must not be seen, in any store's keys: what Hadoop redacts by default, the rest
# of S3's credentials, and the old names of both.
_SECRET_NAMES = "|".join(
    (
        "(?:secret|password|passwd|passphrase|credentials?)$",
        r"ssl\.(?:[a-z]+\.)*keystore\.(?:key)?pass$",
        r"^fs\.s3[an]?\..*(?:access|secret|session|encryption)\.?key$",
        r"(?:secret|session|private)[._-]?(?:key|token)$",
        "aws(?:access|secretaccess)key(?:id)?$",
        r"^fs\.azure\.(?:.*\.)?(?:account\.key|sas|client\.secret)\.",
        r"oauth.*token$",
        r"^hadoop\.tokens$",
    )
)
SENSITIVE_KEYS = "hadoop.security.sensitive-config-keys"
# Hadoop hides these in its listings. They travel: without them another host would write otherwise.
_NEVER_SECRET = frozenset(
    (SENSITIVE_KEYS, "fs.s3a.encryption.algorithm", "fs.s3a.server-side-encryption-algorithm")
)
# Where data are is no secret, whatever its name: a link may be called /data/secret.
_NEVER_SECRET_FAMILY = "fs.viewfs."
# An encryption key is a secret. The name of a key that the store keeps is not: without it another
# host would write under another key, unnoticed.
_S3A = "fs.s3a."
_ENCRYPTION_KEYS = ("server-side-encryption.key", "encryption.key")
_ENCRYPTION_ALGORITHMS = ("server-side-encryption-algorithm", "encryption.algorithm")
_KEPT_BY_THE_STORE = frozenset(("SSE-KMS", "DSSE-KMS"))

# What Hadoop's clients of HDFS and S3 load, in their order.
_SITE_FILES = ("core-site.xml", "hdfs-site.xml", "hdfs-rbf-site.xml")
MORE_FILES = "hflush.conf.files"
# The variables that lead to them: to their directory, else to that of an installation.
_CONF_DIRECTORIES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_HOMES = ("HADOOP_HOME", "HADOOP_PREFIX")
# The variables that name the files of a process' tokens, and that have tokens by value.
TOKEN_FILE = "HADOOP_TOKEN_FILE_LOCATION"
TOKEN_BY_VALUE = "HADOOP_TOKEN"
_MAX_SUBSTITUTIONS = 20  # Hadoop: Configuration.MAX_SUBST
_MAX_INCLUDES = 20
_SIZE_PREFIXES = {"k": 10, "m": 20, "g": 30, "t": 40, "p": 50, "e": 60}
# In the order in which Hadoop looks for them: "ns" ends in "s".
_TIME_UNITS = {
    **{"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0},
    "min": 60.0,  # Spark's
}
_INT64 = range(-(1 << 63), 1 << 63)  # Java's long


class Configuration(MutableMapping[str, str]):
    """Hadoop's keys and values, as a mutable mapping of strings.

    Parameters
    ----------
    load_defaults : bool
        Read the built-in defaults, then ``core-site.xml``, ``hdfs-site.xml`` and
        ``hdfs-rbf-site.xml`` of ``HADOOP_CONF_DIR`` or else ``YARN_CONF_DIR`` (of several
        directories, by colons, each from the first that has it), or else of
        ``$HADOOP_HOME/etc/hadoop`` (of ``$HADOOP_HOME/conf`` if there is a ``hadoop-env.sh``;
        ``HADOOP_PREFIX`` is its older name), then the files that ``hflush.conf.files`` names in
        them. Later files override earlier ones, except for keys marked ``final``. A
        HADOOP_CONF_DIR that has none of these files is warned of; so is such a YARN_CONF_DIR, if
        HADOOP_HOME leads to none either, which counts then.

    Raises
    ------
    OSError
        A file exists and cannot be read, or the directory cannot; a file of
        ``hflush.conf.files`` is missing.
    ValueError
        A file is not well-formed, declares entities that are no files, or is not a Hadoop
        configuration; the message names the file, and the line where it is known.

    Notes
    -----
    Reading expands ``${key}``, ``${env.NAME}``, ``${env.NAME-default}`` (used where the variable is
    not set) and ``${env.NAME:-default}`` (also where it is empty), at most 20 times; a name that
    is unknown is left as written, and so is a value that refers to itself. ``user.name``,
    ``user.home`` and ``java.io.tmpdir`` are what they are in Java: the owner of the process, also
    where requests are for another user, the directory of that account, and ``/tmp``. Setting a key
    from the program works for final keys too.

    A name that Hadoop has replaced, such as ``fs.default.name``, is the name of today: for
    reading, for setting, and in files, where the last to set a key wins, under whatever name. Each
    is warned of once in a process, in the log.

    A configuration can be pickled, with everything in it; :meth:`without_secrets` is what file
    systems send.
    Source: Hadoop's ``org.apache.hadoop.conf.Configuration``.

    Examples
    --------
    >>> conf = Configuration(load_defaults=False)
    >>> conf["dfs.blocksize"] = "128m"
    >>> conf.get_long_bytes("dfs.blocksize")
    134217728
    """

    def __init__(self, load_defaults: bool = True) -> None:
        if not isinstance(load_defaults, bool):
            raise TypeError(f"load_defaults must be bool, not {type(load_defaults).__name__}")
        self._values: dict[str, str] = {}
        self._final: set[str] = set()
        self._written_as: dict[str, str] = {}  # the old names of those that were set so
        self._set: set[str] = set()  # by the program
        if load_defaults:
            self._values.update(DEFAULTS)
            for path in _site_files(os.environ):
                self.add_resource(path)
            self._add_more()

    @classmethod
    def of(cls, conf: Mapping[str, Value] | None) -> Configuration:
        """Return what ``conf=`` means: None is the default, a mapping is set on top of it."""
        if isinstance(conf, Configuration):
            return conf
        if conf is not None and not isinstance(conf, Mapping):
            raise TypeError(f"conf must be a mapping, not {type(conf).__name__}")
        configuration = cls()
        if conf is not None:
            if MORE_FILES in conf:
                configuration[MORE_FILES] = conf[MORE_FILES]
                configuration._add_more()
            configuration.update(conf)
        return configuration

    def _add_more(self) -> None:
        """Read the files that a key names, those of Hadoop's directory by their names alone."""
        directories = _configured_directories(os.environ)[1] or [""]
        for name in self.get(MORE_FILES, "").replace(",", " ").split():
            try:
                file = paths.local(os.path.expanduser(name))
            except ValueError:
                expected = "local files by commas, as /a/b.xml, file:///a/b.xml or b.xml"
                raise self.bad_value(MORE_FILES, name, expected) from None
            places = [os.path.join(directory, file) for directory in directories]
            path = next(filter(os.path.exists, places), places[0])
            if not os.path.exists(path):
                raise FileNotFoundError(errno.ENOENT, f"{MORE_FILES} names a missing file", path)
            self.add_resource(path)

    def add_resource(self, path: str | os.PathLike[str]) -> None:
        """Read one XML file on top; final keys of files read before keep their values.

        So do the keys that the program has set, and those whose value is empty in the file.

        Raises
        ------
        OSError
            The file is missing or cannot be read.
        ValueError
            It is malformed; names the file, and the line where it is known.
        """
        for name, (value, final, written) in _read_resource(os.fspath(path)).items():
            if value is not None and name not in self._final and name not in self._set:
                self._put(name, value, written)
            if final:
                self._final.add(name)

    def _put(self, name: str, value: str, written: str) -> None:
        self._values[name] = value
        if written != name:
            self._written_as[name] = written
            names_of_today(written)  # warns
        else:
            self._written_as.pop(name, None)

    # --- the mapping ---

    def __getitem__(self, key: str) -> str:
        return self._expand(_today(key))

    def __setitem__(self, key: str, value: Value) -> None:
        written, text = _checked_key(key), to_text(value)
        for name in RENAMED.get(written, (written,)):
            self._put(name, text, written)
            self._set.add(name)

    def __delitem__(self, key: str) -> None:
        del self._values[_today(key)]
        for name in RENAMED.get(key.strip(), (key.strip(),)):
            self._values.pop(name, None)
            self._final.discard(name)
            self._set.discard(name)
            self._written_as.pop(name, None)

    def clear(self) -> None:
        """Remove every key, whether or not its value can be read."""
        self._values.clear()
        self._final.clear()
        self._set.clear()
        self._written_as.clear()

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return _today(key) in self._values

    def __repr__(self) -> str:
        return f"<Configuration: {len(self)} keys>"

    if TYPE_CHECKING:  # values of other types are stored as Hadoop's strings

        def update(self, *args: object, **kwargs: Value) -> None:
            """Set the keys of a mapping."""

    def copy(self) -> Configuration:
        """Return an independent configuration with the same contents."""
        copied = Configuration(load_defaults=False)
        copied._values.update(self._values)
        copied._final.update(self._final)
        copied._set.update(self._set)
        copied._written_as.update(self._written_as)
        return copied

    __copy__ = copy

    def raw_items(self) -> list[tuple[str, str]]:
        """Return keys and values as they were written, with nothing expanded."""
        return list(self._values.items())

    def is_secret(self, key: str) -> bool:
        """Whether the value of a key must not be seen: a password, a secret key, a token.

        By its name, per-bucket forms included, or as ``hadoop.security.sensitive-config-keys`` of
        this configuration says (regular expressions, which may match anywhere in a name).
        ``fs.s3a.encryption.key`` is not secret where the algorithm says that it names a KMS key.
        """
        key = key.strip()
        return (
            key not in _NEVER_SECRET
            and not key.startswith(_NEVER_SECRET_FAMILY)
            and any(pattern.search(key) is not None for pattern in self._secret_names())
            and not self._names_key_of_store(key)
        )

    def _names_key_of_store(self, key: str) -> bool:
        """Whether a value is the name of an encryption key that the store keeps."""
        name = next((name for name in _ENCRYPTION_KEYS if key.endswith(name)), None)
        scope = key.removesuffix(name) if name else ""
        if scope != _S3A and not (scope.startswith(f"{_S3A}bucket.") and scope.endswith(".")):
            return False
        used = self._encryption_algorithms(scope) or self._encryption_algorithms(_S3A)
        if scope == _S3A:  # also used by buckets without their own key
            for bucket in self._bucket_scopes():
                if not any(bucket + own in self._values for own in _ENCRYPTION_KEYS):
                    used |= self._encryption_algorithms(bucket)
        used.discard("AES256")  # it has no key
        return bool(used) and used <= _KEPT_BY_THE_STORE

    def _encryption_algorithms(self, scope: str) -> set[str]:
        texts = [self._text(scope + name) for name in _ENCRYPTION_ALGORITHMS]
        return {text.upper() for text in texts if text}

    def _bucket_scopes(self) -> set[str]:
        """Return the prefixes of the keys that name the algorithm of one bucket."""
        return {
            key.removesuffix(name)
            for key in self._values
            for name in _ENCRYPTION_ALGORITHMS
            if key.startswith(f"{_S3A}bucket.") and key.endswith(f".{name}")
        }

    def _secret_names(self) -> list[re.Pattern[str]]:
        more = self._values.get(SENSITIVE_KEYS, "")
        return [_compiled(_SECRET_NAMES), *map(_compiled, more.replace(",", "\n").split())]

    def default_file_system(self) -> str:
        """Return ``fs.defaultFS`` as Hadoop reads it: trimmed, ``host:port`` is one of HDFS.

        Raises
        ------
        ValueError
            It is blank.
        """
        text = self.get("fs.defaultFS", DEFAULTS["fs.defaultFS"]).strip()
        if not text:
            name = self.written_as("fs.defaultFS")
            raise ValueError(f"{name} is blank: it must be a URL such as hdfs://host:port/")
        if text == "local":
            return "file:///"
        return f"hdfs://{text}" if ":" in text and "/" not in text else text

    def without_secrets(self) -> Configuration:
        """Return a copy without :meth:`secret_keys`."""
        copied = self.copy()
        for key in self.secret_keys():
            del copied[key]
        return copied

    def secret_keys(self) -> set[str]:
        """Return the keys that are secret, and those that refer to them or that they refer to.

        By ``${key}``, in one step or several.
        """
        secret = {key for key in self._values if self.is_secret(key)}
        found = set(secret)
        for key, text in self._values.items():
            if "${" not in text:
                continue
            used: set[str] = set()
            with contextlib.suppress(ValueError):  # it has no value
                self._expand(key, used)
            if key in secret:
                found |= used
            elif not secret.isdisjoint(used):
                found.add(key)
        return found

    def identity(self) -> frozenset[tuple[str, str]]:
        """Return a value that is equal for configurations of equal content.

        What they take from the environment included.
        """
        return frozenset(self.items_to_send())

    def settled(self) -> Configuration:
        """Return a copy that means the same later and elsewhere: see :meth:`items_to_send`."""
        copied = self.copy()
        copied._values.update(self.items_to_send())
        return copied

    def items_to_send(self) -> list[tuple[str, str]]:
        """Return keys and values as they mean the same elsewhere: with what the process says.

        Its environment and user, that is, but in built-in defaults. References to keys stay, as a
        bucket may have others; so does the directory of temporary files, which is the host's.
        """
        return [
            (key, self._to_send(key, text) if "${" in text else text)
            for key, text in self._values.items()
        ]

    def _to_send(self, key: str, text: str) -> str:
        if DEFAULTS.get(key) == text:
            return text
        import re

        def said(found: re.Match[str]) -> str:
            value = None if found[1] in self else self._resolve(found[1])
            return found[0] if value is None else value

        for _ in range(_MAX_SUBSTITUTIONS):
            before, text = text, re.sub(r"\$\{((?:env\.|user\.)[^ ${}]+)\}", said, text)
            if text == before:
                break
        return text

    # --- typed reading: a value that is empty or blank is not set ---

    def get_raw(self, key: str, default: str | None = None) -> str | None:
        """Return the value as it was written, with nothing expanded."""
        return self._values.get(_today(key), default)

    def written_as(self, key: str) -> str:
        """Return the name under which a key was set: an old one, or itself."""
        return self._written_as.get(key, key)

    def get_bool(self, key: str, default: bool = False) -> bool:
        """Return the value of `key` as a bool.

        Raises
        ------
        ValueError
            It is neither ``true`` nor ``false``, in any case.
        """
        return self._read(key, default, parse_bool, "true or false")

    def get_int(self, key: str, default: int = 0) -> int:
        """Return the value of `key` as an int: decimal, or hexadecimal after ``0x``.

        Raises
        ------
        ValueError
            It is not a whole number, or has more than 64 bits.
        """
        return self._read(key, default, parse_whole, "a whole number")

    def get_float(self, key: str, default: float = 0.0) -> float:
        """Return the value of `key` as a float.

        Raises
        ------
        ValueError
            It is not a number.
        """
        return self._read(key, default, float, "a number")

    def get_long_bytes(self, key: str, default: int = 0) -> int:
        """Return the value of `key` as a number of bytes: ``134217728``, ``128m``, ``1g``.

        Raises
        ------
        ValueError
            It is neither a whole number nor one with a binary prefix of k m g t p e.
        """
        return self._read(key, default, parse_size, "a size such as 131072, 128k or 1g")

    def get_time(self, key: str, default: float = 0.0, unit: str = "ms") -> float:
        """Return the value of `key` as a time in seconds: ``30s``, ``2m``, ``500ms``.

        Parameters
        ----------
        key : str
            The key.
        default : float
            Seconds, where the key is not set.
        unit : str
            What a bare number counts: ns, us, ms, s, m, h or d.

        Raises
        ------
        ValueError
            It is not a whole number with such a unit.
        """
        return self._read(
            key, default, lambda text: parse_time(text, unit), "a time such as 500ms, 30s or 2m"
        )

    # --- inside ---

    def bad_value(self, key: str, text: str, expected: str) -> ValueError:
        """Return the error of a bad value; it shows no secret."""
        shown = "its present value (a secret)" if self.is_secret(key) else repr(text)
        return ValueError(f"{self.written_as(key)} must be {expected}, not {shown}")

    def _read(self, key: str, default: T, parse: Callable[[str], T], expected: str) -> T:
        text = self._text(key)
        if not text:
            return default
        try:
            return parse(text)
        except ValueError:
            raise self.bad_value(key, text, expected) from None

    def _text(self, key: str) -> str | None:
        return self._expand(_today(key)).strip() if key in self else None

    def _expand(self, key: str, used: set[str] | None = None) -> str:
        """Return the value of a key of today; add the keys that it is made of to `used`."""
        expanded = self._values[key]
        seen: set[str] = set()
        for _ in range(_MAX_SUBSTITUTIONS):
            span = _innermost_reference(expanded)
            if span is None:
                return expanded
            start, end = span
            reference = expanded[start + 2 : end - 1]
            if used is not None and reference in self:
                used.add(_today(reference))
            value = self._resolve(reference)
            if value is None:
                return expanded  # a name that is unknown stays as written, as in Hadoop
            if expanded[start:end] in value:
                return self._values[key]  # and so does a value that refers to itself
            if expanded in seen:
                raise ValueError(f"{self.written_as(key)}: variable substitution never ends")
            seen.add(expanded)
            expanded = expanded[:start] + value + expanded[end:]
        if _innermost_reference(expanded) is None:
            return expanded
        deeper = f"variable substitution deeper than {_MAX_SUBSTITUTIONS}"
        raise ValueError(f"{self.written_as(key)}: {deeper}")

    def _resolve(self, reference: str) -> str | None:
        if reference.startswith("env."):
            return _environment(reference[4:])
        if reference in self:
            return self._values[_today(reference)]
        return _process_property(reference)


def parse_bool(text: str) -> bool:
    """Return what ``true`` and ``false`` mean, in any case.

    Raises
    ------
    ValueError
        Another text.
    """
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError(f"neither true nor false: {text!r}")
    return lowered == "true"


def parse_whole(text: str) -> int:
    """Return a whole number of at most 64 bits: decimal, or hexadecimal after ``0x``.

    Raises
    ------
    ValueError
        Malformed text.
    """
    if "_" in text:
        raise ValueError(f"not a whole number: {text!r}")
    return _as_long(int(text, 16 if _is_hexadecimal(text) else 10))


def parse_size(value: str | int) -> int:
    """Return a number of bytes: an int, or text with an optional binary prefix of k m g t p e.

    Raises
    ------
    TypeError
        Neither str nor int.
    ValueError
        Malformed text.
    """
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError(f"a size must be int or str, not {type(value).__name__}")
    if isinstance(value, int):
        return value
    text = value.strip()
    shift = 0 if _is_hexadecimal(text) else _SIZE_PREFIXES.get(text[-1:].lower(), 0)
    try:
        return _as_long(parse_whole(text[:-1] if shift else text) << shift)
    except ValueError:
        raise ValueError(f"not a size such as 131072, 128k or 1g: {value!r}") from None


def listed(text: str) -> list[str]:
    """Return what commas or line ends separate, as names of files that may have blanks."""
    parts = (part.strip() for part in text.replace("\n", ",").split(","))
    return [part for part in parts if part]


def parse_time(text: str, unit: str = "ms") -> float:
    """Return seconds: a whole number, and its unit of ns us ms s m min h d if that is not `unit`.

    Nothing is cut off: Hadoop rounds down to the unit that the key is read in.

    Raises
    ------
    ValueError
        Malformed text.
    """
    stripped = text.strip().lower()
    found = _unit_of(stripped)
    try:
        return parse_whole(stripped.removesuffix(found)) * _TIME_UNITS[found or unit]
    except (KeyError, ValueError):
        raise ValueError(f"not a time such as 500ms, 30s or 2m: {text!r}") from None


def has_unit(text: str) -> bool:
    """Whether a time names its unit."""
    return _unit_of(text.strip().lower()) != ""


def _as_long(number: int) -> int:
    if number not in _INT64:
        raise ValueError(f"more than 64 bits: {number}")
    return number


def _unit_of(text: str) -> str:
    """Return the unit that a time in lower case ends with; empty if it names none."""
    if _is_hexadecimal(text):
        return ""
    return next((unit for unit in _TIME_UNITS if text.endswith(unit)), "")


def _is_hexadecimal(text: str) -> bool:
    """Whether letters at the end of a number are digits, rather than a unit."""
    return text.strip().lower().lstrip("+-").startswith("0x")


def to_text(value: Value) -> str:
    """Return a value as Hadoop writes it: ``true``, ``42``, ``0.5``.

    A float without a fraction becomes a whole number, which Hadoop reads as either.

    Raises
    ------
    TypeError
        Neither str, bool, int nor float, nor a type that stands for one, as numpy's do.
    """
    if getattr(value, "shape", None) == ():  # of numpy
        value = value.item()  # type: ignore[union-attr]
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        is_whole = value.is_integer() and int(value) in _INT64
        return int.__repr__(int(value)) if is_whole else float.__repr__(value)
    if hasattr(value, "__index__"):
        return int.__repr__(operator.index(value))
    raise TypeError(
        f"a configuration value must be str, bool, int or float, not {type(value).__name__}"
    )


def _checked_key(key: str) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a configuration key must be str, not {type(key).__name__}")
    if not key.strip():
        raise ValueError("a configuration key must not be empty")
    return key.strip()


def _today(key: Any) -> Any:
    """Return the trimmed name of today, the first of several; what is no text as it is."""
    if not isinstance(key, str):
        return key
    trimmed = key.strip()
    return RENAMED[trimmed][0] if trimmed in RENAMED else trimmed


def _compiled(pattern: str) -> re.Pattern[str]:
    """Return a regular expression; of text that is not one to Python, as Java's may be, itself."""
    import re

    try:
        return re.compile(pattern, re.IGNORECASE)
    except re.error:
        return re.compile(re.escape(pattern), re.IGNORECASE)


def _innermost_reference(text: str) -> tuple[int, int] | None:
    """Return start and end of the first ``${…}`` that contains no other, no blank and no dollar."""
    end = text.find("}")
    while end >= 0:
        start = text.rfind("${", 0, end)
        name = text[start + 2 : end] if start >= 0 else ""
        if name and " " not in name and "$" not in name:
            return start, end + 1
        end = text.find("}", end + 1)
    return None


def _environment(reference: str) -> str | None:
    name, dash, default = reference.partition("-")
    if not dash:
        return os.environ.get(name)
    if name.endswith(":"):
        return os.environ.get(name[:-1]) or default
    return os.environ.get(name, default)


def _process_property(name: str) -> str | None:
    """Return a system property of Java, which no variable of the environment changes."""
    if name == "user.name":
        return _account(os.getuid())[0]
    if name == "user.home":
        return _account(os.getuid())[1]
    if name == "java.io.tmpdir":
        return "/tmp"
    return None


def user_name() -> str:
    """Return the user that requests are for: ``HADOOP_PROXY_USER``, else the real user."""
    return os.environ.get("HADOOP_PROXY_USER") or real_user_name()


def real_user_name() -> str:
    """Return the real user, without Kerberos: ``HADOOP_USER_NAME``, else the process' user.

    Before that, in a worker of PySpark, the user of its application: ``SPARK_USER``, who writes
    where Spark's own tasks write, and not the owner of the container.
    """
    named = os.environ.get("HADOOP_USER_NAME")
    if not named and os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
        named = os.environ.get("SPARK_USER")
    return named or _account(os.geteuid())[0]


def caller() -> tuple[str, ...]:
    """Return who calls, by all that the environment says: users, and their tokens."""
    tokens = [os.environ.get(name, "") for name in (TOKEN_FILE, TOKEN_BY_VALUE)]
    return user_name(), real_user_name(), *tokens


# Users by their numbers, asked for once: a directory service may have to be asked.
_accounts: dict[int, tuple[str, str]] = {}


def _account(uid: int) -> tuple[str, str]:
    """Return the name and the home directory of a user."""
    account = _accounts.get(uid)
    if account is None:
        import pwd

        try:
            entry = pwd.getpwuid(uid)
            account = entry.pw_name, entry.pw_dir
        except KeyError:
            account = str(uid), os.path.expanduser("~")
        _accounts[uid] = account
    return account


# --- files ----------------------------------------------------------------------------------------

# Parsed files by path, with the identity under which they were read: many configurations read once.
_parsed: dict[str, tuple[tuple[int, int, int], Resource]] = {}


def _configured_directories(environment: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the directories of Hadoop's files, after what names them; both empty without one."""
    unhelpful: tuple[str, list[str]] = ("", [])
    for variable in _CONF_DIRECTORIES:
        if text := environment.get(variable):
            # A part of the class path: some tools name several, as Cloudera's Spark does.
            is_one = os.pathsep not in text or os.path.isdir(text)
            named = [text] if is_one else list(filter(None, text.split(os.pathsep)))
            if variable == _CONF_DIRECTORIES[0] or _may_have_site_files(named):
                return variable, named
            unhelpful = variable, named
    for variable in _HOMES:
        if home := environment.get(variable):  # as Hadoop's own scripts do
            older = os.path.join(home, "conf")
            is_older = os.path.exists(os.path.join(older, "hadoop-env.sh"))
            return variable, [older if is_older else os.path.join(home, "etc", "hadoop")]
    return unhelpful


def _may_have_site_files(directories: list[str]) -> bool:
    """Whether directories of YARN's have Hadoop's files, too, or may not be looked into."""
    return any(map(_has_site_files, directories))


def _has_site_files(directory: str) -> bool:
    try:
        return not set(_SITE_FILES).isdisjoint(os.listdir(directory))
    except OSError as refusal:
        return isinstance(refusal, PermissionError)


def sources() -> tuple[str, ...]:
    """Return what the environment says of where Hadoop's files are."""
    return tuple(os.environ.get(name, "") for name in (*_CONF_DIRECTORIES, *_HOMES))


def _site_files(environment: Mapping[str, str]) -> list[str]:
    variable, directories = _configured_directories(environment)
    present: dict[str, str] = {}
    why = "is none"
    for directory in directories:
        why = f"has none of {', '.join(_SITE_FILES)}"
        names: list[str] = []
        try:
            names = os.listdir(directory)
        except FileNotFoundError:
            why = "does not exist"
        except NotADirectoryError:
            why = "is not a directory"
        except PermissionError as refusal:  # files in it may be found by their names all the same
            names = [n for n in _SITE_FILES if os.path.exists(os.path.join(directory, n))]
            if not names and _SITE_FILES[0] not in present:
                why = f"{variable} leads to a directory that may not be read"
                raise PermissionError(refusal.errno, why, directory) from refusal
        for name in names:
            present.setdefault(name, os.path.join(directory, name))
    if found := [present[name] for name in _SITE_FILES if name in present]:
        return found
    if variable in _CONF_DIRECTORIES:
        warn_once(
            f"{variable} leads to {os.pathsep.join(directories)}, which {why}: Hadoop's "
            "configuration is not read, and a path without a scheme is one of "
            f"{DEFAULTS['fs.defaultFS']}",
        )
    return []


def _read_resource(path: str, depth: int = 0) -> Resource:
    status = os.stat(path)
    identity = (status.st_mtime_ns, status.st_size, status.st_ino)
    known = _parsed.get(path)
    if known is not None and known[0] == identity:
        return known[1]
    root, has_files = _parse_xml(path)
    if _local_name(root) != "configuration":
        raise ValueError(f"{path}: line 1: the top element is <{root.tag}>, not <configuration>")
    resource: Resource = {}
    included = _collect(root, path, depth, resource)
    if not (included or has_files):  # those can change without this one
        _parsed[path] = (identity, resource)
    return resource


def _parse_xml(path: str) -> tuple[Element, bool]:
    """Return the top element of a file, and whether other files are entities in it."""
    try:
        from defusedxml import ElementTree
        from defusedxml.common import DefusedXmlException
    except ImportError as missing:
        raise ImportError(
            f"reading {path} needs the package 'defusedxml': pip install defusedxml"
        ) from missing
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as malformed:
        line = malformed.position[0]
        raise ValueError(f"{path}: line {line}: not well-formed XML: {malformed}") from malformed
    except DefusedXmlException as forbidden:
        if getattr(forbidden, "sysid", None) is None:
            raise ValueError(f"{path}: entities are not allowed: {forbidden}") from forbidden
        return _parse_with_files(path), True
    except (LookupError, ValueError) as unknown:
        raise ValueError(f"{path}: line 1: its encoding is not supported: {unknown}") from unknown
    if root is None:
        raise ValueError(f"{path}: line 1: it has no element")
    return root, False


def _parse_with_files(path: str) -> Element:
    """Read a file in which entities are other local files, as Hadoop does; no others may be."""
    from xml.etree.ElementTree import TreeBuilder
    from xml.parsers import expat

    builder = TreeBuilder()
    parser = expat.ParserCreate(namespace_separator="}")

    def parse(name: str, how: expat.XMLParserType) -> None:
        try:
            with open(name, "rb") as file:
                how.ParseFile(file)
        except expat.ExpatError as malformed:
            why = f"line {malformed.lineno}: not well-formed XML: {malformed}"
            raise ValueError(f"{name}: {why}") from malformed

    def start(name: str, attributes: dict[str, str]) -> None:
        builder.start(_clark(name), attributes)

    def declare(name: str, is_parameter: bool, value: str | None, *_: object) -> None:
        if is_parameter or value is not None:
            raise ValueError(f"{path}: entities are not allowed unless they are files: {name}")

    def include(context: str, _base: str | None, system: str | None, _id: str | None) -> int:
        parse(_beside(path, system or ""), parser.ExternalEntityParserCreate(context))
        return 1

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda name: builder.end(_clark(name))
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = declare
    parser.ExternalEntityRefHandler = include
    parse(path, parser)
    return builder.close()


def _clark(name: str) -> str:
    """Return a name as ElementTree has it, with the name space in braces."""
    return "{" + name if "}" in name else name


def _beside(path: str, name: str) -> str:
    """Return the path of a file that another one, the first, names."""
    try:
        return os.path.join(os.path.dirname(path), paths.local(name))
    except ValueError:
        raise ValueError(f"{path}: only local files can be included, not {name!r}") from None


def _local_name(element: Element) -> str:
    """Return the name of an element without its name space, which Hadoop does not look at."""
    return element.tag.rpartition("}")[2]


def _collect(parent: Element, path: str, depth: int, into: Resource) -> bool:
    """Put the properties below `parent` into `into`; says whether another file was included."""
    included = False
    for element in parent:
        name = _local_name(element)
        if name == "property":
            _add_property(element, into)
        elif name == "include":
            _include(element, path, depth, into)
            included = True
        else:  # Hadoop looks into every element, and knows the names of few
            if name != "configuration":
                warn_once(f"{path}: <{element.tag}> means nothing in a Hadoop configuration")
            included |= _collect(element, path, depth, into)
    return included


def _add_property(element: Element, into: Resource) -> None:
    name, value, final = element.get("name"), element.get("value"), element.get("final")
    for field in element:
        tag = _local_name(field)
        if tag == "name":
            name = field.text
        elif tag == "value":
            value = field.text or value
        elif tag == "final":
            final = field.text
    if not name or not name.strip():
        return  # ignored, as in Hadoop; without a value it may still be final
    written = name.strip()
    is_final = (final or "").strip().lower() == "true"
    for today in RENAMED.get(written, (written,)):
        _add(into, today, value, is_final, written)


def _add(into: Resource, name: str, value: str | None, is_final: bool, written: str) -> None:
    earlier, was_final, before = into.get(name, (None, False, written))
    if was_final:
        return
    if value is None:
        into[name] = (earlier, is_final, before)
    else:
        into[name] = (value, is_final, written)


def _include(element: Element, path: str, depth: int, into: Resource) -> None:
    href = element.get("href") or ""
    if not href or depth >= _MAX_INCLUDES:
        raise ValueError(
            f"{path}: {'includes are nested too deep' if href else 'an include without href'}"
        )
    target = _beside(path, href)
    fallback = element.find("{*}fallback")
    if fallback is not None and not os.path.exists(target):
        _collect(fallback, path, depth, into)
        return
    for name, included in _read_resource(target, depth + 1).items():
        _add(into, name, *included)
