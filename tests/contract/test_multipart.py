"""MPU: files made of parts."""

from __future__ import annotations

import errno
import io
import json
import os
import pickle
import uuid

import hflush
import pytest
from hflush import capabilities
from hflush.multipart import MultipartUploader
from support.data import dataset
from support.stores import S3Store, Store
from support.waiting import Task, together, wait_until

HERE = pytest.mark.stores("raw", "hdfs", "s3")
TREES = pytest.mark.stores("raw", "hdfs")  # parts are files of a hidden directory
LEAST_PART = {"s3": 5 << 20}  # of all parts but the last
UNKNOWN = {
    "raw": b"0" * 32,
    "hdfs": b"0" * 32,
    "s3": b'["%s", "bm8tc3VjaC11cGxvYWQ", "", true]',  # %s: the path
}


def parts_of(upload: bytes) -> str:
    """The directory of an upload."""
    return f".hflush-upload.{upload.decode()}"


@pytest.fixture
def uploader(store: Store) -> MultipartUploader:
    return store.fs.create_multipart_uploader(store.root)


@pytest.mark.rule("ATOM-9")
@pytest.mark.stores("raw")
def test_a_link_stays(store: Store, uploader: MultipartUploader, path: str):
    """What it leads to is replaced, as by create."""
    link = store.path("link")
    store.fs.create_symlink(path, link)
    store.write(path, b"old")
    upload = uploader.start_upload(link)
    part = uploader.put_part(upload, link, 1, True, b"new")
    uploader.complete(upload, link, {1: part})
    assert store.read(path) == b"new"
    assert store.fs.get_file_link_status(link).is_symlink


@pytest.mark.rule("MPU-9")
@pytest.mark.rule("MPU-1", refused="crc")
def test_capability_tells_the_truth(store: Store):
    """The uploader is offered exactly where the capability says so, else refused by name."""
    offered = store.fs.has_path_capability(store.root, capabilities.MULTIPART_UPLOADER)
    assert offered == store.options["supports-multipartuploader"] == (store.name != "crc")
    if offered:
        assert store.fs.create_multipart_uploader(store.root).start_upload(store.path("file"))
        return
    with pytest.raises(
        io.UnsupportedOperation, match=r"create_multipart_uploader .* crc"
    ) as refusal:
        store.fs.create_multipart_uploader(store.root)
    assert refusal.value.filename == store.filename(store.root)


@HERE
@pytest.mark.rule("MPU-1", "MPU-5", "MPU-8")
def test_the_base_may_be_the_file_itself(store: Store, path: str):
    """Started, put, completed, replaced and aborted at the base; nothing else is left beside it."""
    for data in (b"first", b"second"):
        uploader = store.fs.create_multipart_uploader(path)
        upload = uploader.start_upload(path)
        part = uploader.put_part(upload, path, 1, True, data)
        other = uploader.start_upload(path)
        store.fs.create_multipart_uploader(path).complete(upload, path, {1: part})
        assert store.read(path) == data
        assert uploader.abort_uploads_under_path(path) == 1
        with pytest.raises(FileNotFoundError):
            uploader.put_part(other, path, 1, True, b"too late")
    with pytest.raises(ValueError, match="nor below"):
        uploader.start_upload(f"{path}-sibling")
    with pytest.raises(ValueError, match="nor below"):
        uploader.start_upload(store.root)
    assert store.on_disk() == ["file"]

    # Uploads of the directory around it are others'.
    around = store.fs.create_multipart_uploader(store.root)
    kept = around.start_upload(store.path("other"))
    assert store.fs.create_multipart_uploader(path).abort_uploads_under_path(path) == 0
    around.abort(kept, store.path("other"))
    with pytest.raises(hflush.PathIsDirectoryError):
        store.fs.create_multipart_uploader(store.root).start_upload(store.root)


