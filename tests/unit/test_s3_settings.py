"""Settings of S3: which keys are heard, what they come to, and what is refused."""

from __future__ import annotations

import base64
import io
import pickle
import re
from operator import attrgetter
from pathlib import Path
from typing import Any

import hflush
import pytest
from hflush import warn
from hflush.s3.keys import KEYS
from hflush.s3.settings import (
    Endpoint,
    Settings,
    check_metadata,
    copy_source_key,
    customer_key_id,
    storage_class,
    user_header,
)

PYTHON = Path(__file__).resolve().parents[2] / "src" / "python" / "hflush"
NO_LIMIT = (1 << 63) / 1e9  # as the core has it, in seconds
KEY = base64.b64encode(bytes(range(32))).decode()


def settings(bucket: str = "b", environment: dict[str, str] | None = None, **conf: Any) -> Settings:
    configuration = hflush.Configuration(load_defaults=False)
    for name, value in conf.items():
        configuration[name.replace("__", "-").replace("_", ".")] = value
    return Settings.read(configuration, bucket, environment or {})


class TestDefaults:
    def test_every_default_of_the_table_is_valid(self):
        """What the documentation says is what holds where nothing is set."""
        read = settings()
        assert read.writing.block_bytes == 8 << 20
        assert read.writing.active_blocks == 4
        assert read.writing.buffering == "adaptive"
        assert read.conditional == "auto"
        assert not read.downgrades
        assert read.performance == frozenset()
        assert (read.native.retry_limit, read.native.retry_interval) == (7, 0.5)
        assert (read.native.connect_timeout, read.native.stall_timeout) == (10.0, 60.0)
        assert read.native.checksums
        assert not read.native.content_md5
        assert read.headers == read.sse_c == read.extra_headers == []


