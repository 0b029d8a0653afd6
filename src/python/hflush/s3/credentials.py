"""Credentials of S3: where they come from, and how a client gets newer ones in time.

A :class:`Source` gives one consistent set at a time. Keys of the configuration and the ``AWS_*``
variables need nothing but this module; everything else (profiles, SSO, instance metadata, web
identity) is botocore's, which is imported only then. Nothing here shows a secret: not a repr, not
an error. There is no silent anonymous access.
"""

from __future__ import annotations

import atexit
import errno
import logging
import os
import re
import threading
import time
import weakref
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from .. import _core
from ..configuration import user_name
from ..leaving import LeftOutError
from .keys import PARTS_OF_CREDENTIAL as _KEYS
from .keys import PROFILE_PROVIDERS, SENT_CREDENTIALS
from .profile import FILES, named_profile
from .settings import way_to

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .settings import BucketConfiguration

__all__ = [
    "Credentials",
    "Refresher",
    "Source",
    "joinable",
    "origin_of",
    "source_of",
    "to_send",
]

# Before botocore's own advisory refresh (15 minutes) has become a mandatory one (10).
_REFRESH_BEFORE_S = 12 * 60
# Where botocore does not say when credentials expire.
_REFRESH_INTERVAL_S = 5 * 60
# How long a refresher waits at a time: then it looks whether its client is still needed. Of several
# it waits for one only.
_SLICE_S = 0.5
_SHORT_SLICE_S = 0.1
# After a source had nothing newer it is asked again in so long; a server then in twice as long and
# so on: at most the second, so that a request that waits (30 s) is never too early. For what stands
# in a file, or in the environment, a request waits two seconds.
_PAUSE_AFTER_FAILURE_S = 1.0
_MAX_PAUSE_S = 15.0

_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
# The older name of the last.
_SECURITY_TOKEN = "AWS_SECURITY_TOKEN"
# What botocore alone can make credentials of.
_BEYOND_US = (
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)

_log = logging.getLogger(__name__)


class Credentials(NamedTuple):
    """One consistent set, and when it ends: seconds since the epoch, None where that is unknown.

    All empty: requests are not signed.
    """

    access_key: str = ""
    secret_key: str = ""
    session_token: str = ""
    expiry: float | None = None

    def __repr__(self) -> str:
        return "<Credentials>" if self.access_key else "<Credentials: anonymous>"


class Source(ABC):
    """Where credentials come from.

    `can_refresh` says whether there may be newer ones; `renews` whether they come by themselves. In
    a file there are others only if somebody has written them.
    """

    can_refresh = False
    renews = False

    @abstractmethod
    def get(self, newer: bool = False) -> Credentials | None:
        """Return the credentials of now, None if there are none here.

        Parameters
        ----------
        newer : bool
            A store refused those that this returned before as expired.
        """

    def own(self) -> Credentials | None:
        """Return what only this process has: of its environment, or kept in a profile.

        None where all that is configured leads to the same elsewhere, or a server is asked.
        """
        return None

    def region(self) -> str:
        """Return the region that belongs to them, empty if none does."""
        return ""


class AnonymousSource(Source):
    """None, on purpose."""

    def get(self, newer: bool = False) -> Credentials:  # noqa: ARG002
        """Return what is not signed with."""
        return Credentials()


class ConfiguredSource(Source):
    """Keys of the configuration.

    Parameters
    ----------
    keys : BucketConfiguration
        The configuration.
    token : bool, optional
        Whether they have a session token: True: they must, False: it is left out; unless given,
        they may.
    """

    def __init__(self, keys: BucketConfiguration, token: bool | None = None) -> None:
        self._keys = keys
        self._token = token

    def get(self, newer: bool = False) -> Credentials | None:  # noqa: ARG002
        """Return them if they are complete.

        Raises
        ------
        ValueError
            They are in a key store of Java, or one of a pair is missing.
        LeftOutError
            They were not sent here.
        """
        access, secret, token = (self._keys.text(key) for key in _KEYS)
        if not (access and secret):
            lost = [key for key in _KEYS if self._keys.is_left_out(key)]
            if lost:
                raise LeftOutError(" and ".join(lost))
        if not (access and secret) and (store := self._keys.key_store()):
            raise ValueError(
                f"{store} names a key store of Java, which is not read: set {_KEYS[0]} and "
                f"{_KEYS[1]} themselves, or choose another fs.s3a.aws.credentials.provider"
            )
        if bool(access) != bool(secret):
            given, missing = (_KEYS[0], _KEYS[1]) if access else (_KEYS[1], _KEYS[0])
            raise ValueError(f"{given} is set without {missing}")
        if not access or (self._token and not token):
            return None
        return Credentials(access, secret, "" if self._token is False else token)