@HERE
@pytest.mark.rule("MPU-1")
@pytest.mark.parametrize("numbers", [[1], [1, 2, 3], [3, 2, 1], [10_000, 7, 400, 20]])
def test_parts_are_joined_in_order(store: Store, uploader: MultipartUploader, path: str, numbers):
    """Parts go together by number, with gaps, however they were sent; nothing is seen before."""
    upload = uploader.start_upload(path)
    size = LEAST_PART.get(store.name, 70_000)
    parts = {}
    for number in numbers:
        data = dataset(size + number)
        sent = io.BytesIO(data) if number % 2 else memoryview(data)
        parts[number] = uploader.put_part(upload, path, number, number == max(numbers), sent)
        assert not store.fs.exists(path)
        assert store.on_disk()[:1] == ([] if store.name == "s3" else [parts_of(upload)])
    handle = uploader.complete(upload, path, parts)
    assert store.read(path) == b"".join(dataset(size + number) for number in sorted(numbers))
    if store.fs.has_path_capability(path, capabilities.PATH_HANDLES):
        with store.fs.open_path_handle(handle) as reader:
            assert reader.read() == store.read(path)
    assert handle
    assert store.on_disk() == ["file"]


@HERE
@pytest.mark.rule("MPU-1")
def test_an_existing_file_is_replaced_at_complete(store: Store, uploader, path: str):
    """A file at the path stays until the upload completes; missing parents are made."""
    store.write(path, b"old")
    deep = store.path("a", "b", "file")
    for target in (path, deep):
        upload = uploader.start_upload(target)
        part = uploader.put_part(upload, target, 1, True, b"new")
        assert store.read(path) == (b"old" if target == path else b"new")
        uploader.complete(upload, target, {1: part})
        assert store.read(target) == b"new"


@HERE
@pytest.mark.rule("MPU-2")
def test_handles_serve_another_process(store: Store, uploader, path: str):
    """An upload begun here gets a part and is completed elsewhere, by pickled handles."""
    upload = uploader.start_upload(path)
    here = dataset(LEAST_PART.get(store.name, 5))
    first = uploader.put_part(upload, path, 1, False, here)
    assert upload
    assert first
    assert all(type(handle) is bytes for handle in (upload, first))
    snippet = """
import pickle
import uuid
upload, first = pickle.loads(handles)
uploader = fs.create_multipart_uploader(root)
second = uploader.put_part(upload, path, 2, True, b'there')
uploader.complete(upload, path, {1: first, 2: second})
"""
    handles = pickle.dumps((upload, first))
    store.second_client().run(snippet, handles=handles, root=store.root, path=path)
    assert store.read(path) == here + b"there"


@HERE
@pytest.mark.rule("MPU-2")
@pytest.mark.parametrize(
    ("upload", "expected"),
    [
        (b"", ValueError),
        (b"unknown", FileNotFoundError),
        (b"../" * 10 + b"ab", FileNotFoundError),
        ("text", TypeError),
    ],
)
def test_bad_uploads_are_refused(store: Store, uploader, path: str, upload, expected):
    """An empty handle is ValueError, an unknown one FileNotFoundError, in every call."""
    known = uploader.start_upload(path)
    part = uploader.put_part(known, path, 1, True, b"data")
    if upload == b"unknown":
        upload = UNKNOWN[store.name].replace(b"%s", path.encode())
    with pytest.raises(expected):
        uploader.put_part(upload, path, 1, True, b"data")
    with pytest.raises(expected):
        uploader.complete(upload, path, {1: part})
    with pytest.raises(expected):
        uploader.abort(upload, path)
    uploader.abort(known, path)
    assert store.on_disk() == []


@HERE
@pytest.mark.rule("MPU-3")
def test_bad_completions_are_refused(store: Store, uploader, path: str):
    """No parts, part 0 and one part twice are ValueError; the upload can still complete."""
    upload = uploader.start_upload(path)
    part = uploader.put_part(upload, path, 1, True, b"data")
    for parts in ({}, {0: part}, {-1: part}, {1: part, 2: part}, {1: b""}, {1: b"[1]"}):
        with pytest.raises(ValueError, match=r"part|upload"):
            uploader.complete(upload, path, parts)
    for number in (0, -1):
        with pytest.raises(ValueError, match="1 or more"):
            uploader.put_part(upload, path, number, True, b"data")
    with pytest.raises(ValueError, match="not of"):
        uploader.complete(upload, store.path("other"), {1: part})
    with pytest.raises(FileNotFoundError):
        uploader.complete(upload, path, {1: another(store, part)})
    assert not store.fs.exists(path)
    uploader.complete(upload, path, {1: part})
    assert store.read(path) == b"data"


