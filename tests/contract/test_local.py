"""LOCAL: raw and checksummed local files.

The oracle is this file's own reading of Hadoop's format: struct and zlib.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import struct
import zlib

import hflush
import pytest
from support.data import dataset
from support.listing import names, orphans, sidecar
from support.stores import FILES, Store
from support.waiting import wait_until

SIZES = {0: 8, 1: 12, 511: 12, 512: 12, 513: 16, 1024: 16, 100_000: 792}
DATA = dataset(2000)


def golden(data: bytes, bytes_per_checksum: int = 512) -> bytes:
    """The sidecar that Hadoop writes for these bytes."""
    chunks = range(0, len(data), bytes_per_checksum)
    sums = [zlib.crc32(data[start : start + bytes_per_checksum]) for start in chunks]
    return b"crc\0" + struct.pack(f">I{len(sums)}I", bytes_per_checksum, *sums)


def content(path: str) -> bytes:
    """The bytes of a file, read without hflush."""
    with open(path, "rb") as file:
        return file.read()


def place(path: str, data: bytes, sums: bytes | None = None) -> str:
    """A file, and its sidecar if given, as another program left them."""
    for name, payload in ((path, data), (sidecar(path), sums)):
        if payload is not None:
            with open(name, "wb") as file:
                file.write(payload)
    return path


class TestFormat:
    """TestChecksumFileSystem.testgetChecksumLength, testMultiChunkFile, and the golden files."""

    @pytest.mark.rule("LOCAL-1")
    @pytest.mark.stores("crc")
    @pytest.mark.parametrize(("size", "length"), SIZES.items())
    @pytest.mark.parametrize("step", [1 << 20, 13], ids=["at once", "13 bytes at a time"])
    def test_written_sidecars(self, store: Store, path: str, size: int, length: int, step: int):
        """Magic, bytes per checksum, one CRC-32 a chunk: byte for byte what Hadoop writes."""
        data = dataset(size, 3)
        with store.fs.create(path) as out:
            for start in range(0, size, step):
                out.write(data[start : start + step])
        assert content(path) == data
        assert content(sidecar(path)) == golden(data)
        assert os.path.getsize(sidecar(path)) == length

    @pytest.mark.rule("LOCAL-1")
    @pytest.mark.stores("crc")
    @pytest.mark.parametrize("size", SIZES)
    @pytest.mark.parametrize("bytes_per_checksum", [1, 10, 512, 4096])
    def test_read_sidecars(self, store: Store, path: str, size: int, bytes_per_checksum: int):
        """Files with any chunk size, as Hadoop writes them, are read and verified."""
        data = dataset(size, 5)
        place(path, data, golden(data, bytes_per_checksum))
        assert store.read(path) == data
        with store.fs.open(path) as reader:
            assert b"".join(iter(lambda: reader.read(700), b"")) == data
        if size:
            place(path, data[:-1] + bytes([data[-1] ^ 1]))
            with pytest.raises(hflush.ChecksumError):
                store.read(path)

    @pytest.mark.rule("LOCAL-1", "BUILDER-17")
    @pytest.mark.stores("crc")
    def test_one_byte_chunks(self, store: Store, path: str):
        """100 bytes in chunks of one are 408 bytes of sidecar."""
        with store.fs.create_file(path).checksum("CRC32", 1).build() as out:
            out.write(DATA[:100])
        assert content(sidecar(path)) == golden(DATA[:100], 1)
        assert os.path.getsize(sidecar(path)) == 408
        assert store.read(path) == DATA[:100]

    @pytest.mark.rule("LOCAL-1")
    @pytest.mark.stores("crc")
    @pytest.mark.parametrize(
        "api",
        [
            lambda fs, path: fs.create(path),
            lambda fs, path: fs.create(path, recursive=False),
            lambda fs, path: fs.create(path, flags={hflush.CreateFlag.CREATE}),
            lambda fs, path: fs.create_file(path).build(),
            lambda fs, path: fs.create_file(path).recursive().build(),
        ],
        ids=["create", "non-recursive", "flags", "builder", "recursive builder"],
    )
    def test_every_api_writes_a_sidecar(self, store: Store, path: str, api):
        """TestLocalFileSystem.testCRCwith*: ten bytes have twelve of sidecar.

        But not with the checksum NULL, which Hadoop's LocalFileSystem does not look at.
        """
        with api(store.fs, path) as out:
            out.write(DATA[:10])
        assert content(sidecar(path)) == golden(DATA[:10])
        with store.fs.open_file(path).build().result() as reader:
            assert reader.read() == DATA[:10]

    @pytest.mark.rule("LOCAL-1")
    @pytest.mark.stores("crc")
    def test_positions_of_64_bits(self, store: Store, path: str):
        """A chunk beyond 4 GiB is found and verified: 64-bit arithmetic in data and sidecar."""
        position, tail = (5 << 30) + 512, dataset(700)
        with open(path, "wb") as data, open(sidecar(path), "wb") as sums:
            data.seek(position)
            data.write(tail)
            sums.write(golden(b"")[:8])
            sums.seek(8 + 4 * (position // 512))
            sums.write(golden(tail)[8:])
        with store.fs.open(path) as reader:
            assert reader.pread(position + 5, 690) == tail[5:695]
            with pytest.raises(hflush.ChecksumError) as failure:
                reader.pread(position - 512, 1)
            assert failure.value.position == position - 512
        assert store.fs.get_file_status(path).length == position + 700


class TestSyncing:
    """What each kind of local file can promise."""

    @pytest.mark.rule("LOCAL-2")
    @pytest.mark.rule("HFLUSH-1", "HSYNC-1", refused="crc")
    @pytest.mark.stores("crc")
    def test_only_whole_chunks_are_passed_on(self, store: Store, path: str):
        """flush of 1300 bytes writes at most 1024, so hflush and hsync are refused."""
        with store.fs.create(path) as out:
            out.write(DATA[:1300])
            out.flush()
            assert content(path) == DATA[: os.path.getsize(path)]
            assert os.path.getsize(path) <= 1024
            assert not out.has_capability("hsync")
            assert not out.has_capability("hflush")
            for sync in (out.hflush, out.hsync):
                with pytest.raises(io.UnsupportedOperation):
                    sync()
        assert store.read(path) == DATA[:1300]

    @pytest.mark.rule("LOCAL-3", "CAP-9")
    @pytest.mark.stores("crc")
    def test_without_writing_checksums(self, store: Store, path: str):
        """set_write_checksum(False): no sidecar, a stale one goes, and streams sync as raw ones."""
        store.write(path, DATA[::-1])
        store.fs.set_write_checksum(False)
        with store.fs.create(path) as out:
            out.write(DATA[:1300])
            assert out.has_capability("hsync")
            out.hsync()
            assert store.read(path) == DATA[:1300]
            assert store.on_disk() == ["file"]
        store.fs.set_write_checksum(True)
        assert store.read(path) == DATA[:1300]
        store.write(store.path("summed"), DATA)
        assert content(sidecar(store.path("summed"))) == golden(DATA)

    @pytest.mark.rule("LOCAL-3")
    @pytest.mark.stores("crc")
    def test_the_switch_is_one_instance_s(self, store: Store, path: str):
        """Another instance goes on writing sidecars."""
        other = store.new_client()
        store.fs.set_write_checksum(False)
        with other.create(path) as out:
            out.write(DATA)
        assert content(sidecar(path)) == golden(DATA)
        other.close()

    @pytest.mark.rule("LOCAL-3")
    @pytest.mark.stores("crc")
    def test_files_without_sidecar_are_not_verified(self, store: Store, path: str):
        """There is nothing to verify them with."""
        place(path, DATA)
        assert store.read(path) == DATA

    @pytest.mark.rule("LOCAL-9", "HFLUSH-2", "HSYNC-2", "HSYNC-3")
    @pytest.mark.stores("raw")
    def test_hflush_hands_everything_to_the_system(self, store: Store, path: str):
        """TestLocalFileSystem.testSyncable: what was buffered is written first, by both."""
        with store.fs.create(path) as out:
            out.write(b"a")
            out.hflush()
            assert content(path) == b"a"
            out.write(b"b")
            out.hsync()
            assert content(path) == b"ab"
            assert store.fs.get_file_status(path).length == 2


class TestKnownWeaknesses:
    """Faults of the reference's summing stream that are not reproduced."""

    @pytest.mark.rule("LOCAL-4", "WRITE-12", "FLUSH-2")
    @pytest.mark.stores("crc")
    def test_a_closed_stream(self, store: Store, path: str):
        """write and write_byte raise, flush is allowed, close runs once."""
        out = store.fs.create(path)
        out.write(DATA)
        out.close()
        for write in (lambda: out.write(b"x"), lambda: out.write_byte(1), lambda: out.write(b"")):
            with pytest.raises(hflush.StreamClosedError):
                write()
        out.flush()
        before = os.stat(path), os.stat(sidecar(path))
        out.close()
        assert (os.stat(path), os.stat(sidecar(path))) == before
        assert store.read(path) == DATA