class EnvironmentSource(Source):
    """``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY`` and ``AWS_SESSION_TOKEN``.

    Without the last ``AWS_SECURITY_TOKEN``, its older name. Those that are there when this is made
    count, or that there are none: others may be another identity's.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._last = self._read()

    @property
    def can_refresh(self) -> bool:  # type: ignore[override]
        """Whether the program may set others when these have ended."""
        return bool(self._last and self._last.session_token)

    def get(self, newer: bool = False) -> Credentials | None:
        """Return them if they were there: the first, until a store has refused those."""
        last = self._last
        found = self._read() if last and newer else None
        # Where some are the same, the rest may be about to be set.
        if last and found and all(a != b for a, b in zip(found[:3], last[:3], strict=True)):
            self._last = found
        return self._last

    own = get

    def _read(self) -> Credentials | None:
        access, secret, token = (self._environment.get(name, "") for name in _VARIABLES)
        token = token or self._environment.get(_SECURITY_TOKEN, "")
        return Credentials(access, secret, token) if access and secret else None


class SentSource(Source):
    """What the process had by itself that sent this configuration here."""

    def __init__(self, text: str) -> None:
        parts = text.split()
        if len(parts) not in (2, 3):
            raise ValueError(f"{SENT_CREDENTIALS} must be two or three words, of AWS's credentials")
        access, secret, *token = parts
        self._credentials = Credentials(access, secret, "".join(token))

    def get(self, newer: bool = False) -> Credentials:  # noqa: ARG002
        """Return them."""
        return self._credentials

    own = get


class BotocoreSource(Source):
    """What botocore finds.

    Parameters
    ----------
    methods : sequence of str
        botocore's names of the ways to try, which is done in its order; if there are none all of
        them, but for keys of the environment, which :class:`EnvironmentSource` has. The first that
        leads to credentials is the only one from then on.
    profile : str
        Which profile of AWS's files is used; if it is empty the default one.
    file : str
        The file that is read in the place of AWS's, if it is not empty.
    is_alone : bool
        Whether no variables beside the profile are heeded, such as those of a web identity.
    """

    can_refresh = True

    def __init__(
        self, methods: Sequence[str], profile: str, file: str = "", *, is_alone: bool = False
    ) -> None:
        self._methods = tuple(methods)
        self._profile = profile
        self._file = file
        self._is_alone = is_alone
        self._lock = threading.RLock()
        self._session: Any = None
        self._found: Any = None
        _botocore_sources.add(self)

    def get(self, newer: bool = False) -> Credentials | None:
        """Return one frozen set, fresh from botocore.

        Raises
        ------
        PermissionError
            botocore fails, or is not there.
        """
        with self._lock:
            if self._found is None or newer:
                found = self._load()
                if found is None:
                    return None
                self._found = found
            try:
                frozen = self._found.get_frozen_credentials()
            except Exception as failure:
                raise _refusal(f"botocore has no credentials: {_said(failure)}") from failure
            # Its name is private to botocore: without it they are asked for every few minutes.
            expiry = getattr(self._found, "_expiry_time", None)
        ends = None if expiry is None else expiry.timestamp()
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token or "", ends)

    def own(self) -> Credentials | None:
        """Return what a profile keeps."""
        if not set(self._methods).issubset(_PROFILE):
            return None
        with self._lock:
            self._found = self._found or self._load()
        return None if self.renews else self.get()  # those of a server are not asked for

    @property
    def renews(self) -> bool:  # type: ignore[override]
        """Whether what was found has an end, and another after it."""
        return hasattr(self._found, "refresh_needed")

    def region(self) -> str:
        """Return the region of the profile."""
        session = self._session  # the lock may be held for as long as a server is asked
        return (session and session.get_config_variable("region")) or ""

    def _forget_parent(self) -> None:
        """In a forked child: our lock, or one of botocore's, may be held by who is not here."""
        self._lock = threading.RLock()
        self._session = self._found = None

    def _load(self) -> Any:
        try:
            import botocore.session
        except ImportError as missing:
            raise _refusal(
                "these credentials need the package 'botocore': pip install 'hflush[s3]'"
            ) from missing
        try:
            profile = self._profile or None
            # In the place of AWS_PROFILE, which may name another by now.
            known = {"profile": (None, None, profile, None)}
            alone = profile if self._is_alone else None
            self._session = botocore.session.Session(known, profile=alone)
            for kind in ("config_file", "credentials_file") if self._file else ():
                self._session.set_config_variable(kind, self._file)
            return self._find(self._session)
        except Exception as failure:
            raise _refusal(f"botocore has no credentials: {_said(failure)}") from failure

    def _find(self, session: Any) -> Any:
        ways = session.get_component("credential_provider")
        if EnvironmentSource(os.environ).get():  # they were set later
            ways.remove("env")
        for provider in ways.providers:
            is_wanted = not self._methods or provider.METHOD in self._methods
            found = provider.load() if is_wanted else None
            if found is not None:
                self._methods = (provider.METHOD,)  # others may lead to another identity
                return found
        return None


