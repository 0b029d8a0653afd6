"""Settings of HDFS: what its keys come to together, and the servers that a URL means."""

from __future__ import annotations

import io
import re
import socket
from typing import Any

import hflush
import pytest
from hflush import _core
from hflush.hdfs.settings import read_native

NAMESERVICE = {
    "dfs.nameservices": "ns0 , ns1",
    "dfs.ha.namenodes.ns1": "nn1, nn2,nn3",
    "dfs.namenode.rpc-address.ns1.nn1": "a:8021",
    "dfs.namenode.rpc-address.ns1.nn2": " hdfs://b:8022/ ",
    "dfs.namenode.rpc-address.ns1.nn3": "c",
    "dfs.namenode.rpc-address.ns0": "d:8024",
}
ONE_TO_THREE = [("a", 8021), ("b", 8022), ("c", 8020)]


def read(values: dict[str, str] | None = None, authority: str = "nn:8020") -> _core.HdfsSettings:
    conf = hflush.Configuration(load_defaults=False)
    conf.update(values or {})
    return read_native(conf, authority, "ann")


def refusal(values: dict[str, str] | None = None, authority: str = "nn:8020") -> str:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the caller looks at the message
        read(values, authority)
    return str(refused.value)


class TestKeysThatDependOnEachOther:
    def test_packets(self):
        assert read({"dfs.client-write-packet-size": "20m"}).write.packet_size == 16 << 20
        larger = {"dfs.client-write-packet-size": "20m", "dfs.data.transfer.max.packet.size": "32m"}
        assert read(larger).write.packet_size == 20 << 20
        assert read(larger).read.max_packet_size == 32 << 20
        message = "dfs.bytes-per-checksum must be so small that a chunk fits in a packet"
        assert refusal({"dfs.bytes-per-checksum": "16m"}).startswith(message)

    def test_prefetching(self):
        """Ten blocks, unless it is set, and never more than a length can be."""
        assert read().read.prefetch_bytes == 1280 << 20
        assert read({"dfs.blocksize": "1m"}).read.prefetch_bytes == 10 << 20
        assert read({"dfs.blocksize": "7e"}).read.prefetch_bytes == (1 << 63) - 1
        own = {"dfs.blocksize": "1m", "dfs.client.read.prefetch.size": "5"}
        assert read(own).read.prefetch_bytes == 5

    def test_readers_and_writers_wait_for_data_nodes_alike(self):
        conf = {"dfs.client.socket-timeout": "7", "dfs.client.use.datanode.hostname": "true"}
        settings = read(conf)
        assert settings.read.socket_timeout == settings.write.socket_timeout == 0.007
        assert settings.read.use_datanode_hostname


class TestValues:
    def test_what_has_no_limit(self):
        """0 of a timeout is none; of a length of a response, the longest there can be."""
        assert read({"dfs.client.socket-timeout": "0"}).write.socket_timeout == 1e9
        for none in ("0", "-1"):  # the latter as in Hadoop
            assert read({"ipc.client.rpc-timeout.ms": none}).rpc.rpc_timeout == 0.0
        limit = read({"ipc.maximum.response.length": "0"}).rpc.max_response_bytes
        assert limit == (1 << 31) - 1

    def test_units(self):
        """A bare number counts milliseconds, but for the one key that is of seconds."""
        assert read({"dfs.namenode.lease-hard-limit-sec": "90"}).lease_hard_limit == 90.0
        assert read({"dfs.client.retry.window.base": "90"}).read.retry_window == 0.09

    def test_unset_is_not_false(self):
        key = "dfs.client.cache.drop.behind.writes"
        assert read({key: ""}).write.drop_behind is None
        assert read({key: "false"}).write.drop_behind is False

    def test_pauses(self):
        spec = read({"dfs.client.retry.policy.spec": "100, 2, 1s, 3"}).rpc.retry_policy
        assert spec == [(0.1, 2), (1.0, 3)]

    @pytest.mark.parametrize("value", ["5", "5,", "x,1", "5,0", "5,-1", "1,2,3", "-1,2", ","])
    def test_what_are_no_pauses(self, value: str):
        assert refusal({"dfs.client.retry.policy.spec": value}) == (
            "dfs.client.retry.policy.spec must be pairs of a time and attempts, such as 10000,6, "
            f"not {value!r}"
        )

    def test_checksums(self, caplog: pytest.LogCaptureFixture):
        assert read({"dfs.checksum.type": "crc32"}).write.checksum == "CRC32"
        assert read({"dfs.checksum.type": "NULL"}).write.checksum == "NULL"
        assert read({"dfs.checksum.type": "MD5"}).write.checksum == "CRC32C"  # as in Hadoop
        assert caplog.messages == ["dfs.checksum.type is MD5: CRC32C is used"]

    def test_authentication(self):
        """Another than simple is refused, not replaced by it."""
        key = "hadoop.security.authentication"
        with pytest.raises(io.UnsupportedOperation, match=f"{re.escape(key)} is kerberos"):
            read({key: "kerberos"})
        assert read({key: " Simple "}).user == "ann"

    def test_the_task_is_part_of_the_lease_holder(self):
        assert read().task_attempt == "NONMAPREDUCE"
        assert read({"mapreduce.task.attempt.id": "attempt_1"}).task_attempt == "attempt_1"