WRITER = """
out = fs.create(path)
with open(progress, 'wb', 0) as told:
    for turn in range(100_000):
        out.write(data)
        told.write(b'.')
"""


class TestCrashes:
    """A crash between the data and its sums is found, never taken for good data."""

    @pytest.mark.rule("LOCAL-5")
    @pytest.mark.stores("crc")
    def test_both_files_are_complete_when_close_returns(self, store: Store, path: str):
        """Data and sidecar, whole, for every client."""
        for size in (0, 511, 512, 70_000):
            store.write(path, dataset(size))
            assert (content(path), content(sidecar(path))) == (dataset(size), golden(dataset(size)))

    @pytest.mark.rule("LOCAL-5")
    @pytest.mark.stores("crc")
    @pytest.mark.parametrize("old", [DATA[::-1], DATA[:700][::-1]], ids=["same length", "shorter"])
    def test_new_data_with_old_sums(self, store: Store, path: str, old: bytes):
        """ChecksumError: the sums are of other bytes."""
        place(path, DATA, golden(old))
        with pytest.raises(hflush.ChecksumError):
            store.read(path)

    @pytest.mark.rule("LOCAL-5")
    @pytest.mark.stores("crc")
    def test_old_data_with_new_sums(self, store: Store, path: str):
        """ChecksumError, also if all bytes that are there match."""
        place(path, DATA[::-1], golden(DATA))
        with pytest.raises(hflush.ChecksumError):
            store.read(path)

    @pytest.mark.rule("LOCAL-5")
    @pytest.mark.stores("crc")
    def test_data_without_sums(self, store: Store, path: str):
        """The sidecar is missing: the file reads as one without checksums."""
        place(path, DATA)
        assert store.read(path) == DATA
        assert not os.path.exists(sidecar(path))

    @pytest.mark.rule("LOCAL-5", "CLOSE-23")
    @pytest.mark.stores("crc")
    @pytest.mark.parametrize("progress", [1, 50, 500])
    def test_a_killed_writer(self, store: Store, path: str, progress: int):
        """kill -9: a prefix or ChecksumError, never wrong bytes; the file can be written anew."""
        place(path, b"other bytes" * 1000, golden(b"other bytes" * 1000))
        data, told = dataset(7001), store.scratch("progress")
        writer = store.spawn()
        writer.begin(WRITER, path=path, data=data, progress=told)
        wait_until(
            lambda: os.path.exists(told) and os.path.getsize(told) >= progress, "some writes"
        )
        assert writer.kill() == -signal.SIGKILL
        written = data * (os.path.getsize(told) + 1)
        with contextlib.suppress(hflush.ChecksumError):
            assert written.startswith(store.read(path))
        store.write(path, DATA)
        assert store.read(path) == DATA