class AssumedRoleSource(BotocoreSource):
    """A role of AWS, which other credentials may assume.

    Parameters
    ----------
    base : ListedSource
        Where those come from.
    server, way : mapping
        Of STS: botocore's arguments of a client, and of its configuration.
    role : mapping
        The arguments of AssumeRole.
    profile : str
        Of AWS's files, for the rest of the client.
    """

    def __init__(
        self,
        base: ListedSource,
        server: Mapping[str, Any],
        way: Mapping[str, Any],
        role: Mapping[str, Any],
        profile: str,
    ) -> None:
        super().__init__((), profile)
        self._base = base
        self._server = server
        self._way = way
        self._role = role
        self._last_base: Credentials | None = None

    def own(self) -> Credentials | None:
        """Return what assumes it."""
        return self._base.own()

    def _find(self, session: Any) -> Any:
        from botocore.credentials import DeferredRefreshableCredentials

        return DeferredRefreshableCredentials(lambda: self._assume(session), "assume-role")

    def _assume(self, session: Any) -> dict[str, str]:
        from botocore.config import Config

        base = self._last_base = self._base.get(newer=self._last_base is not None)
        client = session.create_client(
            "sts",
            aws_access_key_id=base.access_key,
            aws_secret_access_key=base.secret_key,
            aws_session_token=base.session_token or None,
            config=Config(**self._way),
            **self._server,
        )
        given = client.assume_role(**self._role)["Credentials"]
        return {
            "access_key": given["AccessKeyId"],
            "secret_key": given["SecretAccessKey"],
            "token": given["SessionToken"],
            "expiry_time": given["Expiration"].isoformat(),
        }


def _said(failure: Exception) -> str:
    return f"{type(failure).__name__}: {failure}"


def _refusal(message: str) -> PermissionError:
    return PermissionError(errno.EACCES, message)


class _FirstOf(Source):
    """Several, of which the first that has credentials answers from then on.

    What the others have may be another identity's.
    """

    _chosen: Source | None = None

    def get(self, newer: bool = False) -> Credentials:
        """Return those of the first source that has some.

        Raises
        ------
        PermissionError
            None has any; the one that had some fails, or has none any more.
        """
        if self._chosen is None:
            self._chosen, found = self._choose(newer)
            return found
        again = self._chosen.get(newer)
        if again is None:
            raise _refusal("there are no credentials for S3 any more where they came from")
        return again

    @abstractmethod
    def _choose(self, newer: bool) -> tuple[Source, Credentials]:
        """Return the first that has credentials, and these."""

    @abstractmethod
    def _local(self) -> Sequence[Source]:
        """Return those that may have what is here alone, in order."""

    def own(self) -> Credentials | None:
        """Return the first there are, unless configured ones, which travel, come before."""
        for source in self._local() if self._chosen is None else (self._chosen,):
            with suppress(OSError, ValueError):
                if isinstance(source, (AnonymousSource, ConfiguredSource)) and source.get():
                    return None
                if found := source.own():
                    return found
        return None

    @property
    def can_refresh(self) -> bool:  # type: ignore[override]
        """Whether what was found can."""
        return self._chosen is not None and self._chosen.can_refresh

    @property
    def renews(self) -> bool:  # type: ignore[override]
        """Whether what was found does."""
        return self._chosen is not None and self._chosen.renews

    def region(self) -> str:
        """Return the region of what was found."""
        return self._chosen.region() if self._chosen is not None else ""


