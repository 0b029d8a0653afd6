"""Credentials of S3: which are found, in which order, and how newer ones reach a client."""

from __future__ import annotations

import ctypes
import datetime
import gc
import importlib.util
import itertools
import subprocess
import sys
import threading
import time
import types
import weakref
from functools import partial
from pathlib import Path
from typing import Any, cast

import hflush
import pytest
from hflush.s3 import S3FileSystem, credentials
from hflush.s3.bucket import Bucket
from hflush.s3.credentials import (
    BotocoreSource,
    Credentials,
    ListedSource,
    Refresher,
    Source,
    source_of,
)
from hflush.s3.settings import BucketConfiguration
from support.waiting import DEADLINE_S, wait_until

ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "ENV", "AWS_SECRET_ACCESS_KEY": "env-secret"}
KEYS = {"fs.s3a.access.key": "CONF", "fs.s3a.secret.key": "conf-secret"}
PROXY = {
    "fs.s3a.proxy.host": "proxy",
    "fs.s3a.proxy.port": "81",
    "fs.s3a.proxy.username": "u@x",
    "fs.s3a.proxy.password": "p/",
}
AUTHORITY = {"hflush.s3.ssl.ca.file": "/ca.pem"}


def keys(**conf: str) -> BucketConfiguration:
    configuration = hflush.Configuration(load_defaults=False)
    configuration.update({name.replace("_", "."): value for name, value in conf.items()})
    return BucketConfiguration(configuration, "b")


def configured(conf: dict[str, str]) -> BucketConfiguration:
    return keys(**{name.replace(".", "_"): value for name, value in conf.items()})


def providers(names: str, conf: dict[str, str] | None = None) -> BucketConfiguration:
    return configured({**(conf or {}), "fs.s3a.aws.credentials.provider": names})


@pytest.fixture
def no_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "botocore" else find(name, *a)
    )
    monkeypatch.setitem(__import__("sys").modules, "botocore.session", None)


class TestOrder:
    def test_configuration_first(self):
        found = source_of(configured(KEYS), ENVIRONMENT).get()
        assert found == Credentials("CONF", "conf-secret", "", None)

    def test_then_the_environment(self):
        environment = {**ENVIRONMENT, "AWS_SESSION_TOKEN": "token"}
        assert source_of(keys(), environment).get() == ("ENV", "env-secret", "token", None)

    @pytest.mark.parametrize(("newer", "token"), [({}, "old"), ({"AWS_SESSION_TOKEN": "t"}, "t")])
    def test_the_older_name_of_a_token(self, newer: dict[str, str], token: str):
        found = source_of(keys(), {**ENVIRONMENT, "AWS_SECURITY_TOKEN": "old", **newer}).get()
        assert found == ("ENV", "env-secret", token, None)

    def test_others_in_the_environment(self):
        """Where a store has refused a session's: all three, not some."""
        environment = {**ENVIRONMENT, "AWS_SESSION_TOKEN": "token"}
        source = source_of(keys(), environment)
        first = source.get()
        assert source.can_refresh
        environment.update(AWS_ACCESS_KEY_ID="NEW", AWS_SECRET_ACCESS_KEY="new")
        assert source.get(newer=True) == first
        environment["AWS_SESSION_TOKEN"] = "new-token"
        assert source.get() == first
        assert source.get(newer=True) == ("NEW", "new", "new-token", None)

    def test_a_session_token(self):
        conf = {**KEYS, "fs.s3a.session.token": "t"}
        assert source_of(configured(conf), {}).get() == ("CONF", "conf-secret", "t", None)

    def test_the_buckets_own(self):
        own = {f"fs.s3a.bucket.b.{name[7:]}": f"own-{value}" for name, value in KEYS.items()}
        found = source_of(configured({**KEYS, **own}), {}).get()
        assert found is not None
        assert found.access_key == "own-CONF"

    def test_none_anywhere(self, no_botocore: None):
        """There is no silent anonymous access, and the message says what to do."""
        with pytest.raises(PermissionError, match=r"AWS_ACCESS_KEY_ID.*hflush\[s3\]"):
            source_of(keys(), {}).get()

    @pytest.mark.parametrize("name", ["AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"])
    def test_what_only_botocore_knows(self, no_botocore: None, name: str):
        with pytest.raises(PermissionError, match=rf"{name} needs .*hflush\[s3\]"):
            source_of(keys(), {name: "x"}).get()

    def test_half_of_a_pair(self):
        with pytest.raises(ValueError, match=r"secret\.key is set without fs\.s3a\.access\.key"):
            source_of(configured({"fs.s3a.secret.key": "hush"}), ENVIRONMENT).get()

    def test_half_of_a_pair_in_the_environment(self, no_botocore: None):
        with pytest.raises(PermissionError, match="no credentials"):
            source_of(keys(), {"AWS_ACCESS_KEY_ID": "x"}).get()