class TestBadSidecars:
    """TestChecksumFileSystem.testTruncatedChecksum, testVerifyChecksum, testCorruptedChecksum."""

    @pytest.mark.rule("LOCAL-6", "READ-16")
    @pytest.mark.stores("crc")
    @pytest.mark.parametrize(
        "sums",
        [
            golden(DATA)[:-1],
            golden(DATA)[:-4],
            golden(DATA)[:7],
            b"",
            golden(DATA[::-1]),
            golden(dataset(2000, 9)),
            b"xxxx" + golden(DATA)[4:],
            b"crc\0\0\0\0\0" + golden(DATA)[8:],
            b"crc\0\xff\xff\xff\xff" + golden(DATA)[8:],
        ],
        ids=[
            "a byte short",
            "a sum short",
            "header short",
            "empty",
            "stale",
            "foreign",
            "bad magic",
            "chunks of 0",
            "chunks of -1",
        ],
    )
    def test_found_with_verification_only(self, store: Store, path: str, sums: bytes):
        """ChecksumError on reading; the data when verification is off."""
        place(path, DATA, sums)
        with pytest.raises(hflush.ChecksumError) as failure:
            store.read(path)
        assert failure.value.errno == errno.EIO
        assert failure.value.filename == path
        store.fs.set_verify_checksum(False)
        assert store.read(path) == DATA

    @pytest.mark.rule("LOCAL-6")
    @pytest.mark.stores("crc")
    @pytest.mark.parametrize("read_size", [1, 100, 511, 512, 513, 1023, 1024, 1025])
    def test_foreign_sums_are_found_whatever_the_read_size(
        self, store: Store, path: str, read_size: int
    ):
        """testVerifyChecksum: reads around the chunk size find the sums of another file."""
        place(path, DATA, golden(dataset(2000, 1)))
        with (
            store.fs.open(path, buffer_size=read_size) as reader,
            pytest.raises(hflush.ChecksumError),
        ):
            reader.read(read_size)

    @pytest.mark.rule("LOCAL-7", divergence="crc")
    @pytest.mark.stores("crc")
    def test_a_bad_file_stays_where_it_is(self, store: Store, path: str):
        """Nothing is ever moved: file, sidecar and directory are as before."""
        place(path, DATA, golden(DATA[::-1]))
        with pytest.raises(hflush.ChecksumError):
            store.read(path)
        assert store.on_disk() == [".file.crc", "file"]
        assert content(path) == DATA
        assert not os.path.exists(os.path.join(os.path.dirname(store.root), "bad_files"))