def another(store: Store, part: bytes) -> bytes:
    """A part of the same number that was never put."""
    if store.name != "s3":
        return part[:-9] + b'0000", 4]'
    number, _, size, crc32c = json.loads(part)
    return json.dumps([number, '"' + "0" * 32 + '"', size, crc32c]).encode()


@HERE
@pytest.mark.rule("MPU-3")
def test_parts_that_are_not_listed_are_left_out(store: Store, uploader, path: str):
    """Only listed parts are in the file; of a number put twice, the one that is listed, or none."""
    upload = uploader.start_upload(path)
    begin = dataset(LEAST_PART.get(store.name, 6))
    first = uploader.put_part(upload, path, 1, False, begin)
    uploader.put_part(upload, path, 2, False, b"dropped,")
    older = uploader.put_part(upload, path, 3, True, b"older")
    newer = uploader.put_part(upload, path, 3, True, b"newer")
    if store.name == "s3":  # a part put again takes the place of the older one
        with pytest.raises(FileNotFoundError):
            uploader.complete(upload, path, {3: older, 1: first})
        assert not store.fs.exists(path)
        older = newer
    if isinstance(store, S3Store) and not store.s3.drops_parts:
        with pytest.raises(FileNotFoundError):
            uploader.complete(upload, path, {3: older, 1: first})
        uploader.abort(upload, path)
        assert store.on_disk() == []
        return
    uploader.complete(upload, path, {3: older, 1: first})
    assert store.read(path) == begin + (b"newer" if store.name == "s3" else b"older")
    assert store.on_disk() == ["file"]


@HERE
@pytest.mark.rule("MPU-4")
@pytest.mark.parametrize("empty", [b"", io.BytesIO()], ids=["bytes", "file"])
def test_an_empty_part_makes_an_empty_file(store: Store, uploader, path: str, empty):
    """A part without bytes is a part."""
    upload = uploader.start_upload(path)
    uploader.complete(upload, path, {1: uploader.put_part(upload, path, 1, True, empty)})
    assert store.fs.get_file_status(path).length == 0


@HERE
@pytest.mark.rule("MPU-4")
def test_a_part_from_what_has_nothing_yet(uploader, path: str):
    """A lull is no end: the part is refused."""
    upload = uploader.start_upload(path)
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.write(write, b"begin")
    with open(read, "rb") as source, pytest.raises(BlockingIOError):
        uploader.put_part(upload, path, 1, True, source)
    os.close(write)
    uploader.abort(upload, path)


@HERE
@pytest.mark.rule("MPU-5", "MPU-6")
@pytest.mark.parametrize("ending", ["complete", "abort"])
@pytest.mark.parametrize("parts", [0, 2])
def test_an_ended_upload_is_unknown(store: Store, uploader, path: str, ending: str, parts: int):
    """After complete or abort every call on the upload is FileNotFoundError, as declared."""
    assert store.options["finalize-consumes-upload-id"] is True
    upload = uploader.start_upload(path)
    piece = bytes(LEAST_PART.get(store.name, 1))
    put = {n: uploader.put_part(upload, path, n, n == parts, piece) for n in range(1, parts + 1)}
    ended_elsewhere = uploader.start_upload(path)
    other = uploader.put_part(ended_elsewhere, path, 1, True, b"x")
    uploader.abort(ended_elsewhere, path)
    if ending == "complete":
        put = put or {1: uploader.put_part(upload, path, 1, True, b"x")}
        uploader.complete(upload, path, put)
    else:
        uploader.abort(upload, path)
    before = store.on_disk()
    assert before == (["file"] if ending == "complete" else [])
    with pytest.raises(FileNotFoundError):
        uploader.put_part(upload, path, 1, True, b"data")
    with pytest.raises(FileNotFoundError):
        uploader.complete(upload, path, put or {1: other})
    with pytest.raises(FileNotFoundError):
        uploader.abort(upload, path)
    assert store.on_disk() == before


