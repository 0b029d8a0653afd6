"""The registry of stores: what a store says of itself reaches everything that asks."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from weakref import ref

import hflush
import pytest
from hflush import filesystem, options, paths, registry, spelling
from hflush.keys import Key as ConfKey
from hflush.keys import number
from hflush.local import LocalFileSystem
from hflush.registry import Store, register
from hflush.spark.settings import WriteSettings
from support.scripted_s3 import KEY_ID, SECRET, Key, ScriptedS3
from support.waiting import DEADLINE_S, together

KEYS = (ConfKey("Shelves", "fs.shelf.maxDepth", number(1), "how deep they are", default="3"),)


class ShelfFileSystem(LocalFileSystem):
    """Local files by another scheme."""

    create_options = LocalFileSystem.create_options | {"fs.shelf.create.colour"}

    def _accepts(self, location: paths.Location) -> bool:
        return location.scheme == "shelf"


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Store:
    for module, name in (
        (registry, "_stores"),
        (registry, "_cache"),
        (paths, "_aliases"),
        (options, "CREATE_KEYWORDS"),
    ):
        monkeypatch.setattr(module, name, dict(getattr(module, name)))
    monkeypatch.setattr(paths, "_likely_schemes", set(paths._likely_schemes))
    monkeypatch.setattr(spelling, "_of_stores", set(spelling._of_stores))
    store = Store(
        ("shelf",),
        ShelfFileSystem,
        aliases={"rack": "shelf"},
        create_keywords={"colour": "fs.shelf.create.colour"},
        key_families=("hflush.shelf.",),
        keys=f"{__name__}:KEYS",
    )
    register(store)
    return store


def test_those_that_come_with_hflush():
    """Each is there without having been used, and S3 has not been loaded for it."""
    schemes = [store.schemes for store in registry.stores()]
    assert [named for named in schemes if named != ("mem",)] == [
        ("hdfs",),
        ("file", "file+crc"),
        ("s3",),
        ("viewfs",),
    ]


def test_a_store_serves_its_schemes_and_aliases(shelf: Store, tmp_path: Path):
    for scheme in ("shelf", "rack"):
        url = f"{scheme}://{tmp_path}/{scheme}"
        with hflush.create(url) as out:
            out.write(b"data")
        assert hflush.open(url, "rb").read() == b"data"
    assert type(hflush.FileSystem.get("rack:///")) is ShelfFileSystem
    assert hflush.FileSystem.get("rack:///") is hflush.FileSystem.get("shelf:///")
    assert registry.stores()[-1] is shelf


def test_another_factory_keeps_the_rest_of_a_store(shelf: Store):
    """FileSystem.register takes away neither fsspec's class nor the other scheme of a store."""

    def of_scheme(scheme: str) -> Store:
        return next(store for store in registry.stores() if scheme in store.schemes)

    before = of_scheme("s3").fsspec
    assert before
    hflush.FileSystem.register("s3", ShelfFileSystem)
    hflush.FileSystem.register("file", ShelfFileSystem)
    assert (of_scheme("s3").factory, of_scheme("s3").fsspec) == (ShelfFileSystem, before)
    assert of_scheme("file+crc").factory is not ShelfFileSystem


def test_a_missing_colon_is_noticed(shelf: Store):
    with pytest.raises(hflush.InvalidPathError, match=r"did you mean 'shelf://a'"):
        hflush.create("shelf//a")


def test_a_keyword_is_of_the_store_alone(shelf: Store, tmp_path: Path):
    """Known everywhere, and refused where the store is another."""
    hflush.create(f"shelf://{tmp_path}/a", colour="red").close()  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=r"fs\.shelf\.create\.colour"):
        hflush.create(f"{tmp_path}/b", colour="red")  # type: ignore[call-arg]
    assert not (tmp_path / "b").exists()