class DefaultSource(_FirstOf):
    """Without a word from the configuration: its keys, the environment, then botocore.

    Raises
    ------
    PermissionError
        From :meth:`get`: there are none anywhere, and what to do about it.
    """

    def __init__(self, first: Sequence[Source], environment: Mapping[str, str]) -> None:
        self._first = tuple(first)
        self._environment = environment
        self._profile = named_profile(environment)
        self._botocore = BotocoreSource((), self._profile)

    def _local(self) -> Sequence[Source]:
        return *self._first, BotocoreSource(_PROFILE, self._profile)

    def _choose(self, newer: bool) -> tuple[Source, Credentials]:
        left_out: LeftOutError | None = None
        for source in self._first:
            try:
                found = source.get(newer)
            except LeftOutError as failure:
                left_out = failure
                continue
            if found is not None:
                return source, found
        beyond = [name for name in _BEYOND_US if self._environment.get(name)]
        if not _has_botocore():
            if left_out is not None:
                raise left_out
            hint = (
                f"{' and '.join(beyond)} needs the package 'botocore'"
                if beyond
                else "profiles and the metadata of instances need the package 'botocore'"
            )
            raise _refusal(f"{_NOWHERE}; {hint}: pip install 'hflush[s3]'")
        found = self._botocore.get(newer)
        if found is None:
            raise left_out or _refusal(f"{_NOWHERE}, and botocore has none")
        return self._botocore, found


_NOWHERE = (
    f"no credentials for S3: neither {_KEYS[0]} and {_KEYS[1]} nor {_VARIABLES[0]} and "
    f"{_VARIABLES[1]} are set (for anonymous access set fs.s3a.aws.credentials.provider to "
    "AnonymousAWSCredentialsProvider)"
)


class ListedSource(_FirstOf):
    """Several, in the order that ``fs.s3a.aws.credentials.provider`` gives."""

    def __init__(self, sources: Sequence[tuple[str, Source]]) -> None:
        self._sources = tuple(sources)

    def _local(self) -> Sequence[Source]:
        return [source for _, source in self._sources]

    def _choose(self, newer: bool) -> tuple[Source, Credentials]:
        failure: OSError | None = None
        for _, source in self._sources:
            try:
                found = source.get(newer)
            except PermissionError as refusal:
                if failure is None or isinstance(refusal, LeftOutError):
                    failure = refusal
                continue
            if found is not None:
                return source, found
        if isinstance(failure, LeftOutError):
            raise failure
        names = ", ".join(name for name, _ in self._sources)
        why = f": {failure.strerror}" if failure is not None else ""
        raise _refusal(f"no credentials for S3 from {names}{why}") from failure


def _has_botocore() -> bool:
    import importlib.util

    return importlib.util.find_spec("botocore") is not None


_STS = "fs.s3a.assumed.role.sts.endpoint"
_ASSUMED_ROLE = "AssumedRoleCredentialProvider"
_INSTANCE = ("container-role", "iam-role")
_PROFILE = (
    "assume-role",
    "assume-role-with-web-identity",
    "sso",
    "shared-credentials-file",
    "login",
    "custom-process",
    "config-file",
)
# Java's classes, by the last part of their names.
_BOTOCORE_PROVIDERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(PROFILE_PROVIDERS, _PROFILE),
    "IAMInstanceCredentialsProvider": _INSTANCE,
    "InstanceProfileCredentialsProvider": ("iam-role",),
    "SharedInstanceProfileCredentialsProvider": ("iam-role",),
    "ContainerCredentialsProvider": ("container-role",),
    "EC2ContainerCredentialsProviderWrapper": _INSTANCE,
    "WebIdentityTokenFileCredentialsProvider": ("assume-role-with-web-identity",),
    "WebIdentityTokenCredentialsProvider": ("assume-role-with-web-identity",),
}
_DEFAULT_PROVIDERS = frozenset(
    (
        "DefaultCredentialsProvider",
        "DefaultAWSCredentialsProviderChain",
        "AWSCredentialsProviderChain",
    )
)