@HERE
@pytest.mark.rule("MPU-7")
def test_concurrent_uploads_to_one_path(store: Store, uploader, path: str):
    """Uploads to one path run side by side; the file is exactly one of them."""
    contents = [bytes([value]) * 300_000 for value in range(4)]

    def send(content: bytes) -> None:
        upload = uploader.start_upload(path)
        part = uploader.put_part(upload, path, 1, True, content)
        uploader.complete(upload, path, {1: part})

    together(*(lambda content=content: send(content) for content in contents))
    assert store.read(path) in contents
    assert store.on_disk() == ["file"]


@HERE
@pytest.mark.rule("MPU-6", "MPU-7")
def test_one_of_several_completions_wins(store: Store, uploader, path: str):
    """Completed by four threads at once, an upload is completed by one.

    A store that completes again what it has completed tells several that it was them.
    """
    upload = uploader.start_upload(path)
    parts = {1: uploader.put_part(upload, path, 1, True, b"data")}

    def complete() -> bool:
        try:
            uploader.complete(upload, path, parts)
        except FileNotFoundError:
            return False
        return True

    won = sum(together(*[complete] * 4))
    again = isinstance(store, S3Store) and not store.s3.completes_once
    assert won == 1 or (again and won > 1)
    assert store.read(path) == b"data"


@TREES
@pytest.mark.rule("MPU-8")
def test_directory_in_the_way(store: Store, uploader, path: str):
    """A directory at the path makes complete fail; abort still works, and so would complete."""
    upload = uploader.start_upload(path)
    parts = {1: uploader.put_part(upload, path, 1, True, b"data")}
    store.fs.mkdirs(path)
    with pytest.raises(hflush.PathIsDirectoryError):
        uploader.complete(upload, path, parts)
    with pytest.raises(hflush.PathIsDirectoryError):
        uploader.start_upload(path)
    uploader.abort(upload, path)
    assert store.on_disk() == ["file"]
    assert store.fs.is_directory(path)


@pytest.mark.stores("s3")
@pytest.mark.rule("MPU-8")
def test_directory_in_the_way_of_an_object(store: Store, uploader, path: str):
    """Declared divergence: it is looked for, in no one step with the publication."""
    upload = uploader.start_upload(path)
    parts = {1: uploader.put_part(upload, path, 1, True, b"data")}
    store.write(f"{path}/child", b"child")
    with pytest.raises(hflush.PathIsDirectoryError):
        uploader.complete(upload, path, parts)
    with pytest.raises(hflush.PathIsDirectoryError):
        uploader.start_upload(path)
    uploader.abort(upload, path)
    assert store.on_disk() == ["file", "file/child"]


@pytest.mark.stores("s3")
@pytest.mark.rule("MPU-5", "OBJ-8")
def test_abort_uploads_of_objects_under_path(store: S3Store, uploader):
    """The uploads at and below a path end; others go on."""
    inside = [store.path("a"), store.path("a", "b"), store.path("a", "c", "d")]
    begun = {target: uploader.start_upload(target) for target in [*inside, store.path("ab")]}
    found = store.fs.list_multipart_uploads(store.root)
    assert sorted(upload.path for upload in found) == sorted(map(store.public, begun))
    assert uploader.abort_uploads_under_path(store.path("a")) == 3
    assert [key for key, _ in store.uploads()] == [store.key(store.path("ab"))]
    with pytest.raises(ValueError, match="nor below"):
        uploader.start_upload("/elsewhere")
    with uploader:
        uploader.abort(begun[store.path("ab")], store.path("ab"))
    assert store.uploads() == []