def test_keys_of_a_store_are_its_business(shelf: Store, tmp_path: Path):
    """Other stores do not look at them; without the store they would be unknown."""
    assert hflush.FileSystem.new_instance(tmp_path, {"hflush.shelf.depth": "3"})
    with pytest.raises(ValueError, match=r"unknown configuration key 'hflush\.shelve\.depth'"):
        hflush.FileSystem.new_instance(tmp_path, {"hflush.shelve.depth": "3"})


class TestSharing:
    """What FileSystem.get keeps for the next caller, and for how long."""

    @staticmethod
    def get(token: int, url: str = "s3://bucket/") -> hflush.FileSystem:
        return hflush.FileSystem.get(url, {"fs.s3a.session.token": f"token {token}"})

    @pytest.fixture(autouse=True)
    def _alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(registry, "_cache", {})

    def test_fresh_tokens_do_not_add_up(self):
        """Without the garbage collector, too: what is let go is gone at once."""
        gc.disable()
        try:
            seen = [ref(self.get(token)) for token in range(100)]
        finally:
            gc.enable()
        assert sum(one() is not None for one in seen) == registry._KEPT_OF_PLACE
        assert len(registry._cache) <= registry._KEPT_OF_PLACE + 1
        places = [ref(self.get(0, f"hdfs://nn{number}/")) for number in range(100)]
        assert sum(one() is not None for one in places) == registry._KEPT

    def test_what_is_used_is_shared_still(self):
        """By the program, however many others there are; the last used are kept, too."""
        used = self.get(0)
        for token in range(1, 100):
            self.get(token)
            assert self.get(1) is self.get(1)
            last = ref(self.get(1))
        assert self.get(0) is used
        assert last() is self.get(1)
        used.close()
        assert self.get(0) is not used

    def test_one_is_shared_of_several_made_at_once(self, shelf: Store):
        """None waits for another that is made, which may need what it has."""
        makers = threading.Barrier(2)

        def make(*arguments: object) -> ShelfFileSystem:
            makers.wait(DEADLINE_S)
            return ShelfFileSystem(*arguments)  # type: ignore[arg-type]

        register(Store(("shelf",), make))
        first, second = together(*[lambda: hflush.FileSystem.get("shelf:///")] * 2)
        assert first is second is hflush.FileSystem.get("shelf:///")

    def test_what_is_written_is_not_closed(self, tmp_path: Path):
        """A stream holds its file system."""
        out = hflush.FileSystem.get("file:///", {"x": "0"}).create(tmp_path / "x")
        for other in range(1, 20):
            hflush.FileSystem.get("file:///", {"x": other})
        out.write(b"whole")
        out.close()
        assert (tmp_path / "x").read_bytes() == b"whole"

    def test_what_was_changed_is_kept(self, tmp_path: Path):
        """It is not what another get would make."""
        hflush.FileSystem.get("file:///", {"x": "here"}).set_working_directory(tmp_path)
        doomed = tmp_path / "doomed"
        doomed.touch()
        assert hflush.FileSystem.get("file:///", {"x": "at end"}).delete_on_exit(doomed)
        for other in range(20):
            hflush.FileSystem.get("file:///", {"x": other})
        here = hflush.FileSystem.get("file:///", {"x": "here"})
        assert here.working_directory == str(tmp_path)
        hflush.FileSystem.get("file:///", {"x": "at end"}).close()
        assert not doomed.exists()

    def test_variables_lead_elsewhere(self, monkeypatch: pytest.MonkeyPatch):
        """To another server, as another user; and to what was shared, where they are as before."""
        with ScriptedS3() as one, ScriptedS3() as two:
            two.keys["OTHER"] = Key("other secret")
            found: list[hflush.FileSystem] = []
            for server, user, secret in (
                (one, KEY_ID, SECRET),
                (two, "OTHER", "other secret"),
                (one, KEY_ID, SECRET),
            ):
                monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
                monkeypatch.setenv("AWS_ACCESS_KEY_ID", user)
                monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
                hflush.put_if_absent(f"s3://bucket/{len(found)}", b"data")
                found.append(hflush.FileSystem.get("s3://bucket/"))
                assert f"Credential={user}/" in server.log[-1].head.get("authorization")
            assert (sorted(one.objects), sorted(two.objects)) == (["0", "2"], ["1"])
            assert found[0] is found[2] is not found[1]

    def test_who_it_is_stays(self, monkeypatch: pytest.MonkeyPatch):
        """Its credentials are those of when it was made, whenever it is first used."""
        with ScriptedS3() as server:
            monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
            fs = hflush.FileSystem.get("s3://bucket/")
            with monkeypatch.context() as patch:
                patch.setenv("AWS_ACCESS_KEY_ID", "OTHER")
                assert not fs.exists("/a")
            assert hflush.FileSystem.get("s3://bucket/") is fs
            assert not fs.exists("/b")
            seen = [request.head.get("authorization").split("/")[0] for request in server.log]
            assert {text.rpartition("=")[2] for text in seen} == {KEY_ID}

    def test_equal_ones_are_two(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """Each keeps what is its own; those of another user, or other settings, are not equal."""
        one, two = (hflush.FileSystem.new_instance("file:///") for _ in range(2))
        assert one == two == hflush.FileSystem.get("file:///")
        assert sum(found is one or found is two for found in filesystem.instances()) == 2
        for which, fs in enumerate((one, two)):
            (tmp_path / str(which)).touch()
            fs.delete_on_exit(tmp_path / str(which))
        filesystem._remove_all_doomed()
        assert list(tmp_path.iterdir()) == []
        one.set_working_directory("/tmp")
        assert one != two
        monkeypatch.setenv("HADOOP_USER_NAME", "another")
        assert two != hflush.FileSystem.new_instance("file:///")

    def test_each_store_has_its_variables(self, shelf: Store, monkeypatch: pytest.MonkeyPatch):
        """Another factory keeps them; a view may lead there, and other stores do not."""
        register(Store(("shelf",), ShelfFileSystem, environment=("SHELF_ROOM",)))
        hflush.FileSystem.register("shelf", ShelfFileSystem)
        conf = {"fs.viewfs.mounttable.view.link./a": "shelf:///"}
        urls = ("shelf:///", "viewfs://view/", "file:///")
        before = [hflush.FileSystem.get(url, conf) for url in urls]
        monkeypatch.setenv("SHELF_ROOM", "another")
        after = [hflush.FileSystem.get(url, conf) for url in urls]
        assert [new is old for new, old in zip(after, before, strict=True)] == [False, False, True]

    def test_hadoops_key_shares_nothing(self):
        """Under whatever name of the scheme: what one caller closes is nobody else's."""
        conf = {"fs.s3a.impl.disable.cache": True}
        for url in ("s3://bucket/", "s3a://bucket/"):
            assert hflush.FileSystem.get(url, conf) is not hflush.FileSystem.get(url, conf)
        assert hflush.FileSystem.get("file:///", conf) is hflush.FileSystem.get("file:///", conf)


def test_the_keys_of_every_store_are_known(shelf: Store):
    """The general ones, and the tables of the stores; another factory takes none away."""
    assert {"fs.defaultFS", "dfs.blocksize", "fs.s3a.endpoint", "fs.local.block.size"} <= (
        registry.known_keys()
    )
    hflush.FileSystem.register("shelf", ShelfFileSystem)
    assert "fs.shelf.maxDepth" in registry.known_keys()


def test_spark_writes_the_keys_of_a_store_exactly(shelf: Store):
    """Its options come in lower case, and what no table has stays as it is."""
    options = {"path": "shelf:///a", "fs.shelf.maxdepth": "5", "fs.other.depth": "6"}
    conf = WriteSettings.of(options, overwrite=False).conf
    assert conf == {"fs.shelf.maxDepth": "5", "fs.other.depth": "6"}


def test_a_factory_by_name(shelf: Store):
    """Imported when the first file system is made."""
    register(Store(("shelf",), "hflush.local.filesystem:local_files"))
    assert type(hflush.FileSystem.new_instance("shelf:///")) is LocalFileSystem