class TestValues:
    def test_hadoops_times_and_sizes(self):
        read = settings(
            fs_s3a_connection_timeout="5s",
            fs_s3a_connection_establish_timeout="1500ms",
            fs_s3a_retry_interval="2m",
            fs_s3a_multipart_size="64M",
        )
        assert read.native.stall_timeout == 5.0
        assert read.native.connect_timeout == 1.5
        assert read.native.retry_interval == 120.0
        assert read.writing.block_bytes == 64 << 20

    def test_what_bounds_a_request(self):
        """Complete is more patient than the rest, as copies are; 0 is no limit."""
        native = settings(fs_s3a_connection_timeout="5s").native
        assert native.complete_timeout == settings().copy_timeout == 600.0
        assert native.request_timeout > 10**9
        assert native.upload_timeout > 10**9
        native = settings(
            hflush_s3_complete_timeout="7m",
            fs_s3a_connection_request_timeout="15s",
            fs_s3a_connection_part_upload_timeout="15m",
        ).native
        assert native.complete_timeout == 420.0
        assert native.stall_timeout == 60.0
        assert (native.request_timeout, native.upload_timeout) == (15.0, 900.0)

    @pytest.mark.parametrize(
        ("given", "limit"),
        [
            ({}, 7),
            ({"fs_s3a_attempts_maximum": "3"}, 2),
            ({"fs_s3a_attempts_maximum": "1"}, 0),
            ({"fs_s3a_attempts_maximum": "3", "fs_s3a_retry_limit": "7"}, 7),
            ({"fs_s3a_retry_limit": "0"}, 0),
            ({"fs_s3a_bucket_b_attempts_maximum": "5", "fs_s3a_bucket_c_retry_limit": "1"}, 4),
        ],
    )
    def test_limits_of_retries_that_are_set_are_kept(self, given: dict[str, str], limit: int):
        """Attempts count the first one; the limit of retries, where it is set, decides."""
        assert settings(**given).native.retry_limit == limit

    @pytest.mark.rule("OBJ-7")
    @pytest.mark.stores("s3")
    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("fs.s3a.multipart.size", "much"),
            ("fs.s3a.block.size", "-1"),
            ("fs.s3a.fast.upload.buffer", "tape"),
            ("fs.s3a.fast.upload.active.blocks", "0"),
            ("fs.s3a.retry.interval", "-1s"),
            ("fs.s3a.connection.timeout", "soon"),
            ("fs.s3a.connection.ssl.enabled", "perhaps"),
            ("fs.s3a.path.style.access", "maybe"),
            ("fs.s3a.create.conditional.enabled", "sometimes"),
            ("fs.s3a.create.checksum.algorithm", "MD4"),
            ("fs.s3a.acl.default", "everybody"),
            ("fs.s3a.proxy.port", "3128"),
            ("hflush.s3.multipart.parts", "10001"),
            ("hflush.s3.payload.signing", "now and then"),
            ("fs.s3a.encryption.algorithm", "ROT13"),
            ("fs.s3a.user.agent.prefix", "a\r\nHost: b"),
            ("fs.s3a.buffer.dir", "~/buffers"),
            ("fs.s3a.buffer.dir", "/a,hdfs://nn/b"),
            ("hflush.s3.ssl.ca.file", "~/ca.pem"),
            ("hflush.s3.ssl.ca.file", "https://host/ca.pem"),
        ],
    )
    def test_what_is_wrong_is_named(self, key: str, value: str):
        """A value that is no value, or out of range, is refused by its key."""
        configuration = hflush.Configuration(load_defaults=False)
        configuration[key] = value
        with pytest.raises(ValueError, match=re.escape(key)):
            Settings.read(configuration, "b", {})

    @pytest.mark.parametrize(
        ("key", "value", "attribute", "used", "remark"),
        [
            ("multipart.size", "1M", "writing.block_bytes", 5 << 20, "5m is used"),
            ("multipart.size", "0", "writing.block_bytes", 5 << 20, "5m is used"),
            ("multipart.size", "-1", "writing.block_bytes", 5 << 20, "5m is used, the least"),
            ("multipart.size", "10G", "writing.block_bytes", 5 << 30, "5g is used, the most"),
            ("multipart.threshold", "-1", "copy_threshold", 5 << 20, "5m is used"),
            ("multipart.threshold", "0", "copy_threshold", 5 << 20, "5m is used"),
            ("multipart.threshold", "1T", "copy_threshold", 5 << 30, "5g is used, the most"),
            ("threads.max", "0", "native.max_uploads", 2, "2 is used, the least"),
            ("connection.maximum", "20000", "native.max_connections", 10_000, "10000 is used"),
            ("attempts.maximum", "0", "native.retry_limit", 0, "1 is used"),
            ("retry.limit", "2147483647", "native.retry_limit", 1000, "1000 is used"),
            ("retry.interval", "0", "native.retry_interval", 0.001, ""),
            ("connection.timeout", "0", "native.stall_timeout", 15.0, "15s is used"),
            ("connection.timeout", "-1", "native.stall_timeout", 15.0, "15s is used"),
            ("connection.establish.timeout", "-1s", "native.connect_timeout", 15.0, "15s is used"),
            ("connection.establish.timeout", "5", "native.connect_timeout", 15.0, "15s is used"),
            ("connection.timeout", "200", "native.stall_timeout", 15.0, "15s is used"),
            ("connection.timeout", "2s", "native.stall_timeout", 2.0, ""),
            ("connection.timeout", "20000", "native.stall_timeout", 20.0, ""),
            ("connection.request.timeout", "1000", "native.request_timeout", 15.0, "15s is used"),
            ("connection.idle.time", "0", "native.idle_timeout", 0.001, ""),
            ("connection.idle.time", "-1", "native.idle_timeout", 0.001, "1ms is used"),
            ("connection.request.timeout", "-1", "native.request_timeout", NO_LIMIT, "0 is used"),
            ("connection.part.upload.timeout", "-1", "native.upload_timeout", NO_LIMIT, "0 is"),
            ("create.checksum.algorithm", "SHA256", "native.checksums", True, "CRC32C is sent"),
            ("create.checksum.algorithm", "crc32", "native.checksums", True, "CRC32C is sent"),
            ("create.checksum.algorithm", "CRC64_NVME", "native.checksums", True, "CRC32C is sent"),
            ("create.checksum.algorithm", "CRC32_C", "native.checksums", True, ""),
            ("performance.flags", "Create,fly", "performance", {"create"}, "ignored: fly"),
            ("endpoint.region", "sdk", "region", "", ""),
            ("proxy.port", "-1", "native.proxy", "", ""),
        ],
    )
    def test_what_s3a_takes_is_taken(
        self, key: str, value: str, attribute: str, used: object, remark: str, monkeypatch, caplog
    ):
        """As S3A takes it: what it brings to a limit, with a warning, is no error here."""
        monkeypatch.setattr(warn, "_warned", set())
        configuration = hflush.Configuration(load_defaults=False)
        configuration[f"fs.s3a.bucket.b.{key}"] = value
        assert attrgetter(attribute)(Settings.read(configuration, "b", {})) == used
        assert len(caplog.messages) == bool(remark)
        assert all(remark in said and key in said for said in caplog.messages)

    def test_a_flag_of_its_own_goes_before_the_list(self):
        flags = {"fs_s3a_performance_flags": "*"}
        assert "create" in settings(**flags).performance
        assert "create" not in settings(**flags, fs_s3a_create_performance="false").performance

    @pytest.mark.parametrize(
        ("value", "buffering"),
        [("disk", "disk"), ("array", "memory"), ("ByteBuffer", "memory"), ("adaptive", "adaptive")],
    )
    def test_buffers(self, value: str, buffering: str):
        assert settings(fs_s3a_fast_upload_buffer=value).writing.buffering == buffering

    def test_parts_that_stay_in_memory_grow_no_further(self):
        assert settings().writing.max_bytes == 5 << 40
        assert settings(fs_s3a_fast_upload_buffer="array").writing.max_bytes == 10_000 * (8 << 20)

    @pytest.mark.parametrize(
        ("value", "used"),
        [
            ("file:///a/b", ["/a/b"]),
            ("file:/a b , /c", ["/a b", "/c"]),
            ("\n /a,\n/b", ["/a", "/b"]),
            ("a/b", ["a/b"]),
        ],
    )
    def test_local_places(self, value: str, used: list[str]):
        """As Hadoop writes them: paths or URIs, by commas."""
        assert settings(fs_s3a_buffer_dir=value).writing.buffer_directories == used
        native = settings(hflush_s3_ssl_ca_file="file:///etc/ca.pem").native
        assert native.ca_file == "/etc/ca.pem"

    def test_without_uploads(self):
        """The one part of an object takes no more memory than several do."""
        usual, read = settings(), settings(fs_s3a_multipart_uploads_enabled="false")
        assert (read.writing.block_bytes, read.writing.max_parts) == (5 << 30, 1)
        assert read.writing.window_bytes == usual.writing.window_bytes

    def test_performance(self):
        assert settings(fs_s3a_create_performance=True).performance == {"create"}
        assert settings(fs_s3a_performance_flags="Create, delete").performance == {
            "create", "delete",
        }  # fmt: skip
        assert settings(fs_s3a_performance_flags="*").performance >= {"create", "delete", "mkdir"}

    def test_stores_that_want_parts_of_one_size(self):
        """Known by their names, unless the key says otherwise."""
        r2 = {"fs_s3a_endpoint": "https://id.eu.r2.cloudflarestorage.com"}
        assert settings(**r2).writing.uniform_parts
        assert not settings(**r2, hflush_s3_multipart_uniform="false").writing.uniform_parts
        scaleway = {"fs_s3a_endpoint": "https://s3.fr-par.scw.cloud"}
        assert settings(**scaleway).writing.max_parts == 1000
        assert settings(**scaleway, hflush_s3_multipart_parts=9000).writing.max_parts == 9000

    def test_pages_are_what_the_store_gives(self):
        read = settings(fs_s3a_paging_maximum="5000", fs_s3a_bulk_delete_page_size="250")
        assert (read.page, read.delete_page) == (1000, 250)
        assert settings(fs_s3a_multiobjectdelete_enable=False).delete_page == 1