@TREES
@pytest.mark.rule("MPU-5")
def test_abort_uploads_under_path(store: Store, uploader):
    """The uploads at and below a path end; others go on."""
    inside = [store.path("a"), store.path("a", "b"), store.path("a", "c", "d")]
    begun = {target: uploader.start_upload(target) for target in [*inside, store.path("ab")]}
    assert sorted(target for _, target in uploader.uploads()) == sorted(begun)
    assert uploader.abort_uploads_under_path(store.path("a")) == 3
    assert uploader.uploads() == [(begun[store.path("ab")], store.path("ab"))]
    with pytest.raises(ValueError, match="nor below"):
        uploader.start_upload("/elsewhere")
    with uploader:
        uploader.abort(begun[store.path("ab")], store.path("ab"))
    assert store.on_disk() == []


class Killed(BaseException):
    """The end of a process, as far as files are concerned."""


@TREES
@pytest.mark.rule("MPU-5")
@pytest.mark.parametrize("end", ["complete", "abort"])
@pytest.mark.parametrize("at", ["rename", "delete"])
def test_what_a_killed_end_leaves(
    monkeypatch: pytest.MonkeyPatch, store: Store, uploader, end: str, at: str
):
    """It is no upload any more, and goes when the uploads to its path, or above, are aborted."""
    path, other = store.path("a", "file"), store.path("b")
    uploads = {one: uploader.start_upload(one) for one in (path, other)}
    part = uploader.put_part(uploads[path], path, 1, True, b"data")
    change = getattr(type(store.fs), at)

    def killed(fs: hflush.FileSystem, name: str, *given: object, **options: object) -> object:
        if name.endswith(uploads[path].decode()):
            raise Killed
        return change(fs, name, *given, **options)

    monkeypatch.setattr(type(store.fs), at, killed)
    given = (uploads[path], path, *([{1: part}] if end == "complete" else []))
    with pytest.raises(Killed):
        getattr(uploader, end)(*given)
    monkeypatch.undo()
    assert uploader.uploads() == [(uploads[other], other)]
    assert uploader.abort_uploads_under_path(store.path("a")) == 0
    uploader.abort(uploads[other], other)
    assert store.on_disk() == (["a", "a/file"] if end == "complete" else [])


@TREES
@pytest.mark.rule("MPU-5")
def test_what_a_killed_start_leaves(
    monkeypatch: pytest.MonkeyPatch, store: Store, uploader, path: str
):
    """It is no upload, and goes when all uploads of the base are aborted."""

    def killed(*_: object, **__: object) -> None:
        raise Killed

    monkeypatch.setattr(type(store.fs), "create", killed)
    with pytest.raises(Killed):
        uploader.start_upload(path)
    monkeypatch.undo()
    assert uploader.uploads() == []
    assert uploader.abort_uploads_under_path(store.root) == 0
    assert store.on_disk() == []


@TREES
@pytest.mark.rule("MPU-5")
def test_uploads_that_may_not_be_aborted(
    monkeypatch: pytest.MonkeyPatch, store: Store, uploader, caplog
):
    """They are another user's: they stay, a warning names them, and the others end."""
    theirs, _ = (uploader.start_upload(store.path(name)) for name in ("a", "b"))
    rename = type(store.fs)._rename_exact

    def refused(fs: hflush.FileSystem, source: str, target: str, overwrite: bool) -> None:
        if theirs.decode() in source:
            raise PermissionError(errno.EACCES, "refused", source)
        rename(fs, source, target, overwrite)

    monkeypatch.setattr(type(store.fs), "_rename_exact", refused)
    assert uploader.abort_uploads_under_path(store.root) == 1
    assert uploader.uploads() == [(theirs, store.path("a"))]
    assert theirs.decode() in caplog.text


@TREES
@pytest.mark.rule("MPU-5", "MPU-6")
def test_an_abort_beside_a_completion(
    monkeypatch: pytest.MonkeyPatch, store: Store, uploader, path: str
):
    """Whichever comes first: the file is published, or that upload has ended."""
    rename = type(store.fs)._rename_exact
    for is_published in (False, True):
        upload = uploader.start_upload(path)
        parts = {1: uploader.put_part(upload, path, 1, True, b"data")}

        def renamed(
            fs: hflush.FileSystem, source: str, target: str, *given: bool, late: bool = is_published
        ) -> None:
            if target != path:
                rename(fs, source, target, *given)
                return
            if late:
                rename(fs, source, target, *given)
            assert uploader.abort_uploads_under_path(path) == 0
            if not late:
                rename(fs, source, target, *given)

        monkeypatch.setattr(type(store.fs), "_rename_exact", renamed)
        if is_published:
            uploader.complete(upload, path, parts)
        else:
            with pytest.raises(FileNotFoundError):
                uploader.complete(upload, path, parts)
        monkeypatch.undo()
        assert store.on_disk() == (["file"] if is_published else [])