class TestServers:
    @pytest.mark.parametrize(
        ("authority", "host", "port"),
        [
            ("nn", "nn", 8020), ("nn:", "nn", 8020), ("nn:9000", "nn", 9000),
            ("10.0.0.1:9000", "10.0.0.1", 9000), ("[::1]:9000", "::1", 9000),
            ("[fe80::1]", "fe80::1", 8020),
        ],
    )  # fmt: skip
    def test_a_host_is_a_name_node(self, authority: str, host: str, port: int):
        settings = read(authority=authority)
        assert settings.name_nodes == [(host, port)]
        assert settings.service == (f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        assert bool(settings.unknown_host_hint) is (port == 8020)

    @pytest.mark.parametrize(
        "authority",
        [":8020", "nn:0", "nn:65536", "nn:x", "nn:-1", "nn:80:20", "::1", "[::1", "[]:1", "[::1]9",
         "a b", "a/b", "a,b", "nn:0x50", "nn:99999999999999999999"],
    )  # fmt: skip
    def test_what_is_no_authority(self, authority: str):
        message = refusal(authority=authority)
        assert message.startswith(f"the authority of hdfs://{authority} must be host:port")
        assert message.endswith(f"not {authority!r}")

    def test_an_authority_without_a_user(self):
        assert "HADOOP_USER_NAME" in refusal(authority="bob@nn")

    def test_a_nameservice_is_its_name_nodes(self):
        for authority in ("ns1", "ns1:8020"):
            settings = read(NAMESERVICE, authority)
            assert (settings.service, settings.name_nodes) == ("ns1", ONE_TO_THREE)
            assert settings.unknown_host_hint == ""

    def test_one_name_node_and_other_hosts(self):
        settings = read(NAMESERVICE, "ns0")
        assert (settings.service, settings.name_nodes) == ("ns0", [("d", 8024)])
        assert read(NAMESERVICE, "other:1").name_nodes == [("other", 1)]

    def test_a_nameservice_that_is_called_like_its_host(self):
        """With a port it is the host, as in Hadoop."""
        conf = {"dfs.nameservices": "nn", "dfs.namenode.rpc-address.nn": "nn:9000"}
        for authority, service in (("nn:9000", "nn:9000"), ("nn", "nn")):
            settings = read(conf, authority)
            assert (settings.service, settings.name_nodes) == (service, [("nn", 9000)])

    def test_a_proxy_provider_alone_makes_a_nameservice(self):
        """As in Hadoop."""
        conf = {key: value for key, value in NAMESERVICE.items() if key != "dfs.nameservices"}
        assert read(conf, "ns1").name_nodes == [("ns1", 8020)]
        conf["dfs.client.failover.proxy.provider.ns1"] = "org.apache.hadoop.X"
        assert read(conf, "ns1").name_nodes == ONE_TO_THREE

    def test_an_address_that_moves(self):
        """The host of the URL; a failed call goes to it again, as to the next NameNode."""
        provider = "org.apache.hadoop.hdfs.server.namenode.ha.IPFailoverProxyProvider"
        conf = {**NAMESERVICE, "dfs.client.failover.proxy.provider.ns1": provider}
        for authority, port in (("ns1", 8020), ("ns1:9000", 9000)):
            settings = read(conf, authority)
            assert (settings.service, settings.name_nodes) == (f"ns1:{port}", [("ns1", port)] * 2)

    def test_a_name_that_stands_for_several_servers(self, monkeypatch: pytest.MonkeyPatch):
        """Each of its addresses is one, as in Hadoop."""
        conf = {**NAMESERVICE, "dfs.client.failover.resolve-needed.ns1": "true"}
        addresses = {"a": ["10.0.0.1", "10.0.0.2"], "b": ["fd00::1"]}

        def resolve(host: str, port: int, **_: Any) -> list[Any]:
            if host not in addresses:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            return [(0, 0, 0, "", (address, port)) for address in addresses[host] for _ in range(2)]

        monkeypatch.setattr("socket.getaddrinfo", resolve)
        with pytest.raises(
            OSError, match=r"resolve-needed\.ns1: the host name c cannot be resolved"
        ):
            read(conf, "ns1")
        conf["dfs.ha.namenodes.ns1"] = "nn1,nn2"
        hosts = ["10.0.0.1", "10.0.0.2", "fd00::1"]
        assert read(conf, "ns1").name_nodes == list(zip(hosts, (8021, 8021, 8022), strict=True))

    def test_what_a_nameservice_lacks_is_named(self):
        needed = "it is needed for the nameservice ns1"
        assert refusal(NAMESERVICE, "ns1:9000") == (
            "hdfs://ns1:9000: ns1 is a nameservice, which has no port"
        )
        conf, key = dict(NAMESERVICE), "dfs.namenode.rpc-address.ns1.nn2"
        del conf[key]
        assert refusal(conf, "ns1") == f"{key} is missing: {needed}"
        conf[key] = "b:x"
        assert refusal(conf, "ns1").startswith(f"{key} must be host:port")
        del conf["dfs.ha.namenodes.ns1"]
        assert refusal(conf, "ns1") == f"dfs.ha.namenodes.ns1 is missing: {needed}"

    def test_the_order_of_name_nodes(self):
        """Of all nameservices, or of one."""
        key = "dfs.client.failover.random.order"
        assert read(NAMESERVICE, "ns1").rpc.random_order
        assert not read({**NAMESERVICE, key: "false"}, "ns1").rpc.random_order
        own = {**NAMESERVICE, key: "false", f"{key}.ns1": "true"}
        assert read(own, "ns1").rpc.random_order
        own[f"{key}.ns1"] = "maybe"
        assert refusal(own, "ns1") == f"{key}.ns1 must be true or false, not 'maybe'"