class TestBuckets:
    def test_the_buckets_own_keys_come_first(self):
        configuration = hflush.Configuration(load_defaults=False)
        configuration["fs.s3a.endpoint"] = "http://general:1"
        configuration["fs.s3a.bucket.mine.endpoint"] = "http://own:2"
        configuration["hflush.s3.bucket.mine.read.window"] = "1M"
        configuration["fs.s3a.bucket.mine.multipart.size"] = "${size}"
        configuration["size"] = "6M"
        assert Settings.read(configuration, "mine", {}).endpoint[:3] == ("http", "own", 2)
        assert Settings.read(configuration, "mine", {}).reading.window_bytes == 1 << 20
        assert Settings.read(configuration, "mine", {}).writing.block_bytes == 6 << 20
        assert Settings.read(configuration, "other", {}).endpoint[:3] == ("http", "general", 1)
        assert Settings.read(configuration, "other", {}).reading.window_bytes == 4 << 20

    def test_a_bucket_whose_name_has_dots(self):
        configuration = hflush.Configuration(load_defaults=False)
        configuration["fs.s3a.bucket.a.b.c.endpoint"] = "own:2"
        assert Settings.read(configuration, "a.b.c", {}).endpoint.host == "own"
        assert Settings.read(configuration, "a.b", {}).endpoint.host == ""

    def test_older_names(self):
        configuration = hflush.Configuration(load_defaults=False)
        configuration["fs.s3a.server-side-encryption-algorithm"] = "AES256"
        assert Settings.read(configuration, "b", {}).headers == [
            ("x-amz-server-side-encryption", "AES256")
        ]
        configuration["fs.s3a.bucket.b.server-side-encryption-algorithm"] = "SSE-KMS"
        assert Settings.read(configuration, "b", {}).headers[0][1] == "aws:kms"

    @pytest.mark.parametrize("bucket", ["", "-a", "a/b", "a b", "b?", "a:b", "x" * 256])
    def test_what_is_no_bucket(self, bucket: str):
        with pytest.raises(ValueError, match=r"bucket"):
            settings(bucket)

    def test_credentials_in_a_url_are_refused_unseen(self):
        with pytest.raises(ValueError, match=r"fs\.s3a\.access\.key") as refusal:
            settings("AK:SECRET@bucket")
        assert "SECRET" not in str(refusal.value)