def source_of(keys: BucketConfiguration, environment: Mapping[str, str] | None = None) -> Source:
    """Return where the credentials of a bucket come from; nothing is looked up yet.

    Raises
    ------
    ValueError
        ``fs.s3a.aws.credentials.provider`` names a class that is unknown here; what it needs is
        not set.
    """
    env = os.environ if environment is None else environment
    names = keys.providers()
    if keys.text("fs.s3a.assumed.role.arn") and _ASSUMED_ROLE not in map(_simple, names):
        raise ValueError(
            "fs.s3a.assumed.role.arn is not supported where fs.s3a.aws.credentials.provider does "
            f"not name {_ASSUMED_ROLE}: unset one, or name the other"
        )
    if not names:
        return DefaultSource((ConfiguredSource(keys), _or_sent(keys, EnvironmentSource(env))), env)
    return ListedSource([(_simple(name), _provider(name, keys, env)) for name in names])


def _or_sent(keys: BucketConfiguration, source: Source) -> Source:
    """Return what is of this process, or in its place what was sent here."""
    sent = keys.text(SENT_CREDENTIALS)
    return SentSource(sent) if sent else source


def to_send(keys: BucketConfiguration, source: Source | None = None) -> str:
    """Return what a configuration takes from this process, as a value to be sent: a secret.

    Empty if it takes nothing. `source` is what it comes from, if that is known.
    """
    with suppress(ValueError):  # it has no source: an error where it is used
        own = (source or source_of(keys)).own()
        return " ".join(own[:3]).rstrip() if own else ""
    return ""


def _simple(name: str) -> str:
    return name.replace("$", ".").rpartition(".")[2]


def _provider(name: str, keys: BucketConfiguration, env: Mapping[str, str]) -> Source:
    simple = _simple(name)
    known: dict[str, Callable[[], Source]] = {
        "SimpleAWSCredentialsProvider": lambda: ConfiguredSource(keys, token=False),
        "BasicAWSCredentialsProvider": lambda: ConfiguredSource(keys, token=False),
        "TemporaryAWSCredentialsProvider": lambda: ConfiguredSource(keys, token=True),
        "AnonymousAWSCredentialsProvider": AnonymousSource,
        "AnonymousCredentialsProvider": AnonymousSource,
        "EnvironmentVariableCredentialsProvider": lambda: _or_sent(keys, EnvironmentSource(env)),
        # Of a JVM, which is not here: there are none.
        "SystemPropertiesCredentialsProvider": lambda: EnvironmentSource({}),
        "SystemPropertyCredentialsProvider": lambda: EnvironmentSource({}),
        _ASSUMED_ROLE: lambda: _assumed_role(keys, env),
    }
    if simple in known:
        return known[simple]()
    if simple in _DEFAULT_PROVIDERS:
        return DefaultSource((_or_sent(keys, EnvironmentSource(env)),), env)
    if simple in _BOTOCORE_PROVIDERS:
        methods = _BOTOCORE_PROVIDERS[simple]
        if methods is not _PROFILE:
            return BotocoreSource(methods, named_profile(env))
        name, file = keys.profile()
        name = name or named_profile(env) or "default"
        return _or_sent(keys, BotocoreSource(methods, name, file, is_alone=True))
    served = sorted({*known, *_BOTOCORE_PROVIDERS, *_DEFAULT_PROVIDERS})
    raise ValueError(
        f"fs.s3a.aws.credentials.provider: {name} is not known here; there are {', '.join(served)}"
    )


