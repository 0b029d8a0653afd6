"""The ways in which our client asks a server of S3: what breaks one of them need not break another.

    direct     plain HTTP, by code of our own
    libcurl    plain HTTP, as where a proxy is asked
    tls        by libcurl, which is all that is done over TLS

A test gets one as the fixture `s3_way`, and servers from it.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.certificates import make_server_directory

if TYPE_CHECKING:
    from support.scripted_s3 import Rules, ScriptedS3

PLAIN = {"direct": "true", "libcurl": "false"}
TLS = "tls"
# For tests of plain HTTP.
over_plain_http = pytest.mark.parametrize("s3_way", PLAIN, indirect=True)


@dataclass(frozen=True)
class Way:
    """What a client's configuration must say, and what a server needs."""

    settings: Mapping[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None

    @property
    def scheme(self) -> str:
        return "http" if self.tls is None else "https"

    def server(self, rules: Rules | None = None) -> ScriptedS3:
        from support.scripted_s3 import ScriptedS3

        return ScriptedS3(rules, tls=self.tls, settings=self.settings)


def over_tls(directory: Path) -> Way:
    """With certificates that are made in an empty directory."""
    authority = make_server_directory(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "public.crt", directory / "private.key")
    return Way({"hflush.s3.ssl.ca.file": str(authority)}, context)


@pytest.fixture(params=[*PLAIN, TLS])
def s3_way(request: pytest.FixtureRequest) -> Way:
    if request.param == TLS:
        way: Way = request.getfixturevalue("s3_over_tls")
        return way
    return Way({"hflush.s3.direct.requests": PLAIN[request.param]})


@pytest.fixture(scope="session")
def s3_over_tls(tmp_path_factory: pytest.TempPathFactory) -> Way:
    return over_tls(tmp_path_factory.mktemp("s3-over-tls"))