class TestKeyStores:
    @pytest.mark.parametrize(
        "key",
        ["hadoop.security.credential.provider.path", "fs.s3a.security.credential.provider.path"],
    )
    def test_they_are_not_read(self, key: str):
        source = source_of(configured({key: "jceks://hdfs@nn/keys"}), ENVIRONMENT)
        with pytest.raises(ValueError, match=rf"{key} names a key store of Java"):
            source.get()

    def test_unless_nothing_of_them_is_needed(self):
        store = {"hadoop.security.credential.provider.path": "jceks://file/keys"}
        assert source_of(configured({**KEYS, **store}), {}).get() is not None
        only = providers("EnvironmentVariableCredentialsProvider", store)
        assert source_of(only, ENVIRONMENT).get() is not None


class TestProviders:
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider", "CONF"),
            ("org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider", ""),
            ("com.amazonaws.auth.EnvironmentVariableCredentialsProvider", "ENV"),
            (
                "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
                "ENV",
            ),
            ("DefaultCredentialsProvider", "ENV"),
            ("SystemPropertiesCredentialsProvider, EnvironmentVariableCredentialsProvider", "ENV"),
            (
                "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,\n  "
                "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
                "CONF",
            ),
        ],
    )
    def test_javas_names(self, name: str, expected: str):
        found = source_of(providers(name, KEYS), ENVIRONMENT).get()
        assert found is not None
        assert found.access_key == expected

    @pytest.mark.parametrize(
        ("name", "token"),
        [("SimpleAWS", ""), ("BasicAWS", ""), ("TemporaryAWS", "t")],
    )
    def test_whose_token_it_is(self, name: str, token: str):
        conf = {**KEYS, "fs.s3a.session.token": "t"}
        found = source_of(providers(f"{name}CredentialsProvider", conf), {}).get()
        assert found == ("CONF", "conf-secret", token, None)

    def test_classes_that_are_mapped(self):
        key = "fs.s3a.aws.credentials.provider.mapping"
        mapped = {**KEYS, key: "org.Other=x.Y, org.Mine = o.a.h.SimpleAWSCredentialsProvider"}
        found = source_of(providers("org.Mine", mapped), {}).get()
        assert found == ("CONF", "conf-secret", "", None)
        with pytest.raises(ValueError, match=rf"{key} must be class=class"):
            source_of(providers("org.Mine", {key: "org.Mine"}), {})

    def test_temporary_ones_need_a_token(self):
        source = source_of(providers("TemporaryAWSCredentialsProvider", KEYS), {})
        with pytest.raises(PermissionError, match="from TemporaryAWSCredentialsProvider"):
            source.get()

    def test_unknown_ones(self):
        with pytest.raises(ValueError, match=r"VaultProvider is not known here.*Simple"):
            source_of(providers("com.example.VaultProvider"), {})

    def test_a_file_system_refuses_them_when_it_is_made(self):
        conf = {"fs.s3a.aws.credentials.provider": "com.example.VaultProvider"}
        with pytest.raises(ValueError, match="VaultProvider"):
            hflush.FileSystem.new_instance("s3://b/", conf)

    @pytest.mark.parametrize(
        "name",
        [
            "ProfileCredentialsProvider", "IAMInstanceCredentialsProvider",
            "InstanceProfileCredentialsProvider", "ContainerCredentialsProvider",
            "WebIdentityTokenFileCredentialsProvider",
        ],
    )  # fmt: skip
    def test_what_is_botocores(self, no_botocore: None, name: str):
        source = source_of(providers(name), {})
        with pytest.raises(PermissionError, match=rf"{name}: .*hflush\[s3\]"):
            source.get()

    def test_the_next_one_is_tried(self, no_botocore: None):
        names = "ProfileCredentialsProvider EnvironmentVariableCredentialsProvider"
        found = source_of(providers(names), ENVIRONMENT).get()
        assert found is not None
        assert found.access_key == "ENV"