def _assumed_role(keys: BucketConfiguration, env: Mapping[str, str]) -> Source:
    """Return the role that the configuration names, as S3A assumes it."""
    key = "fs.s3a.assumed.role.credentials.provider"
    arn, names = keys.text("fs.s3a.assumed.role.arn"), keys.providers(key)
    if not arn:
        raise ValueError(f"{_ASSUMED_ROLE} needs fs.s3a.assumed.role.arn")
    if _ASSUMED_ROLE in map(_simple, names):
        raise ValueError(f"{key} must not be {_ASSUMED_ROLE}, which needs other credentials")
    session = keys.text("fs.s3a.assumed.role.session.name")
    role: dict[str, Any] = {
        "RoleArn": arn,
        "RoleSessionName": session or re.sub("[^A-Za-z0-9,.@-]", "-", user_name())[:64],
        "DurationSeconds": round(keys.seconds("fs.s3a.assumed.role.session.duration")),
    }
    if policy := keys.text("fs.s3a.assumed.role.policy"):
        role["Policy"] = policy
    region = keys.text("fs.s3a.assumed.role.sts.endpoint.region")
    region = region or env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or "us-east-1"
    server: dict[str, Any] = {"region_name": region}
    host = f"sts.{region}{_core.s3_aws_suffix(region)}"
    if endpoint := keys.text(_STS):
        server["endpoint_url"] = endpoint if "://" in endpoint else f"https://{endpoint}"
        place = urlsplit(server["endpoint_url"])
        if place.username is not None:
            raise ValueError(f"{_STS} must be a host or a URL without a user")
        host = place.hostname or ""
    way, server["verify"] = way_to(host, keys)
    base = ListedSource([(_simple(name), _provider(name, keys, env)) for name in names])
    return AssumedRoleSource(base, server, way, role, named_profile(env))


# --- newer ones -----------------------------------------------------------------------------------


class Refresher:
    """Gives clients newer credentials: in time, and when a store refused the last as expired.

    A daemon thread that knows its clients weakly: where none is used any more, it ends. Only
    sources that can refresh need one. It is one of the system's also where gevent or eventlet
    have replaced those of Python: a greenlet would stop all others while it waits in the core, and
    would not run while a request waits there for what it brings. For the same reason it shares no
    lock with those who start it.

    Parameters
    ----------
    client : S3Client
        The first one.
    source : Source
        Where the credentials come from.
    first : Credentials
        Those that the client has.
    origin : object, optional
        See :func:`origin_of`: others that have the same may join. The source has been asked once.

    Attributes
    ----------
    source : Source
        As given.
    last : Credentials
        The newest, for who joins.
    """

    def __init__(
        self, client: _core.S3Client, source: Source, first: Credentials, origin: object = None
    ) -> None:
        self.source = source
        self.last = first
        self._origin = origin
        # Added to, removed from and copied in one step each.
        self._clients = {weakref.ref(client)}
        self._due = _due(first, time.time())
        self._pause = _PAUSE_AFTER_FAILURE_S
        self._not_before = 0.0  # of time.monotonic(): the clock may be set back
        self._is_stopped = False
        self._thread = _core.BackgroundThread()
        _running.add(self)
        self._thread.start(self._run)
        if origin is not None:
            _joinable[origin] = self

    def join(self, client: _core.S3Client, given: Credentials) -> bool:
        """Serve another client, too, which has these credentials; return False if that is over."""
        self._clients.add(weakref.ref(client))
        if _joinable.get(self._origin) is not self:  # the thread may have ended
            self.leave(client)
            return False
        while self.last is not given:  # newer ones have come, and may not have been set
            given = self.last
            client.set_credentials(*given[:3])
        return True

    def leave(self, client: _core.S3Client) -> None:
        """Serve a client no more: after the last one the thread ends soon; it is not waited for."""
        self._clients.discard(weakref.ref(client))

    def stop(self) -> None:
        """Let the thread end soon; it is not waited for."""
        self._let_none_join()
        self._is_stopped = True
        self._thread.stop()

    def wait_ended(self, timeout: float) -> bool:
        """Wait for the end of the thread; return whether it has ended."""
        return self._thread.join(timeout)

    def _run(self) -> None:
        while not self._is_stopped:
            clients = self._living()
            if not clients:
                self._let_none_join()
                if not self._living():
                    return
                continue
            wanted = _wait_wanted(clients)
            now = time.time()
            early_s = self._not_before - time.monotonic()
            is_early = early_s > 0
            if (wanted or now >= self._due) and not is_early and not self._is_stopped:
                self._refresh(wanted)
            del clients  # before the next look, or they would never be released
            if wanted and is_early:
                self._thread.wait_stopped(min(_SLICE_S, early_s))

    def _living(self) -> list[_core.S3Client]:
        found = [(known, known()) for known in self._clients.copy()]
        self._clients.difference_update([known for known, client in found if client is None])
        return [client for _, client in found if client is not None]

    def _let_none_join(self) -> None:
        """Let those who come from now on ask a source of their own."""
        if _joinable.get(self._origin) is self:
            _joinable.pop(self._origin, None)

    def _refresh(self, wanted: bool) -> None:
        if wanted:  # then all is read anew: other files, another environment
            self._let_none_join()
        try:
            found = self.source.get(newer=wanted)
        except Exception as failure:  # this thread ends with its clients, not before
            _log.warning("newer credentials for S3: %s", failure)
            found = None
        now = time.time()
        if found is None or (wanted and found[:3] == self.last[:3]):
            self._let_none_join()  # who comes now hears the reason from its own source
            self._due = now + _REFRESH_INTERVAL_S
            self._not_before = time.monotonic() + self._pause
            if self.source.renews:
                self._pause = min(2 * self._pause, _MAX_PAUSE_S)
            return
        self._pause = _PAUSE_AFTER_FAILURE_S
        is_new = found[:3] != self.last[:3]
        self.last, self._due = found, _due(found, now)
        for client in self._living() if is_new else ():
            client.set_credentials(*found[:3])