class TestEndpoints:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("http://127.0.0.1:9000", ("http", "127.0.0.1", 9000)),
            ("https://s3.example.com/", ("https", "s3.example.com", 0)),
            ("minio:9000", ("https", "minio", 9000)),
            ("http://[::1]:9000", ("http", "::1", 9000)),
            ("s3.eu-west-1.amazonaws.com", ("https", "s3.eu-west-1.amazonaws.com", 0)),
            ("s3.amazonaws.com", ("https", "", 0)),
        ],
    )
    def test_forms(self, text: str, expected: tuple[str, str, int]):
        assert settings(fs_s3a_endpoint=text).endpoint == (*expected, "")

    @pytest.mark.parametrize(
        ("text", "path"),
        [
            ("https://x.supabase.co/storage/v1/s3", "/storage/v1/s3"),
            ("https://x.supabase.co/storage/v1/s3/", "/storage/v1/s3"),
            ("radosgw:7480/pre%20fix", "/pre fix"),
            ("http://minio:9000/", ""),
        ],
    )
    def test_paths(self, text: str, path: str):
        """What comes before the bucket; also of one bucket alone."""
        read = settings(fs_s3a_endpoint=text)
        assert (read.endpoint.path, read.native.base_path) == (path, path)
        assert read.path_style
        assert settings("b", fs_s3a_bucket_b_endpoint=text).endpoint.path == path

    def test_paths_that_are_none(self):
        """The bucket comes behind a path by itself; AWS has none."""
        with pytest.raises(ValueError, match="ends with the bucket"):
            settings("mine", fs_s3a_endpoint="https://x.r2.cloudflarestorage.com/mine")
        with pytest.raises(ValueError, match="AWS has no path"):
            settings("b", fs_s3a_endpoint="https://s3.amazonaws.com/a/b")

    @pytest.mark.parametrize(
        "text",
        [
            "ftp://a",
            "http://u:pass@a",
            "http://a?b=pass",
            "http://a:99999",
            "http://",
        ],
    )
    def test_what_is_no_server(self, text: str):
        with pytest.raises(ValueError, match="endpoint of S3 must be") as refusal:
            settings(fs_s3a_endpoint=text)
        assert "pass" not in str(refusal.value)

    def test_without_tls(self):
        read = settings(fs_s3a_endpoint="minio:9000", fs_s3a_connection_ssl_enabled=False)
        assert read.endpoint.scheme == read.native.scheme == "http"

    def test_environment(self):
        env = {"AWS_ENDPOINT_URL": "http://any:1", "AWS_ENDPOINT_URL_S3": "http://own:2"}
        assert settings(environment=env).endpoint.host == "own"
        assert settings(environment={"AWS_ENDPOINT_URL": "http://any:1"}).endpoint.host == "any"
        assert settings(environment=env, fs_s3a_endpoint="http://said:3").endpoint.host == "said"
        ignored = {**env, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}
        assert settings(environment=ignored).endpoint.is_aws

    def test_region(self):
        """The configuration, an endpoint of AWS, the environment, a profile, the default."""
        env = {"AWS_REGION": "eu-north-1", "AWS_DEFAULT_REGION": "eu-south-1"}
        assert settings(environment=env).region == "eu-north-1"
        assert settings(environment={"AWS_DEFAULT_REGION": "x-1"}).region == "x-1"
        named = settings(environment=env, fs_s3a_endpoint="s3.us-west-2.amazonaws.com")
        assert named.region == "us-west-2"
        said = settings(environment=env, fs_s3a_endpoint_region="r-1")
        assert said.connected_to("profile-1").region == "r-1"
        assert settings().connected_to("profile-1").region == "profile-1"
        assert settings().connected_to("").region == "us-east-1"

    def test_the_host_of_aws_follows_the_region(self):
        native = settings().connected_to("eu-central-1")
        assert native.host == "s3.eu-central-1.amazonaws.com"

    def test_every_region_of_aws(self):
        """Each partition has a domain of its own, as botocore knows them."""
        loaders = pytest.importorskip("botocore.loaders")
        regions = {
            region: partition["outputs"]["dnsSuffix"]
            for partition in loaders.Loader().load_data("partitions")["partitions"]
            for region in partition["regions"]
            if not region.endswith("-global")
        }
        assert len(regions) > 40
        for region, suffix in regions.items():
            host = f"s3.{region}.{suffix}"
            assert settings(fs_s3a_endpoint_region=region).connected_to("").host == host
            named = settings(fs_s3a_endpoint=host)
            assert (named.region, named.path_style) == (region, False)

    def test_objects_come_as_they_are_stored(self):
        """Google's store inflates what is gzip for who does not take that."""
        google = settings(fs_s3a_endpoint="storage.googleapis.com").endpoint
        assert google.as_stored == [("Accept-Encoding", "gzip")]
        assert settings(fs_s3a_endpoint="minio.example").endpoint.as_stored == []

    @pytest.mark.parametrize(
        ("bucket", "endpoint", "style", "expected"),
        [
            ("b", "", "auto", False),
            ("b", "oss-cn-hangzhou.aliyuncs.com", "auto", False),
            ("b.c", "", "auto", True),
            ("b", "http://127.0.0.1:9000", "auto", True),
            ("b", "http://127.0.0.1:9000", "false", False),
            ("b", "", "true", True),
        ],
    )
    def test_path_style(self, bucket: str, endpoint: str, style: str, expected: bool):
        read = settings(bucket, fs_s3a_endpoint=endpoint, fs_s3a_path_style_access=style)
        assert read.path_style is read.native.path_style is expected

    def test_proxy(self):
        conf = {
            "fs_s3a_proxy_host": "proxy",
            "fs_s3a_proxy_username": "u",
            "fs_s3a_proxy_password": "p",
        }
        assert settings(**conf).native.proxy == "http://proxy:80"
        assert settings(**conf, fs_s3a_proxy_port="3128").native.proxy == "http://proxy:3128"
        assert settings(**conf, fs_s3a_proxy_ssl_enabled=True).native.proxy == "https://proxy:443"
        assert settings(**conf).native.proxy_password == "p"

    def test_authorities(self, tmp_path: Path):
        """The variable, the profile, the variable of requests, as for botocore."""
        config, other = tmp_path / "config", tmp_path / "other"
        config.write_text("[profile own]\nca_bundle = /own\n")
        other.touch()
        files = {"AWS_CONFIG_FILE": str(config), "AWS_SHARED_CREDENTIALS_FILE": "/nosuch"}
        env = {**files, "AWS_PROFILE": "own", "REQUESTS_CA_BUNDLE": str(other)}
        assert settings(environment={**env, "AWS_CA_BUNDLE": "/ca"}).native.ca_file == "/ca"
        assert settings(environment=env).native.ca_file == "/own"
        env["AWS_PROFILE"] = "nosuch"
        read = settings(environment=env, fs_s3a_endpoint="https://minio.example")
        assert read.native.ca_file == str(other)

    def test_endpoint_is_a_value(self):
        assert Endpoint("https", "", 0).is_aws
        assert not Endpoint("https", "amazonaws.com.example.org", 0).is_aws
        assert not Endpoint("https", "amazonaws.eu", 0).is_aws

    @pytest.mark.parametrize(
        "server",
        [
            "x-1.us-east-1.elb",
            "s3-x-1.elb.us-east-1",
            "s3.x-1.us-east-1.elb",
            "ec2-1-2-3-4.compute-1",
            "vpce-1-2.vpce-svc-3.us-east-1.vpce",
        ],
    )
    def test_a_store_of_its_own_on_hosts_of_aws(self, server: str):
        """What only AWS is known to do is not expected of it."""
        read = settings(fs_s3a_endpoint=f"https://{server}.amazonaws.com/path")
        assert not read.endpoint.is_aws
        assert read.path_style

    @pytest.mark.parametrize(
        ("server", "region"),
        [
            ("s3.dualstack.eu-west-3", "eu-west-3"),
            ("s3-eu-west-3", "eu-west-3"),
            ("s3-fips.us-gov-west-1", "us-gov-west-1"),
            ("s3-fips-us-gov-west-1", "us-gov-west-1"),
            ("bucket.vpce-1a2b3c4d-5e6f.s3.us-west-2.vpce", "us-west-2"),
            ("s3-accelerate", ""),
        ],
    )
    def test_the_region_in_the_name_of_a_server(self, server: str, region: str):
        endpoint = Endpoint("https", f"{server}.amazonaws.com", 0)
        assert endpoint.region == region
        assert endpoint.is_aws