class TestBotocore:
    """With the real one: what it finds in files and programs, and what it needs for it."""

    @pytest.fixture(autouse=True)
    def _needs_it(self) -> None:
        pytest.importorskip("botocore")

    @pytest.fixture
    def files(self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
        shared, config = tmp_path / "credentials", tmp_path / "config"
        shared.write_text("[work]\naws_access_key_id=FILE\naws_secret_access_key=s\n")
        config.write_text("[profile work]\nregion=eu-west-3\n")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(shared))
        monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
        monkeypatch.setenv("AWS_PROFILE", "work")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        return config

    @pytest.mark.parametrize("name", ["", "ProfileCredentialsProvider"])
    def test_a_profile(self, files: Any, name: str):
        source = source_of(providers(name) if name else keys())
        assert source.get() == ("FILE", "s", "", None)
        assert source.region() == "eu-west-3"
        assert source.can_refresh

    def test_the_environment_of_before(self, files: Any, monkeypatch: pytest.MonkeyPatch):
        """Keys that are set later are not taken, and the profile stays, also for what is sent."""
        source = source_of(keys())
        monkeypatch.setenv("AWS_PROFILE", "play")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENV")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
        assert source.own() == source.get() == source.get(newer=True) == ("FILE", "s", "", None)

    def test_the_default_profile_of_before(self, files: Any, monkeypatch: pytest.MonkeyPatch):
        """No other one that is named later is asked, neither for what is used nor sent."""
        monkeypatch.delenv("AWS_PROFILE")
        shared = "[{}]\naws_access_key_id={}\naws_secret_access_key=s\n"
        profiles = shared.format("default", "DEFAULT") + shared.format("play", "PLAY")
        files.with_name("credentials").write_text(profiles)
        source = source_of(keys())
        monkeypatch.setenv("AWS_PROFILE", "play")
        default = ("DEFAULT", "s", "", None)
        assert source.own() == source.get() == source.get(newer=True) == default

    @pytest.mark.parametrize("name", ["", "ProfileCredentialsProvider"])
    def test_keys_that_are_gone_for_a_while(self, files: Any, name: str):
        """Those of the other file are not taken: they may be another identity's."""
        files.write_text("[profile work]\naws_access_key_id=OTHER\naws_secret_access_key=s\n")
        source = source_of(providers(name) if name else keys())
        first, shared = source.get(), files.with_name("credentials")
        content = shared.read_text()
        shared.write_text("")
        with pytest.raises(PermissionError, match="any more"):
            source.get(newer=True)
        assert first == source.get() == source.own() == ("FILE", "s", "", None)
        shared.write_text(content.replace("FILE", "NEW"))
        assert source.get(newer=True) == ("NEW", "s", "", None)

    def test_a_profile_by_its_name(self, files: Any, monkeypatch: pytest.MonkeyPatch):
        """The key comes before the environment's profile and its keys, for profiles only."""
        monkeypatch.setenv("AWS_PROFILE", "play")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENV")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
        name = {"fs.s3a.auth.profile.name": "work"}
        source = source_of(providers("ProfileAWSCredentialsProvider", name))
        assert source.get() == ("FILE", "s", "", None)
        assert source.region() == "eu-west-3"
        with pytest.raises(PermissionError, match=r"ProfileNotFound.*play"):
            source_of(providers("ProfileAWSCredentialsProvider")).get()

    @pytest.mark.parametrize("way", ["source_profile=work", "web_identity_token_file=/token"])
    def test_the_role_of_a_profile(self, files: Any, monkeypatch: pytest.MonkeyPatch, way: str):
        """It comes before keys beside it, as for AWS's own clients. Variables name none."""
        role = {"access_key": "ROLE", "secret_key": "s", "token": "t"}
        monkeypatch.setattr(
            "botocore.credentials.CachedCredentialFetcher.fetch_credentials",
            lambda _: {**role, "expiry_time": "2100-01-01T00:00:00Z"},
        )
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/token")
        monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/other")
        source = source_of(providers("ProfileCredentialsProvider"))
        assert source.get() == ("FILE", "s", "", None)
        files.write_text(f"[profile work]\nrole_arn=arn:aws:iam::1:role/writer\n{way}\n")
        found = source_of(providers("ProfileCredentialsProvider")).get()
        assert found is not None
        assert found[:3] == ("ROLE", "s", "t")

    def test_a_web_identity_beside_a_profile(self, files: Any, monkeypatch: pytest.MonkeyPatch):
        """That of variables is heeded, also where they name a profile."""
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(files.parent / "none"))
        monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/writer")
        with pytest.raises(PermissionError, match="FileNotFoundError"):
            source_of(keys()).get()

    def test_a_role_of_the_configuration(self, files: Any, monkeypatch: pytest.MonkeyPatch):
        """As S3A assumes it: with keys of the configuration, in the name of the user."""
        asked: list[dict[str, Any]] = []
        ends = datetime.datetime(2100, 1, 1, tzinfo=datetime.timezone.utc)
        names = ("AccessKeyId", "SecretAccessKey", "SessionToken")
        given = {**dict.fromkeys(names, "x"), "Expiration": ends}

        class Sts:
            def assume_role(self, **role: Any) -> dict[str, Any]:
                asked.append(role)
                return {"Credentials": given}

        def connect(_: Any, service: str, **how: Any) -> Sts:
            asked.append({"service": service, **how})
            return Sts()

        monkeypatch.setattr("botocore.session.Session.create_client", connect)
        monkeypatch.setenv("HADOOP_USER_NAME", "ann_b")
        arn = {**KEYS, "fs.s3a.assumed.role.arn": "arn:aws:iam::1:role/writer"}
        server = {"fs.s3a.assumed.role.sts.endpoint": "sts.example"}
        provider = "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"
        source = source_of(providers(provider, {**arn, **server}), {})
        assert source.get() == ("x", "x", "x", ends.timestamp())
        assert source.renews
        assert asked[0].items() >= {
            "service": "sts", "endpoint_url": "https://sts.example", "region_name": "us-east-1",
            "aws_access_key_id": "CONF", "aws_secret_access_key": "conf-secret",
        }.items()  # fmt: skip
        role = {"RoleArn": arn["fs.s3a.assumed.role.arn"], "RoleSessionName": "ann-b"}
        assert asked[1] == {**role, "DurationSeconds": 1800}
        with pytest.raises(ValueError, match=r"role\.arn is not supported where .*provider"):
            source_of(configured(arn), {})
        with pytest.raises(ValueError, match=r"needs fs\.s3a\.assumed\.role\.arn"):
            source_of(providers(provider), {})
        circle = {**arn, "fs.s3a.assumed.role.credentials.provider": provider}
        with pytest.raises(ValueError, match="needs other credentials"):
            source_of(providers(provider, circle), {})

    @pytest.mark.parametrize(
        ("conf", "config", "verify"),
        [
            ({}, {}, None),
            (
                PROXY,
                {"proxies": dict.fromkeys(("http", "https"), "http://u%40x:p%2F@proxy:81")},
                None,
            ),
            ({**PROXY, "hflush.s3.proxy.exceptions": "s3.x,STS.example"}, {"proxies": {}}, None),
            ({"hflush.s3.proxy.exceptions": "*"}, {"proxies": {}}, None),
            (AUTHORITY, {"proxies_config": {"proxy_ca_bundle": "/ca.pem"}}, "/ca.pem"),
            ({"hflush.s3.ssl.verify": "false"}, {}, False),
        ],
    )
    def test_the_way_to_a_role(
        self,
        files: Any,
        monkeypatch: pytest.MonkeyPatch,
        conf: dict[str, str],
        config: dict[str, Any],
        verify: Any,
    ):
        """By the proxy, and with the authorities, by which the store is reached."""
        way: dict[str, Any] = {}

        def connect(_: Any, service: str, **how: Any) -> Any:
            way.update(how)
            raise ConnectionError

        monkeypatch.setattr("botocore.session.Session.create_client", connect)
        role = {
            "fs.s3a.assumed.role.arn": "arn:aws:iam::1:role/writer",
            "fs.s3a.assumed.role.sts.endpoint": "sts.example:8443",
        }
        with pytest.raises(PermissionError):
            source_of(providers("AssumedRoleCredentialProvider", {**KEYS, **role, **conf})).get()
        assert way["verify"] == verify
        asked = {name: getattr(way["config"], name) for name in ("proxies", "proxies_config")}
        assert asked == {"proxies": None, "proxies_config": None, **config}

    def test_a_profile_in_a_file_of_its_own(self, files: Any):
        """No other file of AWS's has a say in it: neither an account nor a profile."""
        own = files.parent / "own"
        own.write_text("[work]\naws_access_key_id=OWN\naws_secret_access_key=s\n")
        files.write_text("[profile work]\ncredential_process=false\n[profile play]\n")
        general = {"fs.s3a.auth.profile.file": "/nosuch"}
        of_bucket = {**general, "fs.s3a.bucket.b.auth.profile.file": f"file://{own}"}
        source = source_of(providers("ProfileAWSCredentialsProvider", of_bucket))
        assert source.get() == ("OWN", "s", "", None)
        other = {**of_bucket, "fs.s3a.auth.profile.name": "play"}
        with pytest.raises(PermissionError, match=r"ProfileNotFound.*play"):
            source_of(providers("ProfileAWSCredentialsProvider", other)).get()
        with pytest.raises(ValueError, match=r"auth\.profile\.file: there is no file /nosuch"):
            source_of(providers("ProfileAWSCredentialsProvider", general))
        assert source_of(configured({**KEYS, **general})).get() is not None

    def test_a_program(self, files: Any):
        """credential_process gives an end, so they can be refreshed in time."""
        ends = (
            datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        ).strftime("%Y-%m-%dT%H:%M:%SZ")
        document = (
            '{"Version": 1, "AccessKeyId": "PROGRAM", "SecretAccessKey": "s", '
            f'"SessionToken": "t", "Expiration": "{ends}"}}'
        )
        program = files.parent / "program"
        program.write_text(f"#!/bin/sh\ncat <<X\n{document}\nX\n")
        program.chmod(0o755)
        files.write_text(f"[profile work]\ncredential_process={program}\n")
        files.parent.joinpath("credentials").write_text("")
        found = source_of(keys()).get()
        assert found is not None
        assert found[:3] == ("PROGRAM", "s", "t")
        assert found.expiry == pytest.approx(time.time() + 3600, abs=30)

    def test_nothing(self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
        for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
            monkeypatch.setenv(name, str(tmp_path / "none"))
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.delenv("AWS_PROFILE", raising=False)
        with pytest.raises(PermissionError, match="botocore has none"):
            source_of(keys()).get()

    def test_a_profile_that_is_missing(self, files: Any, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("AWS_PROFILE", "play")
        with pytest.raises(PermissionError, match=r"ProfileNotFound.*play"):
            source_of(keys()).get()


def test_keys_need_no_botocore(no_botocore: None):
    assert source_of(configured(KEYS), {}).get() is not None


def test_reprs_show_nothing():
    credentials = Credentials("AKID", "secret", "token", 1.0)
    assert repr(credentials) == f"{credentials}" == "<Credentials>"
    assert "anonymous" in repr(Credentials())


# --- newer ones -----------------------------------------------------------------------------------


class Client:
    """What a refresher sees of a client."""

    def __init__(self) -> None:
        self.set: list[tuple[str, str, str]] = []
        self.wanted = threading.Event()

    def wait_credentials_wanted(self, timeout: float) -> bool:
        return self.wanted.wait(min(timeout, 0.01))

    def set_credentials(self, *credentials: str) -> None:
        self.wanted.clear()
        self.set.append(credentials)  # type: ignore[arg-type]


class Scripted(Source):
    """Gives what it is told to."""

    can_refresh = True

    def __init__(self, *given: Credentials | Exception | None) -> None:
        self.given = list(given)
        self.asked: list[bool] = []

    def get(self, newer: bool = False) -> Credentials | None:
        self.asked.append(newer)
        one = self.given.pop(0) if len(self.given) > 1 else self.given[0]
        if isinstance(one, Exception):
            raise one
        return one


FIRST = Credentials("A", "a", "", None)
SECOND = Credentials("B", "b", "t", None)
THIRD = Credentials("C", "c", "t", None)


@pytest.mark.parametrize("later", [PermissionError("down"), None])
def test_the_first_that_has_some_is_asked_from_then_on(later: Exception | None):
    """What the next one has may be another identity's, or none at all."""
    listed = ListedSource([("first", Scripted(FIRST, later)), ("second", Scripted(SECOND))])
    assert listed.get() == FIRST
    for newer in (False, True):
        with pytest.raises(PermissionError, match=r"down|any more"):
            listed.get(newer)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "_PAUSE_AFTER_FAILURE_S", 0.01)


def refresher(
    client: Client, source: Source, first: Credentials, origin: object = None
) -> Refresher:
    fake: Any = client
    return Refresher(fake, source, first, origin)


class TestRefreshing:
    def test_a_store_that_refuses_gets_newer_ones(self):
        client, source = Client(), Scripted(SECOND)
        running = refresher(client, source, FIRST)
        client.wanted.set()
        wait_until(lambda: bool(client.set), "newer credentials are set")
        assert client.set == [("B", "b", "t")]
        assert source.asked[0] is True
        running.stop()
        running.wait_ended(DEADLINE_S)

    def test_the_same_again_are_not_newer(self):
        """They were refused; the source is asked again until it has others."""
        client, source = Client(), Scripted(FIRST, FIRST, OSError("down"), SECOND)
        running = refresher(client, source, FIRST)
        client.wanted.set()
        wait_until(lambda: bool(client.set), "newer credentials are set")
        assert client.set == [("B", "b", "t")]
        assert len(source.asked) == 4
        running.stop()
        running.wait_ended(DEADLINE_S)

    @pytest.mark.parametrize("renews", [True, False], ids=["a server", "a file"])
    def test_a_source_that_has_no_others(self, monkeypatch: pytest.MonkeyPatch, renews: bool):
        """A server is asked ever less often; who looks for a file waits for two seconds only.

        The client can go meanwhile.
        """
        monkeypatch.setattr(credentials, "_MAX_PAUSE_S", 0.04)
        client, source = Client(), Scripted(FIRST)
        source.renews = renews
        gone = weakref.ref(client)
        running = refresher(client, source, FIRST)
        client.wanted.set()
        wait_until(lambda: len(source.asked) >= 4, "it was asked again")
        assert running._pause == (0.04 if renews else 0.01)
        running._not_before = time.monotonic() + 3600
        del client
        wait_until(lambda: bool(gc.collect() + 1) and gone() is None, "the client is gone")
        assert running.wait_ended(DEADLINE_S)

    def test_a_clock_that_is_set_back(self, monkeypatch: pytest.MonkeyPatch):
        """By an hour each time that it is looked at: a failure holds nothing back for longer."""
        clock = (2e9 - 3600 * hour for hour in itertools.count())
        monkeypatch.setattr(
            credentials,
            "time",
            types.SimpleNamespace(time=lambda: next(clock), monotonic=time.monotonic),
        )
        client, source = Client(), Scripted(OSError("down"), SECOND)
        running = refresher(client, source, FIRST)
        client.wanted.set()
        wait_until(lambda: bool(client.set), "newer credentials are set")
        running.stop()
        running.wait_ended(DEADLINE_S)

    def test_in_time(self):
        """What ends soon is replaced without anybody asking."""
        now = time.time()
        client, source = Client(), Scripted(SECOND._replace(expiry=now + 3600))
        running = refresher(client, source, FIRST._replace(expiry=now + 12 * 60 + 0.2))
        running._due = now
        wait_until(lambda: bool(client.set), "newer credentials are set")
        assert source.asked == [False]
        assert running._due == pytest.approx(now + 3600 - 12 * 60, abs=60)
        running.stop()
        running.wait_ended(DEADLINE_S)

    def test_when(self):
        """Twelve minutes before the end; every five minutes where nobody knows it."""
        assert credentials._due(FIRST._replace(expiry=10_000.0), 0.0) == 10_000 - 720
        assert credentials._due(FIRST._replace(expiry=10.0), 0.0) == 2.5
        assert credentials._due(FIRST._replace(expiry=10.0), 11.0) == 12.0
        assert credentials._due(FIRST, 100.0) == 400.0

    def test_it_ends_with_its_client(self):
        client = Client()
        gone = weakref.ref(client)
        running = refresher(client, Scripted(FIRST), FIRST)
        del client
        wait_until(lambda: bool(gc.collect() + 1) and gone() is None, "the client is gone")
        assert running.wait_ended(DEADLINE_S)


class TestSharing:
    """One thread, and one source, for all buckets whose credentials come from the same place."""

    def test_all_have_the_newest(self):
        first, second, late = clients = [Client() for _ in range(3)]
        now = time.time()
        source = Scripted(SECOND._replace(expiry=now + 3600), THIRD)
        running = refresher(first, source, FIRST, "origin")
        assert credentials.joinable("origin") is running
        assert running.join(cast("Any", second), FIRST)
        running._due = now
        wait_until(lambda: bool(first.set and second.set), "newer credentials are set")
        assert running.join(cast("Any", late), FIRST)
        first.wanted.set()
        wait_until(lambda: all(len(client.set) == 2 for client in clients), "newer ones are set")
        assert {tuple(client.set) for client in clients} == {(SECOND[:3], THIRD[:3])}
        assert source.asked == [False, True]
        for client in clients:
            running.leave(cast("Any", client))
        assert running.wait_ended(DEADLINE_S)

    @pytest.mark.parametrize("given", [OSError("down"), SECOND])
    def test_none_joins_after_a_failure(self, given: Credentials | Exception):
        """Of the source, or of the credentials: it may be in a state of its own."""
        client = Client()
        running = refresher(client, Scripted(given), FIRST, "origin")
        (client.wanted.set if given is SECOND else partial(setattr, running, "_due", 0.0))()
        wait_until(lambda: credentials.joinable("origin") is None, "none joins")
        assert not running.join(cast("Any", Client()), FIRST)
        running.stop()
        assert running.wait_ended(DEADLINE_S)

    def test_which_buckets_share(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """Until the configuration, the environment or a file is another."""
        pytest.importorskip("botocore")
        file = tmp_path / "credentials"
        file.write_text("[default]\naws_access_key_id=A\naws_secret_access_key=s\n")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        for name in (*ENVIRONMENT, "AWS_SESSION_TOKEN", "AWS_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        own = {"fs.s3a.bucket.four.aws.credentials.provider": "ProfileCredentialsProvider"}
        buckets = [bucket_of(name, own) for name in ("one", "two", "four")]
        early = hflush.FileSystem.new_instance("s3://early/", own)
        monkeypatch.setenv("AWS_ROLE_SESSION_NAME", "ann")
        buckets += [bucket_of("five", own), client_of(early)]
        with file.open("a") as opened:
            opened.write("[other]\n")
        buckets.append(bucket_of("six", own))
        one, two, *others = (bucket._refresher for bucket in buckets)
        assert one is two
        assert buckets[0]._source is buckets[1]._source
        assert len({one, *others}) == 5
        buckets[0].close()
        assert one is not None
        assert one._living() == [buckets[1].client]
        for bucket in buckets[1:]:
            bucket.close()


def bucket_of(name: str, conf: dict[str, str]) -> Bucket:
    """A bucket that has its client."""
    return client_of(hflush.FileSystem.new_instance(f"s3://{name}/", conf))


def client_of(fs: hflush.FileSystem) -> Bucket:
    bucket = cast("S3FileSystem", fs)._bucket
    assert bucket.client is not None
    return bucket


DEEP = """
import ctypes, sys
from hflush import _core
library, attributes = ctypes.CDLL(None), ctypes.create_string_buffer(256)
library.pthread_attr_init(attributes)
library.pthread_attr_setstacksize(attributes, ctypes.c_size_t(128 << 10))
assert library.pthread_setattr_default_np(attributes) == 0
nested = []
for _ in range(900):
    nested = [nested]
thread = _core.BackgroundThread()
thread.start(lambda: sys.stdout.write(repr(nested)))
assert thread.join(float(sys.argv[1]))
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "pthread_setattr_default_np"), reason="of glibc")
def test_the_stack_of_the_thread():
    """It runs botocore where threads have little by default, as those of musl: 128 KiB."""
    command = [sys.executable, "-c", DEEP, str(DEADLINE_S)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=DEADLINE_S)
    assert done.stdout == "[" * 901 + "]" * 901


ENDING = """
import sys, time
from hflush import _core
class Late:
    sleep = time.sleep
    def __del__(self):
        self.sleep(0.2)
turns = []
def turn():
    while True:
        time.sleep(0.001)
        turns.append(1)
thread = _core.BackgroundThread()
thread.start(turn)
while not turns:
    time.sleep(0.001)
sys.modules["late"] = Late()
"""


def test_a_process_ends_beside_the_thread():
    """It runs Python when the interpreter ends, which takes some time here: it stops, no more."""
    command = [sys.executable, "-c", ENDING]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert (done.returncode, done.stderr) == (0, "")


def test_botocore_is_only_imported_when_needed():
    assert BotocoreSource((), "")._session is None