def _wait_wanted(clients: Sequence[_core.S3Client]) -> bool:
    """Wait a little until a store refuses the newest credentials of a client.

    One of several is waited for, and the others are looked at before.
    """
    *others, last = clients
    if any(client.wait_credentials_wanted(0) for client in others):
        return True
    return last.wait_credentials_wanted(_SHORT_SLICE_S if others else _SLICE_S)


def _due(credentials: Credentials, now: float) -> float:
    """Return when to look for newer ones."""
    if credentials.expiry is None:
        return now + _REFRESH_INTERVAL_S
    # Those that are due at once, since there are no better ones, are asked for ever more often.
    pause = max((credentials.expiry - now) / 4, 1)
    return max(credentials.expiry - _REFRESH_BEFORE_S, now + pause)


def joinable(origin: object) -> Refresher | None:
    """Return who renews the credentials that come from there."""
    return _joinable.get(origin)


def origin_of(keys: BucketConfiguration, made_in: object) -> object:
    """Return all that the credentials of a bucket come from, to be compared: it has secrets.

    Equal ones mean that botocore would be asked for the same: the configuration, the environment,
    that of when the bucket was made, too, and AWS's files are what they were.
    """
    named = [os.environ.get(variable) or usual for variable, usual in FILES]
    stamps = [_stamp(file) for file in (keys.text("fs.s3a.auth.profile.file"), *named)]
    try:
        environment = frozenset(os.environ.items())
    except (KeyError, RuntimeError):  # another thread changes it
        return object()  # which nothing equals
    return frozenset(keys._conf.raw_items()), made_in, environment, tuple(stamps)


def _stamp(file: str) -> tuple[int, ...]:
    try:
        seen = os.stat(os.path.expanduser(file))  # noqa: PTH111, PTH116 -- as profiles are read
    except (OSError, ValueError):
        return ()
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns


_joinable: dict[object, Refresher] = {}
_running: weakref.WeakSet[Refresher] = weakref.WeakSet()
_botocore_sources: weakref.WeakSet[BotocoreSource] = weakref.WeakSet()


def _stop_all() -> None:
    """Let no thread be within the core while the interpreter goes away."""
    refreshers = list(_running)
    for refresher in refreshers:
        refresher.stop()
    for refresher in refreshers:
        refresher.wait_ended(2 * _SLICE_S)


def _forget_after_fork() -> None:
    """In a child: the threads are the parent's; who connects here starts others."""
    _running.clear()
    _joinable.clear()
    for source in list(_botocore_sources):
        source._forget_parent()


atexit.register(_stop_all)
os.register_at_fork(after_in_child=_forget_after_fork)