class TestHeaders:
    def test_encryption_by_the_store(self):
        prefix = "x-amz-server-side-encryption"
        read = settings(
            fs_s3a_encryption_algorithm="sse-kms",
            fs_s3a_encryption_key="arn:aws:kms:k",
            fs_s3a_encryption_context="team=a, job=b,",
        )
        headers = dict(read.headers)
        assert headers[prefix] == "aws:kms"
        assert headers[f"{prefix}-aws-kms-key-id"] == "arn:aws:kms:k"
        context = base64.b64decode(headers[f"{prefix}-context"])
        assert context == b'{"team": "a", "job": "b"}'
        assert settings(fs_s3a_encryption_algorithm="DSSE-KMS").headers == [
            (prefix, "aws:kms:dsse")
        ]

    def test_a_key_of_ours(self):
        """SSE-C goes with every request, so not with the headers of an object."""
        read = settings(fs_s3a_encryption_algorithm="SSE-C", fs_s3a_encryption_key=KEY)
        assert read.headers == []
        assert dict(read.sse_c)["x-amz-server-side-encryption-customer-key"] == KEY
        assert customer_key_id(read.sse_c) == "tP/LI3N87DFaSk0aoqYgzg=="
        assert [name for name, _ in copy_source_key(read.sse_c)] == [
            "x-amz-copy-source-server-side-encryption-customer-algorithm",
            "x-amz-copy-source-server-side-encryption-customer-key",
            "x-amz-copy-source-server-side-encryption-customer-key-MD5",
        ]

    @pytest.mark.parametrize("key", ["", "short", KEY[:-4], "?" * 44])
    def test_a_key_that_is_none_is_not_shown(self, key: str):
        with pytest.raises(ValueError, match="32 bytes") as refusal:
            settings(fs_s3a_encryption_algorithm="SSE-C", fs_s3a_encryption_key=key)
        assert not key or key not in str(refusal.value)

    def test_a_key_that_nothing_is_done_with(self):
        with pytest.raises(ValueError, match=r"AES256 has no use for fs\.s3a\.encryption\.key"):
            settings(fs_s3a_encryption_algorithm="AES256", fs_s3a_encryption_key="arn:aws:kms:k")

    def test_a_key_does_not_travel_openly(self):
        with pytest.raises(ValueError, match="TLS"):
            settings(
                fs_s3a_encryption_algorithm="SSE-C",
                fs_s3a_encryption_key=KEY,
                fs_s3a_endpoint="http://minio:9000",
            )

    @pytest.mark.parametrize(
        ("name", "value"),
        [("PublicRead", "public-read"), ("bucket-owner-full-control",) * 2, ("Private", "private")],
    )
    def test_acls(self, name: str, value: str):
        assert settings(fs_s3a_acl_default=name).headers == [("x-amz-acl", value)]

    def test_storage_class(self):
        assert storage_class("k", "standard_ia") == ("x-amz-storage-class", "STANDARD_IA")
        assert settings(fs_s3a_create_storage_class="glacier-ir").headers == [
            ("x-amz-storage-class", "GLACIER_IR")
        ]

    def test_a_storage_class_that_aws_has_not(self, caplog: pytest.LogCaptureFixture):
        """S3A warns of it, too; to another store it may mean something."""
        assert settings(fs_s3a_create_storage_class="cold").headers == []
        assert "cold: AWS has no such class" in caplog.text
        there = settings(fs_s3a_create_storage_class="cold", fs_s3a_endpoint="obs.example.com")
        assert there.headers == [("x-amz-storage-class", "COLD")]

    @pytest.mark.parametrize("value", ["0", "-1", "3", "2"])
    def test_versions_of_listings(self, value: str, caplog: pytest.LogCaptureFixture):
        assert not settings(fs_s3a_list_version=value).lists_as_before
        assert ("2 is used" in caplog.text) == (value != "2")

    def test_requester_pays(self):
        read = settings(fs_s3a_requester_pays_enabled=True)
        assert read.extra_headers == [("x-amz-request-payer", "requester")]

    def test_headers_of_every_request(self):
        """As S3A takes them: several by commas, several values of one by semicolons."""
        read = settings(fs_s3a_client_s3_custom_headers="X-Tenant=a; b, x-other = c")
        assert read.extra_headers == [("X-Tenant", "a,b"), ("x-other", "c")]
        for given in ("X-Tenant", "Host=a", "x y=1", "x=\u00e9"):
            with pytest.raises(ValueError, match=r"^fs\.s3a\.client\.s3\.custom\.headers"):
                settings(fs_s3a_client_s3_custom_headers=given)

    @pytest.mark.parametrize(
        ("name", "value", "expected"),
        [
            ("Owner", "ann", ("x-amz-meta-owner", "ann")),
            ("x-amz-meta-owner", "ann", ("x-amz-meta-owner", "ann")),
            ("cache-control", "no-store", ("Cache-Control", "no-store")),
            ("Content-Type", "text/csv", ("Content-Type", "text/csv")),
            ("X-Amz-Tagging", "a=b&c=d", ("x-amz-tagging", "a=b&c=d")),
        ],
    )
    def test_headers_of_users(self, name: str, value: str, expected: tuple[str, str]):
        assert user_header("key", name, value) == expected

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("x-amz-acl", "private"),
            ("hflush-token", "x"),
            ("a b", "c"),
            ("a", "b\r\nHost: c"),
            ("a", "é"),
            ("", "x"),
        ],
    )
    def test_headers_that_are_not_theirs(self, name: str, value: str):
        with pytest.raises(ValueError, match=r"the\.key"):
            user_header("the.key", name, value)

    def test_too_much_metadata(self):
        check_metadata([("x-amz-meta-a", "x" * 1900), ("Cache-Control", "x" * 5000)])
        with pytest.raises(ValueError, match="2048"):
            check_metadata([("x-amz-meta-a", "x" * 2000)])