@TREES
@pytest.mark.rule("MPU-1")
def test_an_answer_to_the_publication_that_is_lost(
    monkeypatch: pytest.MonkeyPatch, store: Store, uploader, path: str
):
    """The file at the path decides, and the upload has ended, or goes on."""
    rename = type(store.fs)._rename_exact
    upload = uploader.start_upload(path)
    parts = {1: uploader.put_part(upload, path, 1, True, b"data")}
    for is_renamed in (False, True):

        def renamed(
            fs: hflush.FileSystem, source: str, target: str, *given: bool, done: bool = is_renamed
        ) -> None:
            if target != path or done:
                rename(fs, source, target, *given)
            if target == path:
                raise OSError(errno.EIO, "lost", target)

        monkeypatch.setattr(type(store.fs), "_rename_exact", renamed)
        if is_renamed:
            uploader.complete(upload, path, parts)
        else:
            with pytest.raises(OSError, match="lost"):
                uploader.complete(upload, path, parts)
            assert uploader.uploads() == [(upload, path)]
    assert store.on_disk() == ["file"]


@TREES
@pytest.mark.rule("MPU-1")
@pytest.mark.parametrize("end", ["complete", "abort"])
def test_an_upload_outlives_an_outage(
    monkeypatch: pytest.MonkeyPatch, store: Store, uploader, path: str, end: str
):
    """One that begins with the publication: the upload cannot be given back then."""
    upload = uploader.start_upload(path)
    parts = {1: uploader.put_part(upload, path, 1, True, b"data")}
    rename = type(store.fs)._rename_exact
    is_out = []

    def lost(fs: hflush.FileSystem, source: str, target: str, overwrite: bool) -> None:
        if is_out or target == path:
            is_out.append(True)
            raise OSError(errno.EIO, "lost", target)
        rename(fs, source, target, overwrite)

    with monkeypatch.context() as now:
        now.setattr(type(store.fs), "_rename_exact", lost)
        with pytest.raises(OSError, match="lost"):
            uploader.complete(upload, path, parts)
    getattr(uploader, end)(upload, path, *([parts] if end == "complete" else []))
    assert store.on_disk() == (["file"] if end == "complete" else [])
    with pytest.raises(FileNotFoundError):
        uploader.abort(upload, path)


@TREES
@pytest.mark.rule("MPU-1")
@pytest.mark.parametrize("failure", [PermissionError, OSError, KeyboardInterrupt])
def test_parts_whose_bytes_were_moved(
    monkeypatch: pytest.MonkeyPatch, store: Store, uploader, path: str, failure: type
):
    """Where joining moves them, a completion that fails keeps them for the next one."""
    kind = type(store.fs)
    rename = kind._rename_exact
    upload = uploader.start_upload(path)
    parts = {n: uploader.put_part(upload, path, n, n == 3, b"data"[n:]) for n in (1, 3, 4)}

    def concat(fs: hflush.FileSystem, joined: str, sources: list[str]) -> None:
        with fs.append(joined) as out:
            for source in sources:
                out.write(store.read(source))
                fs.delete(source)

    def refused(fs: hflush.FileSystem, source: str, target: str, overwrite: bool) -> None:
        if target == path:
            raise failure(errno.EACCES, "refused", target)
        rename(fs, source, target, overwrite)

    if store.name == "raw":
        monkeypatch.setattr(MultipartUploader, "_concatenates", lambda _: True)
        monkeypatch.setattr(kind, "concat", concat)
    with monkeypatch.context() as now:
        now.setattr(kind, "_rename_exact", refused)
        for _ in range(2):
            with pytest.raises(failure):
                uploader.complete(upload, path, parts)
    with pytest.raises(FileNotFoundError):
        uploader.complete(upload, path, {1: parts[1]})
    uploader.complete(upload, path, parts)
    assert store.read(path) == b"ataa"
    assert store.on_disk() == ["file"]


