"""What AWS's shared files and variables say about servers, as AWS's own clients read them.

Credentials are not read here: they are botocore's.
"""

from __future__ import annotations

import configparser
import contextlib
import json
import os
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from .keys import SENT_SERVER

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FILES", "FoundServer", "Profile", "named_profile"]

FILES = (  # the second overrides the first, as in botocore
    ("AWS_CONFIG_FILE", "~/.aws/config"),
    ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
)


def named_profile(environment: Mapping[str, str]) -> str:
    """Return the profile that variables name, empty if they name none."""
    return environment.get("AWS_DEFAULT_PROFILE") or environment.get("AWS_PROFILE") or ""


class FoundServer(NamedTuple):
    """What variables and a profile say of the server, as far as the configuration leaves it open.

    An empty endpoint is AWS.
    """

    endpoint: str = ""
    region: str = ""
    addressing_style: str = ""
    uses_fips: bool = False
    uses_dualstack: bool = False

    def to_text(self) -> str:
        """Return it as the value of a key."""
        return json.dumps(self._asdict())

    @classmethod
    def from_text(cls, text: str) -> FoundServer:
        """Return what :meth:`to_text` has written.

        Raises
        ------
        ValueError
            It is nothing of the kind.
        """
        try:
            return cls(**json.loads(text))
        except (TypeError, ValueError):
            raise ValueError(f"{SENT_SERVER} must be as hflush writes it") from None


class Profile:
    """One profile of AWS's files, read when something is asked for.

    Parameters
    ----------
    environment : mapping of str to str
        The variables.
    name : str
        The profile; ``AWS_DEFAULT_PROFILE``, ``AWS_PROFILE`` or ``default`` if it is empty.

    Raises
    ------
    ValueError
        By what reads a file: it is malformed, or has not the profile or section that is named.
    """

    def __init__(self, environment: Mapping[str, str], name: str = "") -> None:
        self._environment = environment
        self._named = name or named_profile(environment)
        self._files: list[str] = []

    @property
    def endpoint(self) -> str:
        """The server of S3, empty if none is named: by a variable, the services, the profile."""
        ignored = self._value("ignore_configured_endpoint_urls")
        if ignored.lower() == "true":
            return ""
        for variable in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
            if text := self._environment.get(variable, ""):
                return text
        return self._services.get("endpoint_url") or self._keys.get("endpoint_url", "")

    @property
    def region(self) -> str:
        """The region, empty if the profile names none."""
        return self._keys.get("region", "")

    @property
    def addressing_style(self) -> str:
        """Return ``path``, ``virtual`` or ``auto``: whether the bucket is in the path."""
        return _nested(self._keys.get("s3", "")).get("addressing_style", "auto").lower()

    @property
    def authorities(self) -> str:
        """The file with certificates of authorities, as botocore finds it."""
        with contextlib.suppress(ValueError):
            if file := self._value("ca_bundle"):
                return file
        file = self._environment.get("REQUESTS_CA_BUNDLE", "")
        return file if os.path.isfile(file) else ""  # noqa: PTH113 -- also where it may not be read

    @property
    def uses_fips(self) -> bool:
        """Whether AWS's servers for FIPS are wanted."""
        return self._value("use_fips_endpoint").lower() == "true"

    @property
    def uses_dualstack(self) -> bool:
        """Whether AWS's servers that also have IPv6 are wanted."""
        own = _nested(self._keys.get("s3", "")).get("use_dualstack_endpoint", "")
        return (own or self._value("use_dualstack_endpoint")).lower() == "true"

    def _value(self, key: str) -> str:
        """Return a value of the environment, else of the profile."""
        return self._environment.get(f"AWS_{key.upper()}") or self._keys.get(key, "")

    @cached_property
    def _sections(self) -> dict[str, dict[str, str]]:
        """The sections of both files, profiles by their names after ``profile``."""
        sections: dict[str, dict[str, str]] = {}
        for variable, usual in FILES:
            path = os.path.expanduser(self._environment.get(variable) or usual)  # noqa: PTH111
            if not os.path.isfile(path):  # noqa: PTH113 -- also where the directory is closed to us
                continue
            self._files.append(path)
            parser = configparser.RawConfigParser(default_section="", strict=False)
            try:
                parser.read(path, encoding="utf-8")
            except (configparser.Error, UnicodeDecodeError) as malformed:
                fault = f"{path}: not a file of AWS's profiles: {_fault(malformed)}"
                raise ValueError(fault) from None
            for section in parser.sections():
                name = " ".join(section.replace('"', " ").split())
                if variable != "AWS_CONFIG_FILE" or name == "default":
                    name = f"profile {name}"
                sections.setdefault(name, {}).update(parser.items(section))
        return sections

    @cached_property
    def _keys(self) -> dict[str, str]:
        found = self._sections.get(f"profile {self._named or 'default'}")
        if found is None and self._named:
            raise ValueError(f"the profile {self._named!r} of AWS is not in {self._shown}")
        return found or {}

    @cached_property
    def _services(self) -> dict[str, str]:
        name = self._keys.get("services", "")
        if not name:
            return {}
        found = self._sections.get(f"services {name}")
        if found is None:
            raise ValueError(f"the profile's section [services {name}] is not in {self._shown}")
        return _nested(found.get("s3", ""))

    @property
    def _shown(self) -> str:
        return " or ".join(self._files) or "any file: there is none"


def _fault(malformed: Exception) -> str:
    """Return what is wrong, without the line itself: it may be a secret."""
    lines = [number for number, _ in getattr(malformed, "errors", ())]
    lines = lines or [getattr(malformed, "lineno", 0)]
    return f"{type(malformed).__name__}, line {lines[0]}" if lines[0] else type(malformed).__name__


def _nested(text: str) -> dict[str, str]:
    """Return the keys of a value that has its own, one to an indented line."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}