class TestSidecarsFollow:
    """Sidecars are invisible and go where their file goes (rename, delete: their own tests)."""

    @pytest.mark.rule("LOCAL-8")
    @pytest.mark.stores("crc")
    def test_permissions(self, store: Store, path: str):
        """testSetPermissionCrc: the sidecar's mode follows the file's."""
        store.write(path, DATA)
        for mode in (0o666, 0o660, 0o600):
            store.fs.set_permission(path, mode)
            assert os.stat(path).st_mode & 0o7777 == mode
            assert os.stat(sidecar(path)).st_mode & 0o7777 == mode
        assert names(store.fs, store.root) == ["file"]

    @pytest.mark.rule("LOCAL-8")
    @pytest.mark.stores("crc")
    def test_permissions_at_create(self, store: Store, path: str):
        """A file that others may not read has a sidecar that they may not read."""
        store.fs.create(path, permission=0o600).close()
        assert os.stat(path).st_mode & 0o7777 == 0o600
        assert os.stat(sidecar(path)).st_mode & 0o077 == 0

    @pytest.mark.rule("LOCAL-8")
    @pytest.mark.stores("crc")
    @pytest.mark.parametrize("mode", [0o600, 0o646])
    def test_permissions_of_a_file_that_had_no_sums(self, store: Store, path: str, mode: int):
        """It is written anew: the sums are open to its readers, and to no one else."""
        with open(path, "wb"):
            os.chmod(path, mode)
        if os.geteuid() == 0:
            os.chown(path, 1, 1)
        store.write(path, DATA)
        facts, sums = os.stat(path), os.stat(sidecar(path))
        assert facts.st_mode & 0o777 == mode
        assert sums.st_mode == facts.st_mode
        assert (sums.st_uid, sums.st_gid) == (facts.st_uid, facts.st_gid)

    @pytest.mark.rule("LOCAL-8")
    @pytest.mark.stores("crc")
    def test_sums_have_no_acl_that_their_file_has_not(self, store: Store, path: str):
        """A default ACL that the directory got later is not for files that were there."""
        with open(path, "wb"):
            os.chmod(path, 0o640)
        named = ((0x01, 7, -1), (0x02, 7, 1), (0x04, 7, -1), (0x10, 7, -1), (0x20, 0, -1))
        packed = b"".join(struct.pack("<HHi", *entry) for entry in named)
        try:
            os.setxattr(store.root, "system.posix_acl_default", struct.pack("<I", 2) + packed)
        except OSError as refusal:
            pytest.skip(f"no ACLs here: {refusal}")
        store.write(path, DATA)
        assert os.stat(sidecar(path)).st_mode & 0o777 == 0o640
        with pytest.raises(OSError, match=os.strerror(errno.ENODATA)):
            os.getxattr(sidecar(path), "system.posix_acl_access")

    @pytest.mark.rule("LOCAL-8")
    @pytest.mark.stores("crc")
    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
    def test_owners(self, store: Store, path: str):
        """Owner and group of the sidecar follow, by name and by number."""
        store.write(path, DATA)
        store.fs.set_owner(path, "nobody", None)
        store.fs.set_owner(path, None, "1")
        nobody = os.stat(path).st_uid
        assert nobody != 0
        for file in (path, sidecar(path)):
            assert (os.stat(file).st_uid, os.stat(file).st_gid) == (nobody, 1)
        assert store.fs.get_file_status(path).owner == "nobody"

    @pytest.mark.rule("LOCAL-8", "EXTRA-11")
    @pytest.mark.stores("crc")
    def test_copies(self, store: Store, path: str):
        """A copy has a sidecar of its own that verifies."""
        store.write(path, DATA)
        store.fs.copy_from_local_file(path, store.path("copy"))
        assert content(sidecar(store.path("copy"))) == golden(DATA)
        assert store.read(store.path("copy")) == DATA
        assert orphans(store.root) == []