class TestSecrets:
    @pytest.mark.parametrize(
        "key",
        [
            "fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.session.token",
            "fs.s3a.encryption.key", "fs.s3a.server-side-encryption.key", "fs.s3a.proxy.password",
            "fs.s3a.bucket.b.secret.key", "fs.s3a.bucket.a.b.session.token",
        ],
    )  # fmt: skip
    def test_which_they_are(self, key: str):
        assert hflush.Configuration(load_defaults=False).is_secret(key)

    @pytest.mark.parametrize(
        "key",
        [
            "fs.s3a.endpoint",
            "fs.s3a.aws.credentials.provider",
            "fs.s3a.encryption.algorithm",
            "fs.s3a.bucket.b.endpoint",
        ],
    )
    def test_which_they_are_not(self, key: str):
        assert not hflush.Configuration(load_defaults=False).is_secret(key)

    @pytest.mark.parametrize("kept", [False, True])
    def test_pickles(self, kept: bool):
        """Providers travel, secrets do not unless asked."""
        conf = {
            "fs.s3a.access.key": "AKID", "fs.s3a.secret.key": "hushhush",
            "fs.s3a.bucket.b.session.token": "quiet", "fs.s3a.endpoint": "http://minio:9000",
            "fs.s3a.aws.credentials.provider": "SimpleAWSCredentialsProvider",
            "hflush.s3.pickle.secrets": kept,
        }  # fmt: skip
        fs = hflush.FileSystem.new_instance("s3://b/", conf)
        pickled = pickle.dumps(fs)
        for secret in (b"AKID", b"hushhush", b"quiet"):
            assert (secret in pickled) is kept
        copy = pickle.loads(pickled)
        assert copy.uri == "s3://b/"
        assert copy.conf["fs.s3a.endpoint"] == "http://minio:9000"
        assert copy.conf["fs.s3a.aws.credentials.provider"] == "SimpleAWSCredentialsProvider"
        assert ("fs.s3a.secret.key" in copy.conf) is kept

    @pytest.mark.parametrize(
        "name",
        ["fs.s3a.encryption.key", "fs.s3a.server-side-encryption.key",
         "fs.s3a.bucket.b.encryption.key"],
    )  # fmt: skip
    def test_a_key_of_kms_travels(self, name: str):
        """Elsewhere is written under the same key, which only its name says."""
        conf = {"fs.s3a.encryption.algorithm": "SSE-KMS", name: "arn:aws:kms:r:1:key/k"}
        fs: Any = hflush.FileSystem.new_instance("s3://b/", conf)
        copied = pickle.loads(pickle.dumps(fs))
        headers = copied._settings_of_bucket.headers
        assert headers == fs._settings_of_bucket.headers
        assert ("x-amz-server-side-encryption-aws-kms-key-id", "arn:aws:kms:r:1:key/k") in headers

    def test_without_a_key_of_a_customer_nothing_is_written(self):
        """It does not travel, and the other end refuses, saying why."""
        conf = {"fs.s3a.encryption.algorithm": "SSE-C", "fs.s3a.encryption.key": KEY}
        pickled = pickle.dumps(hflush.FileSystem.new_instance("s3://b/", conf))
        assert KEY.encode() not in pickled
        with pytest.raises(
            PermissionError, match=r"encryption\.key of .* secret.*hflush\.pickle\.secrets"
        ):
            pickle.loads(pickled)

    @pytest.mark.parametrize("name", ["fs.s3a.endpoint", "fs.s3a.bucket.b.endpoint"])
    def test_without_what_says_where_data_are_nothing_is_written(self, name: str):
        """Not at Amazon instead: where the configuration calls it a secret, it does not travel."""
        conf = {"hadoop.security.sensitive-config-keys": "endpoint$", name: "minio.example"}
        pickled = pickle.dumps(hflush.FileSystem.new_instance("s3://b/", conf))
        with pytest.raises(PermissionError, match=rf"{re.escape(name)} of the process"):
            pickle.loads(pickled)
        elsewhere = pickle.dumps(hflush.FileSystem.new_instance("s3://c/", conf))
        if "bucket.b" in name:
            assert pickle.loads(elsewhere).uri == "s3://c/"

    @pytest.mark.parametrize("prefix", ["fs.s3a.", "hflush.s3."])
    def test_a_general_key_does_not_take_the_place_of_a_buckets_own(
        self, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """The process that gets the file system may have the general one; data would land there."""
        name = {"fs.s3a.": "endpoint", "hflush.s3.": "multipart.parts"}[prefix]
        own, value = f"{prefix}bucket.b.{name}", {"endpoint": "m.example"}.get(name, "100")
        conf = {"hadoop.security.sensitive-config-keys": f"{name}$", own: value}
        pickled = pickle.dumps(hflush.FileSystem.new_instance("s3://b/", conf))
        site = f"<configuration><property><name>{prefix}{name}</name><value>{value}</value>"
        (tmp_path / "core-site.xml").write_text(f"{site}</property></configuration>")
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
        with pytest.raises(PermissionError, match=re.escape(own)):
            pickle.loads(pickled)

    def test_a_key_of_encryption_is_missed_where_it_is_used(self):
        conf = {"fs.s3a.encryption.key": KEY, "fs.s3a.bucket.x.encryption.algorithm": "SSE-C"}
        pickled = pickle.dumps(hflush.FileSystem.new_instance("s3://b/", conf))
        assert pickle.loads(pickled).uri == "s3://b/"
        pickled = pickle.dumps(hflush.FileSystem.new_instance("s3://x/", conf))
        with pytest.raises(PermissionError, match=r"encryption\.key"):
            pickle.loads(pickled)

    def test_reprs_show_none(self):
        conf = {"fs.s3a.access.key": "AKID", "fs.s3a.secret.key": "hushhush"}
        fs: Any = hflush.FileSystem.new_instance("s3a://b/", conf)
        shown = f"{fs!r} {fs._bucket!r} {fs._settings_of_bucket!r} {fs._bucket._source!r}"
        assert "hushhush" not in shown
        assert "AKID" not in shown


class TestWhatIsRefused:
    """Keys that decide where or how safely data go: honoured, or refused by name."""

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("fs.s3a.accesspoint.arn", "arn:aws:s3:eu-west-1:1:accesspoint/name"),
            ("fs.s3a.bucket.b.accesspoint.arn", "arn:aws:s3:eu-west-1:1:accesspoint/name"),
            ("fs.s3a.accesspoint.required", "true"),
            ("fs.s3a.custom.signers", "Mine:org.example.Signer"),
            ("fs.s3a.http.signer.enabled", "true"),
            ("fs.s3a.bucket.b.s3accessgrants.enabled", "true"),
            ("fs.s3a.signing-algorithm", "S3SignerType"),
            ("fs.s3a.s3.signing-algorithm", "NoOpSignerType"),
            ("fs.s3a.delegation.token.binding", "org.example.Binding"),
            ("fs.s3a.encryption.cse.kms.region", "eu-west-1"),
            ("fs.s3a.encryption.cse.custom.keyring.class.name", "org.example.Keyring"),
            ("fs.s3a.bucket.b.encryption.cse.v1.compatibility.enabled", "true"),
            ("fs.s3a.encryption.algorithm", "CSE-KMS"),
            ("fs.s3a.encryption.algorithm", "CSE-CUSTOM"),
        ],
    )
    def test_by_name(self, key, value):
        conf = hflush.Configuration(load_defaults=False)
        conf[key] = value
        with pytest.raises(ValueError, match=f"{re.escape(key)}.* is not supported: "):
            Settings.read(conf, "b", {})

    def test_not_where_they_change_nothing(self):
        """What Hadoop's own defaults say, other buckets' keys, and what the bucket's own undo."""
        conf = hflush.Configuration(load_defaults=False)
        conf.update(
            {
                "fs.s3a.accesspoint.required": "false",
                "fs.s3a.accesspoint.arn": "",
                "fs.s3a.signing-algorithm": "AWSS3V4SignerType",
                "fs.s3a.http.signer.enabled": "false",
                "fs.s3a.s3accessgrants.enabled": "false",
                "fs.s3a.encryption.cse.v1.compatibility.enabled": "false",
                "fs.s3a.bucket.other.accesspoint.arn": "arn:aws:s3:::x",
                "fs.s3a.custom.signers": "Mine",
                "fs.s3a.bucket.b.custom.signers": "",
            }
        )
        with pytest.raises(ValueError, match=r"custom\.signers"):
            Settings.read(conf, "b", {})  # empty is not set
        del conf["fs.s3a.custom.signers"]
        assert Settings.read(conf, "b", {}).bucket == "b"

    @pytest.mark.parametrize(
        ("key", "value", "instead"),
        [
            ("fs.s3.cse.enabled", "true", {}),
            ("fs.s3.enableServerSideEncryption", "TRUE", {"fs.s3a.encryption.algorithm": "AES256"}),
            ("fs.s3.canned.acl", "Private", {"fs.s3a.bucket.b.acl.default": "Private"}),
            ("fs.s3.endpoint", "minio.example", {"fs.s3a.endpoint": "minio.example"}),
        ],
    )
    def test_keys_of_emrfs(self, key: str, value: str, instead: dict[str, str]):
        """Where its class is configured, unless ours say as much."""
        conf = hflush.Configuration(load_defaults=False)
        conf[key] = value
        Settings.read(conf, "b", {})
        conf["fs.s3.impl"] = "com.amazon.ws.emr.hadoop.fs.EmrFileSystem"
        with pytest.raises(ValueError, match=re.escape(key)):
            Settings.read(conf, "b", {})
        conf.update(instead or {key: "false"})
        assert Settings.read(conf, "b", {}).bucket == "b"

    def test_a_key_of_kms_in_a_key_store(self):
        """S3A would find it there; without it data would be encrypted under another."""
        conf = hflush.Configuration(load_defaults=False)
        conf["hadoop.security.credential.provider.path"] = "jceks://file/x.jceks"
        conf["fs.s3a.encryption.algorithm"] = "SSE-KMS"
        with pytest.raises(
            ValueError, match=r"provider\.path names .* set fs\.s3a\.encryption\.key"
        ):
            Settings.read(conf, "b", {})
        conf["fs.s3a.encryption.key"] = "alias/aws/s3"
        assert ("x-amz-server-side-encryption-aws-kms-key-id", "alias/aws/s3") in Settings.read(
            conf, "b", {}
        ).headers

    def test_an_alias_is_an_access_point(self):
        alias = "name-hrzrlukc5m36ft7okagglf3gmwluquse1b-s3alias"
        assert settings(alias, fs_s3a_accesspoint_required="true").bucket == alias

    def test_a_directory_bucket(self):
        with pytest.raises(io.UnsupportedOperation, match=r"S3 Express.*not supported"):
            settings("b--use1-az4--x-s3")
        assert settings("b--x-s3", fs_s3a_endpoint="minio.example").bucket == "b--x-s3"

    def test_fips(self):
        """AWS's servers for it, where no other is named."""
        read = settings(fs_s3a_endpoint_fips="true", fs_s3a_endpoint_region="us-gov-west-1")
        assert read.connected_to("").host == "s3-fips.us-gov-west-1.amazonaws.com"
        with pytest.raises(ValueError, match=r"fs\.s3a\.endpoint\.fips .* minio\.example"):
            settings(fs_s3a_endpoint_fips="true", fs_s3a_endpoint="minio.example")
        assert settings().connected_to("eu-west-1").host == "s3.eu-west-1.amazonaws.com"

    def test_regions(self):
        assert settings().native.follows_regions
        assert not settings(fs_s3a_cross_region_access_enabled="false").native.follows_regions


class TestTable:
    def test_every_key_is_read(self):
        """By the core's attribute, or by its name; those that are only refused are named, too."""
        text = "".join(
            path.read_text() for path in PYTHON.glob("s3/*.py") if path.name != "keys.py"
        )
        read = set(re.findall(r'"((?:fs\.s3a|hflush\.s3)\.[a-z0-9.-]+[a-z0-9])"', text))
        by_name = {key.name for key in KEYS if not key.native}
        constants = {"fs.s3a.security.credential.provider.path"}
        constants |= {"hflush.s3.credentials", "hflush.s3.server"}
        assert by_name - read == constants