@TREES
@pytest.mark.shim
@pytest.mark.rule("MPU-1")
def test_complete_syncs_before_it_publishes(faults, store: Store, uploader, path: str):
    """The joined file is on disk before it is renamed; one that cannot be is not published."""
    upload = uploader.start_upload(path)
    parts = {1: uploader.put_part(upload, path, 1, True, b"data")}
    rule = faults.fail("sync", 5, "*/joined.*", limit=1)
    with pytest.raises(OSError, match="Input/output error"):
        uploader.complete(upload, path, parts)
    assert rule.applied == 1
    assert not store.fs.exists(path)
    uploader.complete(upload, path, parts)
    synced = [c for c in faults.calls("sync") if c.name.startswith("joined") and not c.result]
    assert synced
    assert store.read(path) == b"data"


@pytest.mark.stores("raw")
@pytest.mark.shim
@pytest.mark.rule("MPU-6", "MPU-7")
def test_one_that_still_completes_does_not_hinder_the_end(
    faults, store: Store, uploader, path: str
):
    """While the upload that was published is removed, another complete adds no file to it."""
    upload = uploader.start_upload(path)
    parts = {1: uploader.put_part(upload, path, 1, True, b"data")}
    with (
        faults.gate("open", "*/joined.*", limit=1) as late,
        faults.gate("sync", "*/joined.*", skip=1) as joined_late,
        faults.gate("unlink", "*.hflush-*/*", limit=1) as removing,
    ):
        second = Task(uploader.complete, upload, path, parts)
        late.wait_for(1)
        first = Task(uploader.complete, upload, path, parts)
        removing.wait_for(1)
        late.release()
        wait_until(lambda: joined_late.applied or not second.is_alive(), "the late one went on")
        removing.release()
        first.result()
    with pytest.raises(FileNotFoundError, match="no such upload"):
        second.result()
    assert store.read(path) == b"data"
    assert store.on_disk() == ["file"]


@pytest.mark.stores("raw")
@pytest.mark.shim
@pytest.mark.rule("MPU-1")
def test_parts_that_stay_are_no_failure(faults, store: Store, uploader, path: str, caplog):
    """A file that is published is reported as published; a warning names what is left."""
    upload = uploader.start_upload(path)
    parts = {1: uploader.put_part(upload, path, 1, True, b"data")}
    rule = faults.fail("unlink", errno.EIO, "*.hflush-*/*", limit=1)
    uploader.complete(upload, path, parts)
    assert rule.applied == 1
    assert store.read(path) == b"data"
    assert upload.decode() in caplog.text
    assert uploader.uploads() == []


@pytest.mark.stores("hdfs")
def test_two_users_of_one_base(store: Store):
    """The first shuts the second out of nothing but its own uploads."""
    with store.public_directory() as base:
        store.chmod(base, 0o777)
        uploader = store.fs.create_multipart_uploader(base)
        first = uploader.start_upload(f"{base}/first")
        snippet = """
uploader = fs.create_multipart_uploader(base)
upload = uploader.start_upload(path)
uploader.complete(upload, path, {1: uploader.put_part(upload, path, 1, True, b"data")})
uploader.start_upload(path)
result = uploader.abort_uploads_under_path(base)
"""
        assert store.unprivileged().run(snippet, base=base, path=f"{base}/second") == 1
        assert uploader.uploads() == [(first, f"{base}/first")]
        assert store.read(f"{base}/second") == b"data"


@pytest.mark.stores("hdfs")
def test_uploads_to_the_root(store: Store):
    """What is beside the root is below it, too: each upload is listed once."""
    uploader = store.fs.create_multipart_uploader("/")
    path = f"/{uuid.uuid4().hex}"
    upload = uploader.start_upload(path)
    try:
        assert [found for found in uploader.uploads() if found[1] == path] == [(upload, path)]
    finally:
        uploader.abort(upload, path)
