"""AWS's files and variables: which servers they name, as for AWS's own clients."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import NamedTuple

import hflush
import pytest
from hflush import Configuration
from hflush.s3.settings import Settings

CONFIG = """
[default]
region = eu-west-1
[profile minio]
endpoint_url = http://127.0.0.1:9000
region = here
s3 =
    addressing_style = virtual
[profile both]
services = local
endpoint_url = http://everything:1
[services local]
dynamodb =
  endpoint_url = http://tables:1
s3 =
  endpoint_url = http://objects:2
[profile ignoring]
ignore_configured_endpoint_urls = true
endpoint_url = http://everything:1
[profile lost]
services = nosuch
[profile government]
use_fips_endpoint = true
region = us-gov-west-1
[profile six]
region = eu-west-1
s3 =
  use_dualstack_endpoint = true
[profile "quoted name"]
endpoint_url = http://quoted:3
"""


class Found(NamedTuple):
    server: str
    region: str
    path_style: bool


@pytest.fixture
def found(tmp_path: Path):
    """Return what a profile, variables and keys come to."""
    (tmp_path / "config").write_text(CONFIG)
    (tmp_path / "credentials").write_text("[keys]\nendpoint_url = http://beside:4\n")
    files = {
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
    }

    def read(profile: str = "", variables: dict[str, str] | None = None, **keys: str) -> Found:
        conf = Configuration(load_defaults=False)
        conf.update({f"fs.s3a.{key.replace('_', '.')}": value for key, value in keys.items()})
        env = {**files, **({"AWS_PROFILE": profile} if profile else {}), **(variables or {})}
        settings = Settings.read(conf, "bucket", env)
        native = settings.connected_to("")
        port = f":{native.port}" if native.port else ""
        return Found(f"{native.scheme}://{native.host}{port}", settings.region, settings.path_style)

    return read


def test_the_profiles_server(found):
    assert found("minio") == ("http://127.0.0.1:9000", "here", False)
    assert found("both").server == "http://objects:2"
    assert found("keys").server == "http://beside:4"
    assert found("quoted name").server == "http://quoted:3"
    assert found("", {"AWS_DEFAULT_PROFILE": "both"}).server == "http://objects:2"
    assert found().server == "https://s3.eu-west-1.amazonaws.com"


def test_the_profile_of_the_credentials(found):
    """Hadoop's key names it where the credentials come from a profile."""
    provider = "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider"
    keys = {"auth_profile_name": "both", "aws_credentials_provider": provider}
    assert found("minio", **keys).server == "http://objects:2"
    assert found("minio", auth_profile_name="both").server == "http://127.0.0.1:9000"


def test_the_file_of_the_credentials(found, tmp_path: Path):
    """It takes the place of the shared file where the credentials come from one."""
    (tmp_path / "own").write_text("[keys]\nendpoint_url = http://own:9\n")
    keys = {"auth_profile_file": str(tmp_path / "own")}
    assert found("keys", **keys).server == "http://beside:4"
    keys["aws_credentials_provider"] = "ProfileAWSCredentialsProvider"
    assert found("keys", **keys).server == "http://own:9"
    assert found("minio", **keys).server == "http://127.0.0.1:9000"


def test_who_wins(found):
    """Hadoop's keys, then variables, then the services, then the profile."""
    both = {"AWS_ENDPOINT_URL": "http://all:5", "AWS_ENDPOINT_URL_S3": "http://s3:6"}
    assert found("both", both).server == "http://s3:6"
    assert found("both", {"AWS_ENDPOINT_URL": "http://all:5"}).server == "http://all:5"
    own = found("minio", both, endpoint="http://mine:7")
    assert own == ("http://mine:7", "", True)
    assert found("minio", path_style_access="true", endpoint_region="mine") == (
        "http://127.0.0.1:9000", "mine", True,
    )  # fmt: skip
    assert found("minio", {"AWS_REGION": "there"}, endpoint_region="sdk").region == "there"
    assert found("minio", {"AWS_REGION": "there"}, endpoint_region="ec2").region == "there"


@pytest.mark.parametrize(
    ("profile", "variables"),
    [
        ("ignoring", {"AWS_ENDPOINT_URL": "http://all:5"}),
        ("minio", {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}),
    ],
)
def test_what_is_configured_is_ignored(found, profile: str, variables: dict[str, str]):
    assert found(profile, variables).server.endswith(".amazonaws.com")
    back = {**variables, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "false"}
    assert found(profile, back).server.startswith("http://")


def test_the_server_travels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A pickle leads to the same one where the environment names none, or another."""
    (tmp_path / "config").write_text(CONFIG)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "minio")
    fs = hflush.FileSystem.get("s3://bucket/")
    sent = pickle.dumps(fs)
    assert pickle.loads(sent) is fs
    monkeypatch.delenv("AWS_PROFILE")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://other:8")
    there = pickle.loads(sent)._settings_of_bucket
    assert there.endpoint[:3] == ("http", "127.0.0.1", 9000)
    assert (there.region, there.path_style) == ("here", False)
    native = hflush.FileSystem.get("s3://bucket/", {"fs.s3a.endpoint": "http://mine:7"})
    assert pickle.loads(pickle.dumps(native)) is native


def test_other_servers_of_aws(found):
    """Those for FIPS, and those with IPv6, by the profile or a variable."""
    assert found("government").server == "https://s3-fips.us-gov-west-1.amazonaws.com"
    assert found("six").server == "https://s3.dualstack.eu-west-1.amazonaws.com"
    both = {"AWS_USE_FIPS_ENDPOINT": "true", "AWS_USE_DUALSTACK_ENDPOINT": "true"}
    assert found("", both).server == "https://s3-fips.dualstack.eu-west-1.amazonaws.com"
    assert found("government", endpoint_fips="false").server.startswith("https://s3.us-gov")
    with pytest.raises(ValueError, match=r"use_fips_endpoint.*127\.0\.0\.1"):
        found("minio", {"AWS_USE_FIPS_ENDPOINT": "true"})


def test_names_that_lead_nowhere(found, tmp_path: Path):
    """A profile, its services, and a file that is not one: not Amazon instead."""
    with pytest.raises(ValueError, match=r"'nosuch' of AWS is not in .*config or .*credentials"):
        found("nosuch")
    with pytest.raises(ValueError, match=r"\[services nosuch\] is not in"):
        found("lost")
    broken = tmp_path / "broken"
    for text in ("aws_secret_access_key = hush", "[default]\naws_secret_access_key hush"):
        broken.write_text(text)
        with pytest.raises(ValueError, match=r"broken: not a file of AWS's.*line \d") as refusal:
            found("", {"AWS_CONFIG_FILE": str(broken)})
        assert "hush" not in str(refusal.value)
    assert found("nosuch", endpoint="http://mine:7").server == "http://mine:7"
    nowhere = {"AWS_CONFIG_FILE": "/nosuch", "AWS_SHARED_CREDENTIALS_FILE": "/nosuch"}
    assert found("", nowhere).server == "https://s3.us-east-1.amazonaws.com"