LIMITED = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
out = fs.create(path)
result = None
try:
    for _ in range(100):
        out.write(data)
    out.close()
except OSError as error:
    result = (error.errno, error.filename)
try:
    out.close()
except OSError:
    pass
"""


@pytest.mark.rule("LOCAL-10", "WRITE-14")
@pytest.mark.parametrize("limit", [100_000, 123_457])
@pytest.mark.stores("raw", "crc")
def test_a_partial_write_and_a_full_file(store: Store, path: str, limit: int):
    """write(2) that takes a part is continued; the EFBIG that follows names the path."""
    data = dataset(70_000)
    failure = store.spawn().run(LIMITED, path=path, data=data, limit=limit)
    assert failure == (errno.EFBIG, path)
    assert (data * 2).startswith(content(path))
    if store.name == "raw":
        assert os.path.getsize(path) == limit


@pytest.mark.rule("LOCAL-11", "CONC-9")
@pytest.mark.stores("raw", "crc")
def test_overwriting_keeps_the_file_s_identity(store: Store, path: str):
    """As O_TRUNC: the inode stays, and a reader from before may see the truncation."""
    store.write(path, DATA)
    before = store.fs.get_file_status(path).file_id
    with store.fs.open(path) as reader, store.fs.create(path, overwrite=True) as out:
        assert store.fs.get_file_status(path).file_id == before
        with contextlib.suppress(EOFError, hflush.ChecksumError):
            assert reader.read() in (DATA, b"")
        out.write(b"new")
    assert store.fs.get_file_status(path).file_id == before
    assert store.read(path) == b"new"


class TestContractOptions:
    """What the platform decides is measured and published."""

    @pytest.mark.rule("LOCAL-12")
    @pytest.mark.stores(*FILES)
    def test_the_probes(self, store: Store, path: str):
        """Renaming onto a file, seeking past the end, permissions: as the options say."""
        options = store.options
        store.write(path, DATA)
        store.write(store.path("other"), b"other")
        assert store.fs.rename(store.path("other"), path) is options["rename-overwrites-dest"]
        with store.fs.open(path) as reader:
            if options["rejects-seek-past-eof"]:
                with pytest.raises(hflush.SeekError):
                    reader.seek(1 << 20)
            else:
                assert reader.seek(1 << 20) == 1 << 20
        store.fs.set_permission(path, 0o640)
        kept = store.fs.get_file_status(path).permission == 0o640
        assert options["supports-unix-permissions"] is kept

    @pytest.mark.rule("LOCAL-12")
    @pytest.mark.stores("raw", "crc")
    def test_the_values_of_the_contract(self, store: Store):
        """testContractWorks: the record of section 3, read-only."""
        raw = store.name == "raw"
        expected = {
            "is-blobstore": False,
            "create-visibility-delayed": False,
            "create-overwrites-directory": False,
            "create-file-under-file-allowed": False,
            "supports-append": raw,
            "supports-hflush": raw,
            "supports-hsync": raw,
            "rename-creates-dest-dirs": True,
            "rename-overwrites-dest": True,
            "rename-returns-false-if-dest-exists": False,
            "rename-returns-false-if-source-missing": False,
            "rename-remove-dest-if-empty-dir": True,
            "supports-atomic-directory-delete": False,
            "supports-block-locality": False,
            "supports-concat": False,
            "supports-seek": True,
            "rejects-seek-past-eof": not raw,
            "supports-positioned-readable": True,
            "supports-strict-exceptions": True,
            "supports-unix-permissions": True,
            "supports-settimes": True,
            "supports-getfilestatus": True,
            "supports-file-reference": False,
            "supports-content-check": raw,
            "vector-io-overlapping-ranges": raw,
            "vector-io-early-eof-check": not raw,
            "create-check-at": "create",
            "conditional-create": True,
            "single-writer": False,
            "open-file-visible": True,
            "checksum-verified-on-read": not raw,
            "consistency-interval": 0,
            "sync-on-close": False,
        }
        assert {key: store.options[key] for key in expected} == expected
        with pytest.raises(TypeError):
            store.options["supports-append"] = True

    @pytest.mark.rule("LOCAL-12")
    @pytest.mark.stores("raw")
    def test_the_longest_path_is_what_the_platform_says(self, store: Store):
        """A name of the longest length works, and one more byte is ENAMETOOLONG."""
        longest = os.pathconf(store.root, "PC_NAME_MAX")
        store.write(store.path("n" * longest), DATA)
        assert names(store.fs, store.root) == ["n" * longest]
        assert store.options["max-path"] == os.pathconf(store.root, "PC_PATH_MAX")


@pytest.mark.rule("LOCAL-12")
@pytest.mark.stores("crc")
def test_a_name_that_leaves_no_room_for_sums(store: Store):
    """A file without any is replaced all the same."""
    path = store.path("n" * 252)
    for data in (DATA, DATA[:10]):
        with store.fs.create(path, atomic=True, checksum_type="NULL") as out:
            out.write(data)
        assert store.read(path) == data


@pytest.mark.rule("LOCAL-13")
@pytest.mark.rule("EXTRA-1", "EXTRA-2", refused="crc")
@pytest.mark.stores("crc")
def test_what_sums_do_not_allow(store: Store, path: str):
    """append, truncate and concat raise UnsupportedOperation; nothing changes."""
    store.write(path, DATA)
    store.write(store.path("other"), DATA)
    calls = [
        lambda: store.fs.append(path),
        lambda: store.fs.append_file(path).build(),
        lambda: store.fs.truncate(path, 10),
        lambda: store.fs.concat(path, [store.path("other")]),
    ]
    for call in calls:
        with pytest.raises(io.UnsupportedOperation):
            call()
    for name in ("append", "truncate", "concat"):
        assert not store.fs.has_path_capability(path, f"fs.capability.paths.{name}")
    assert store.read(path) == store.read(store.path("other")) == DATA


class TestBytesPerChecksum:
    """TestChecksumFileSystem.testSetConf."""

    @pytest.mark.rule("LOCAL-14")
    @pytest.mark.stores("crc")
    @pytest.mark.parametrize("value", [0, -1])
    def test_refused_before_any_file_is_touched(self, store: Store, path: str, value: int):
        """In the configuration, the builder's method, its option and a keyword: ValueError."""
        calls = [
            lambda: hflush.FileSystem.new_instance(
                store.url(), {"file.bytes-per-checksum": value}
            ).create(path),
            lambda: store.fs.create_file(path).checksum("CRC32", value).build(),
            lambda: store.fs.create(path, bytes_per_checksum=value),
        ]
        for call in calls:
            with pytest.raises(ValueError, match=r"above 0|from 1 to"):
                call()
        assert store.on_disk() == []

    @pytest.mark.rule("LOCAL-14")
    @pytest.mark.stores("crc")
    @pytest.mark.parametrize("value", [512, 100])
    def test_taken_from_the_configuration(self, store: Store, path: str, value: int):
        """A good value decides the chunks of new files."""
        fs = hflush.FileSystem.new_instance(store.url(), {"file.bytes-per-checksum": value})
        with fs.create(path) as out:
            out.write(DATA)
        assert content(sidecar(path)) == golden(DATA, value)
        assert store.read(path) == DATA
        fs.close()
