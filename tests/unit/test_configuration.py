"""Configuration: files, order, final keys, expansion, typed reading."""

from __future__ import annotations

import copy
import enum
import errno
import os
import pickle
import pwd
import re
from collections.abc import Callable
from pathlib import Path

import fsspec
import hflush
import hflush.fsspec
import pytest
from hflush import Configuration, deprecations, warn
from hflush.configuration import parse_size, parse_time, user_name

# What leads to Hadoop's files, and to which directory of what it names.
VARIABLES = {
    "HADOOP_CONF_DIR": "conf",
    "YARN_CONF_DIR": "conf",
    "HADOOP_HOME": "etc/hadoop",
    "HADOOP_PREFIX": "etc/hadoop",
}


class CopyStep(enum.IntEnum):
    """A number with a name."""

    THIRD = 3


def site(path: Path, *properties: str, head: str = "") -> Path:
    """Write a configuration file of `name=value` or `name=value!` (final) properties."""
    lines = []
    for text in properties:
        name, _, value = text.partition("=")
        final = "<final>true</final>" if value.endswith("!") else ""
        value = value.removesuffix("!")
        lines.append(f"<property><name>{name}</name><value>{value}</value>{final}</property>")
    path.write_text(
        f'<?xml version="1.0"?>\n{head}<configuration>\n' + "\n".join(lines) + "\n</configuration>"
    )
    return path


@pytest.fixture
def conf_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A HADOOP_CONF_DIR."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    return tmp_path


def test_defaults_without_files():
    """Without HADOOP_CONF_DIR only the built-in defaults are there; without those, nothing."""
    assert Configuration()["fs.defaultFS"] == "file:///"
    assert dict(Configuration(load_defaults=False)) == {}


def test_site_files_are_read_in_hadoops_order(conf_dir: Path):
    """Core, hdfs, routers; the last to set a key wins. What Hadoop's clients do not load is not."""
    order = ["core", "hdfs", "hdfs-rbf"]
    for name in reversed(order):
        site(conf_dir / f"{name}-site.xml", f"last={name}", f"of.{name}=1")
    for name in ("core-default", "hbase-site", "hive-site", "yarn-site", "mapred-site"):
        (conf_dir / f"{name}.xml").write_text("&#8;")
    conf = Configuration()
    assert conf["last"] == "hdfs-rbf"
    assert all(conf[f"of.{name}"] == "1" for name in order)


def test_more_files(conf_dir: Path, tmp_path: Path):
    """A key names them, in a file or in the program; what is final stays, and so does conf=."""
    site(conf_dir / "core-site.xml", "a=core!", "b=core", "hflush.conf.files=more.xml, x.xml")
    site(conf_dir / "more.xml", "a=more", "b=more", "c=more", "hflush.conf.files=nosuch.xml")
    site(conf_dir / "x.xml", "c=x")
    conf = Configuration()
    assert (conf["a"], conf["b"], conf["c"]) == ("core", "more", "x")
    other = site(tmp_path / "other.xml", "b=other", "c=other")
    for name in (str(other), f"file://{other}"):
        conf = Configuration.of({"c": "mine", "hflush.conf.files": name})
        assert (conf["a"], conf["b"], conf["c"]) == ("core", "other", "mine")
    with pytest.raises(ValueError, match=r"hflush\.conf\.files must be local .*'hdfs://nn/x"):
        Configuration.of({"hflush.conf.files": "hdfs://nn/x.xml"})
    with pytest.raises(FileNotFoundError, match=r"hflush\.conf\.files.*nosuch\.xml"):
        Configuration.of({"hflush.conf.files": "nosuch.xml"})


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.write_text(""), "is not a directory"),
        (lambda path: path.mkdir(), "has none of core-site"),
    ],
)
@pytest.mark.parametrize("variable", ["HADOOP_CONF_DIR", "YARN_CONF_DIR"])
def test_a_directory_that_does_not_help(
    make: Callable[[Path], object],
    why: str,
    variable: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    """A variable may lead to no file, as in Hadoop; that is said once."""
    place = tmp_path / "conf"
    make(place)
    monkeypatch.setenv(variable, str(place))
    assert Configuration()["fs.defaultFS"] == Configuration()["fs.defaultFS"] == "file:///"
    (text,) = caplog.messages
    assert text.startswith(f"{variable} leads to {place}, which {why}")


def test_several_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As in a class path: each file is that of the first that has it, and a jar is none."""
    directories = [tmp_path / name for name in ("first", "nosuch", "a.jar", "second")]
    for directory in (directories[0], directories[3]):
        directory.mkdir()
        site(directory / "core-site.xml", f"core={directory.name}", "hflush.conf.files=more.xml")
    directories[2].touch()
    for name in ("hdfs-site", "more"):
        site(directories[3] / f"{name}.xml", f"{name}=second")
    monkeypatch.setenv("HADOOP_CONF_DIR", ":".join(map(str, directories)))
    conf = Configuration()
    assert (conf["core"], conf["hdfs-site"], conf["more"]) == ("first", "second", "second")
    alone = tmp_path / "a:b"
    alone.mkdir()
    site(alone / "core-site.xml", "core=alone")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(alone))
    assert Configuration()["core"] == "alone"


def test_a_directory_that_may_not_be_read(conf_dir: Path, monkeypatch: pytest.MonkeyPatch):
    """It is an error that names the variable, too: what is in there might matter."""

    def refuse(_: str) -> list[str]:
        raise PermissionError(errno.EACCES, "denied")

    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(PermissionError, match=f"HADOOP_CONF_DIR leads .*{conf_dir}"):
        Configuration()
    site(conf_dir / "core-site.xml", "a=by its name")  # as of who may pass, but not list
    assert Configuration()["a"] == "by its name"


def test_which_variable_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The first of them, as Spark and Hadoop have it."""
    for variable, place in VARIABLES.items():
        (tmp_path / variable / place).mkdir(parents=True)
        site(tmp_path / variable / place / "core-site.xml", f"a={variable}")
        within = tmp_path / variable / ("conf" if place == "conf" else "")
        monkeypatch.setenv(variable, str(within))
    for variable in VARIABLES:
        assert Configuration()["a"] == variable
        monkeypatch.delenv(variable)


def test_a_directory_of_yarn_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It may have YARN's file only: then that of the installation counts."""
    (tmp_path / "etc" / "hadoop").mkdir(parents=True)
    site(tmp_path / "etc" / "hadoop" / "core-site.xml", "a=home")
    (tmp_path / "yarn-site.xml").touch()
    monkeypatch.setenv("YARN_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("HADOOP_HOME", str(tmp_path))
    assert Configuration()["a"] == "home"


def test_the_directory_of_an_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Where HADOOP_CONF_DIR is not set, as Hadoop's scripts have it."""
    (tmp_path / "etc" / "hadoop").mkdir(parents=True)
    site(tmp_path / "etc" / "hadoop" / "core-site.xml", "fs.defaultFS=hdfs://nn")
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.setenv("HADOOP_HOME", str(tmp_path))
    assert Configuration()["fs.defaultFS"] == "hdfs://nn"
    (tmp_path / "conf").mkdir()
    site(tmp_path / "conf" / "core-site.xml", "fs.defaultFS=hdfs://older")
    assert Configuration()["fs.defaultFS"] == "hdfs://nn"
    (tmp_path / "conf" / "hadoop-env.sh").touch()
    assert Configuration()["fs.defaultFS"] == "hdfs://older"
    monkeypatch.setenv("HADOOP_CONF_DIR", str(site(tmp_path / "core-site.xml").parent))
    assert Configuration()["fs.defaultFS"] == "file:///"


class TestOldNames:
    """Names of keys that Hadoop has replaced."""

    def test_files(self, tmp_path: Path, caplog: pytest.LogCaptureFixture):
        """The last to set a key wins, under whatever name; final holds for both."""
        site(
            tmp_path / "1.xml", "fs.defaultFS=hdfs://new", "dfs.block.size=64m!", "dfs.umaskmode=7"
        )
        site(
            tmp_path / "2.xml",
            "fs.default.name=hdfs://old",
            "dfs.blocksize=1m",
            "x=${dfs.umaskmode}",
        )
        conf = Configuration(load_defaults=False)
        conf.add_resource(tmp_path / "1.xml")
        conf.add_resource(tmp_path / "2.xml")
        assert dict(conf) == {
            "fs.defaultFS": "hdfs://old", "dfs.blocksize": "64m",
            "fs.permissions.umask-mode": "7", "x": "7",
        }  # fmt: skip
        conf.add_resource(tmp_path / "2.xml")
        said = [text for text in caplog.messages if "fs.default.name" in text]
        assert said in ([], ["fs.default.name is deprecated. Instead, use fs.defaultFS"])

    def test_programs(self):
        """Either name reads, sets, removes and is in the mapping, in the order of setting."""
        conf = Configuration.of({"fs.defaultFS": "hdfs://a", "fs.default.name": "hdfs://b"})
        assert conf["fs.defaultFS"] == conf["fs.default.name"] == "hdfs://b"
        assert conf.get_raw("fs.default.name") == "hdfs://b"
        assert "fs.default.name" in conf
        del conf["fs.default.name"]
        assert "fs.defaultFS" not in conf
        conf["dfs.socket.timeout"] = "never"
        for copied in (conf.copy(), pickle.loads(pickle.dumps(conf))):
            with pytest.raises(ValueError, match=r"^dfs\.socket\.timeout must be"):
                copied.get_time("dfs.client.socket-timeout")

    def test_several_names_for_one(self, monkeypatch: pytest.MonkeyPatch):
        """One old name may stand for several."""
        monkeypatch.setitem(deprecations.RENAMED, "old", ("b", "c"))
        conf = Configuration(load_defaults=False)
        conf["old"] = "1"
        assert dict(conf) == {"b": "1", "c": "1"}
        del conf["old"]
        assert dict(conf) == {}

    def test_each_is_said_once(self, caplog: pytest.LogCaptureFixture, monkeypatch):
        monkeypatch.setattr(warn, "_warned", set())
        for _ in range(2):
            Configuration.of({"dfs.block.size": "1m", "dfs.umaskmode": "022"})
        assert caplog.messages == [
            "dfs.block.size is deprecated. Instead, use dfs.blocksize",
            "dfs.umaskmode is deprecated. Instead, use fs.permissions.umask-mode",
        ]

    def test_they_count(self, conf_dir: Path):
        """For what a path without a scheme means, and for how files are written."""
        site(conf_dir / "core-site.xml", "fs.default.name=\n hdfs://nn:8020\n")
        site(conf_dir / "hdfs-site.xml", "dfs.block.size= 64m ")
        fs = hflush.FileSystem.get("/data/x")
        assert fs.uri == "hdfs://nn:8020/"
        assert fs._settings_of_client.write.block_size == 64 << 20


@pytest.mark.parametrize(
    ("value", "uri"),
    [("\n hdfs://nn:9000/ \n", "hdfs://nn:9000/"), ("nn:9000", "hdfs://nn:9000/"),
     ("local", "file:///"), ("${scheme}://${env.HFLUSH_T:-other}", "hdfs://other/")],
)  # fmt: skip
def test_the_default_file_system_is_read_as_hadoop_does(value: str, uri: str):
    """Trimmed, expanded, and in the forms of old."""
    assert hflush.FileSystem.get("/x", {"fs.defaultFS": value, "scheme": "hdfs"}).uri == uri


def test_a_blank_default_file_system():
    """It names nothing: that is not this machine."""
    with pytest.raises(ValueError, match=r"fs\.default\.name is blank"):
        hflush.FileSystem.get("/x", {"fs.default.name": " "})


def test_final_keeps_later_files_off_but_not_the_program(conf_dir: Path):
    """A final key survives later files; the program may still set it."""
    site(conf_dir / "core-site.xml", "a=core!", "b=core")
    site(conf_dir / "hdfs-site.xml", "a=hdfs", "b=hdfs")
    conf = Configuration()
    assert (conf["a"], conf["b"]) == ("core", "hdfs")
    conf["a"] = "mine"
    assert conf["a"] == "mine"


def test_files_that_are_added_leave_alone_what_the_program_has_set(tmp_path: Path):
    """TestConfiguration.testOverlay; in copies, too. What was removed is read again."""
    conf = Configuration(load_defaults=False)
    conf.update({" set ": "mine", "gone": "mine"})
    del conf[" gone"]
    path = site(tmp_path / "x.xml", "set=file", "gone=file")
    for one in (conf, conf.copy(), pickle.loads(pickle.dumps(conf))):
        one.add_resource(path)
        assert (one["set "], one.get(" gone")) == ("mine", "file")


def test_final_within_one_file(tmp_path: Path):
    """The same holds for two properties of one file."""
    conf = Configuration(load_defaults=False)
    conf.add_resource(site(tmp_path / "x.xml", "a=1!", "a=2"))
    assert conf["a"] == "1"


def test_files_that_change_are_read_again(conf_dir: Path):
    """What was read is remembered only as long as the file is the same."""
    path = site(conf_dir / "core-site.xml", "a=first")
    assert Configuration()["a"] == "first"
    site(path, "a=second one")
    assert Configuration()["a"] == "second one"


def test_attributes_comments_and_whitespace(tmp_path: Path):
    """Properties may be attributes; names are trimmed, values are not; empty ones are none."""
    path = tmp_path / "x.xml"
    path.write_text(
        "<configuration><!-- c --><property name='a' value='1' final='true'/>"
        "<property><name> b </name><value> 2 </value><description>d</description></property>"
        "<property><name>none</name></property><property><name>empty</name><value/></property>"
        "</configuration>"
    )
    conf = Configuration(load_defaults=False)
    conf.add_resource(path)
    assert dict(conf) == {"a": "1", "b": " 2 "}


def test_what_is_empty_in_a_file(tmp_path: Path):
    """TestConfiguration.testFinalParam: it takes no value away, though it may be final."""
    conf = Configuration(load_defaults=False)
    for properties in (["a=1", "b="], ["a=", "b=!", "c=1", "c=!"], ["b=2", "c=2"]):
        conf.add_resource(site(tmp_path / "x.xml", *properties))
    assert dict(conf) == {"a": "1", "c": "1"}


XINCLUDE = "http://www.w3.org/2001/XInclude"


@pytest.mark.parametrize(
    "space", [f'xmlns:xi="{XINCLUDE}"', 'xmlns:xi="urn:x"', 'xmlns="urn:x"', ""]
)
@pytest.mark.parametrize("before", ["", "{}/", "file:{}/", "file://{}/"])
def test_includes_of_local_files(tmp_path: Path, before: str, space: str):
    """They are beside this one; a fallback is for one that is missing. Name spaces do not count."""
    site(tmp_path / "other.xml", "a=included")
    path, xi = tmp_path / "x.xml", "xi:" if ":xi" in space else ""
    path.write_text(
        f"<configuration {space}>"
        f'<{xi}include href="{before.format(tmp_path)}other.xml"/>'
        f'<{xi}include href="nosuch.xml"><{xi}fallback><property><name>b</name>'
        f"<value>fallback</value></property></{xi}fallback></{xi}include></configuration>"
    )
    conf = Configuration(load_defaults=False)
    conf.add_resource(path)
    assert dict(conf) == {"a": "included", "b": "fallback"}
    site(tmp_path / "other.xml", "a=changed since")
    conf.add_resource(path)
    assert conf["a"] == "changed since"


def test_files_that_are_entities(conf_dir: Path, tmp_path: Path):
    """As in Hadoop; they are looked at anew each time. Others are refused, and so are circles."""
    main, other = conf_dir / "core-site.xml", conf_dir / "ha.xml"
    text = '<!DOCTYPE c [<!ENTITY ha SYSTEM "ha.xml">%s]>\n<configuration>&ha;</configuration>'
    main.write_text(text % "")
    for value in "12":
        other.write_text(f"<property><name>a</name><value>{value}</value></property>")
        assert Configuration()["a"] == value
    for bad, message in (("&ha;", "ha.xml: line 1"), ("<property>", "ha.xml: line 1")):
        other.write_text(bad)
        with pytest.raises(ValueError, match=message):
            Configuration()
    main.write_text(text % '<!ENTITY e "x">')
    with pytest.raises(ValueError, match="entities are not allowed unless they are files"):
        Configuration()
    main.write_text((text % "").replace("ha.xml", "http://example.org/ha.xml"))
    with pytest.raises(ValueError, match="only local files"):
        Configuration()


@pytest.mark.parametrize("xi", ["xi:", ""])
@pytest.mark.parametrize("href", ["http://example.org/x.xml", "x.xml", ""])
def test_includes_that_are_refused(tmp_path: Path, href: str, xi: str):
    """A remote include, one of itself and one of nothing are errors that name the file."""
    path = tmp_path / "x.xml"
    path.write_text(
        f'<configuration xmlns:xi="{XINCLUDE}"><{xi}include href="{href}"/></configuration>'
    )
    with pytest.raises(ValueError, match=r"x\.xml"):
        Configuration(load_defaults=False).add_resource(path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("<configuration>\n<property>\n</configuration>", "line 3"),
        ("", "line 1"),
        ("<project/>", "configuration"),
        ('<!DOCTYPE c [<!ENTITY e "x">]>\n<configuration>&e;</configuration>', "entit"),
    ],
    ids=["not closed", "empty", "other root", "entity"],
)
def test_unreadable_xml_is_a_value_error_with_file_and_line(
    conf_dir: Path, text: str, complaint: str
):
    """Malformed files stop the configuration, and say which file it is."""
    path = conf_dir / "core-site.xml"
    path.write_text(text)
    with pytest.raises(ValueError, match=complaint) as refusal:
        Configuration()
    assert str(path) in str(refusal.value)


def test_elements_of_no_meaning(conf_dir: Path, caplog: pytest.LogCaptureFixture):
    """They are passed over as in Hadoop, with a warning; properties in them count."""
    properties = "".join(
        f"<property><name>{name}</name><value>1</value></property>" for name in "ab"
    )
    path = conf_dir / "core-site.xml"
    path.write_text(
        f"<configuration><!-- c --><comment>x</comment><group>{properties}</group></configuration>"
    )
    conf = Configuration()
    assert (conf["a"], conf["b"]) == ("1", "1")
    assert f"{path}: <comment> means nothing" in caplog.text


def test_a_file_that_cannot_be_read_is_an_os_error(conf_dir: Path):
    """A configuration file that is a directory is not passed over in silence."""
    (conf_dir / "core-site.xml").mkdir()
    with pytest.raises(OSError, match=r"core-site\.xml"):
        Configuration()


@pytest.mark.parametrize(
    ("value", "expanded"),
    [
        ("${a}", "1"),
        ("x${a}y${a}z", "x1y1z"),
        ("${b}", "1-2"),
        ("${na${m}e}", "nested"),
        ("${unknown}", "${unknown}"),
        ("${env.HFLUSH_T}", "set"),
        ("${env.HFLUSH_T:-d}", "set"),
        ("${env.HFLUSH_EMPTY:-d}", "d"),
        ("${env.HFLUSH_EMPTY-d}", ""),
        ("${env.HFLUSH_NO:-d}", "d"),
        ("${env.HFLUSH_NO-d}", "d"),
        ("${env.HFLUSH_NO}", "${env.HFLUSH_NO}"),
        ("$a {a} $", "$a {a} $"),
        ("${}", "${}"),
        ("${a b}${a$}${a}", "${a b}${a$}1"),
        ("x${v}${a}", "x${v}${a}"),
    ],
)
def test_expansion(monkeypatch: pytest.MonkeyPatch, value: str, expanded: str):
    """Other keys, the environment and its defaults; all else stays as written."""
    monkeypatch.setenv("HFLUSH_T", "set")
    monkeypatch.setenv("HFLUSH_EMPTY", "")
    monkeypatch.delenv("HFLUSH_NO", raising=False)
    conf = Configuration(load_defaults=False)
    conf.update({"a": "1", "b": "${a}-2", "m": "m", "name": "nested", "v": value})
    assert conf["v"] == expanded
    assert conf.get_raw("v") == value


def test_expansion_asks_the_process(monkeypatch: pytest.MonkeyPatch):
    """What Java knows of it does not depend on the environment, as in Hadoop."""
    for name in ("HADOOP_USER_NAME", "HADOOP_PROXY_USER", "HOME", "TMPDIR"):
        monkeypatch.setenv(name, "/elsewhere")
    owner = pwd.getpwuid(os.getuid())
    conf = Configuration.of({"home": "${user.home}"})
    assert conf["hadoop.tmp.dir"] == f"/tmp/hadoop-{owner.pw_name}"
    assert conf["home"] == owner.pw_dir


def test_a_worker_of_pyspark_is_who_its_application_is(monkeypatch: pytest.MonkeyPatch):
    """As Spark's own tasks are: the owner of the container may be another one."""
    for name in ("HADOOP_USER_NAME", "HADOOP_PROXY_USER"):
        monkeypatch.delenv(name, raising=False)
    owner = user_name()
    monkeypatch.setenv("SPARK_USER", "ann")
    assert user_name() == owner
    monkeypatch.setenv("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")
    assert user_name() == "ann"
    monkeypatch.setenv("HADOOP_USER_NAME", "ben")
    assert user_name() == "ben"


def test_expansion_ends():
    """Keys that refer to each other are a ValueError, not a loop."""
    conf = Configuration(load_defaults=False)
    conf.update({"a": "${b}", "b": "${a}", "grow": "x${more}", "more": "x${grow}"})
    for key in ("a", "grow"):
        with pytest.raises(ValueError, match=f"^{key}: variable substitution"):
            conf[key]


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (True, "true"), (False, "false"), (7, "7"), (0.5, "0.5"), ("x", "x"),
        (CopyStep.THIRD, "3"), (134217728.0, "134217728"), (1e300, "1e+300"),
    ],
)  # fmt: skip
def test_values_are_stored_as_hadoops_strings(value: object, stored: str):
    """Bool, int and float become text."""
    conf = Configuration(load_defaults=False)
    conf["key"] = value
    assert conf["key"] == stored


def test_numbers_of_numpy_are_stored_as_those_of_python():
    """By their values."""
    numpy = pytest.importorskip("numpy")
    conf = Configuration(load_defaults=False)
    values = (numpy.float64(0.5), numpy.float32(0.5), numpy.int64(3), numpy.bool_(True))
    conf.update({str(number): value for number, value in enumerate(values)})
    assert list(conf.values()) == ["0.5", "0.5", "3", "true"]


def test_what_cannot_be_stored():
    """None, bytes and lists are TypeError; so is a key that is not text; empty ones ValueError."""
    conf = Configuration(load_defaults=False)
    for value in (None, b"x", []):
        with pytest.raises(TypeError):
            conf["key"] = value
    with pytest.raises(TypeError):
        conf[1] = "x"
    with pytest.raises(ValueError, match="empty"):
        conf[" "] = "x"


def test_it_is_a_mutable_mapping():
    """get, in, del, update, copy and len do what they do for dictionaries."""
    conf = Configuration(load_defaults=False)
    conf.update({"a": 1}, b=True)
    assert (conf.get("a"), conf.get("nosuch"), conf.get("nosuch", "d")) == ("1", None, "d")
    copies = conf.copy(), copy.copy(conf), copy.deepcopy(conf)
    del conf["a"]
    assert "a" not in conf
    assert [dict(copied) for copied in copies] == [{"a": "1", "b": "true"}] * 3
    assert len(conf) == 1
    with pytest.raises(KeyError):
        conf["a"]


def test_typed_reading():
    """Booleans, numbers, sizes and times, and defaults where nothing is set."""
    conf = Configuration(load_defaults=False)
    conf.update({"b": " TRUE ", "i": "-12", "h": "0x1F", "f": "2.5", "s": "128m", "t": "2m"})
    assert conf.get_bool("b") is True
    assert (conf.get_int("i"), conf.get_int("h"), conf.get_float("f")) == (-12, 31, 2.5)
    assert conf.get_long_bytes("s") == 128 << 20
    assert conf.get_time("t") == 120.0
    assert (conf.get_bool("no", True), conf.get_int("no", 3), conf.get_time("no", 1.5)) == (
        True,
        3,
        1.5,
    )


@pytest.mark.parametrize(
    "getter", ["get_bool", "get_int", "get_float", "get_long_bytes", "get_time"]
)
def test_values_of_another_type_are_refused_by_key(getter: str):
    """A malformed value is a ValueError that names key and value; it is not the default."""
    conf = Configuration(load_defaults=False)
    conf["the.key"] = "many"
    with pytest.raises(ValueError, match=r"the\.key.*many"):
        getattr(conf, getter)("the.key")


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("512", 512), ("64k", 65536), ("1K", 1024), ("2g", 2 << 30), ("-1", -1), (7, 7),
     ("0x400", 1024), ("0x1E", 30), (" 1 m ", 1 << 20), ("7e", 7 << 60)],
)  # fmt: skip
def test_sizes(text: str | int, size: int):
    """Hadoop's binary prefixes, in either case."""
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "k", "1.5m", "128mb", "x", "1_0", "8e", "0x", True, None, 1.0]
)
def test_what_is_no_size(text: object):
    """Malformed text is ValueError, another type TypeError."""
    with pytest.raises((ValueError, TypeError)):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("250", 0.25), ("1s", 1.0), ("3 ms", 0.003), ("2h", 7200.0), ("1d", 86400.0)),
        *(("5us", 5e-6), ("10min", 600.0)),
    ],
)
def test_times(text: str, seconds: float):
    """Hadoop's units, and one of Spark's; a bare number counts in the given one."""
    assert parse_time(text) == pytest.approx(seconds)
    assert parse_time("2", "s") == 2.0


@pytest.mark.parametrize("text", ["", "s", "1.5s", "1_0s", "5w", "x", "1 2", "nan"])
def test_what_is_no_time(text: str):
    """Whole numbers, as Hadoop's are."""
    with pytest.raises(ValueError, match="not a time"):
        parse_time(text)


@pytest.mark.parametrize(
    "getter", ["get_bool", "get_int", "get_float", "get_long_bytes", "get_time"]
)
def test_what_is_blank_is_not_set(getter: str):
    """The default holds."""
    conf = Configuration(load_defaults=False)
    conf["the.key"] = " "
    assert getattr(conf, getter)("the.key", 1) == 1


def test_configurations_travel():
    """A pickled configuration says the same, final keys included."""
    conf = Configuration()
    conf["x"] = "${y}"
    copied = pickle.loads(pickle.dumps(conf))
    assert copied.get_raw("x") == "${y}"
    assert copied.identity() == conf.identity()


def test_what_is_taken_from_the_environment_tells_them_apart(monkeypatch: pytest.MonkeyPatch):
    """A value that cannot be read is no reason to fail: perhaps it is not needed."""
    conf = Configuration(load_defaults=False)
    conf.update({"x": "${y}", "y": "${env.HFLUSH_SIZE}", "endless": "${env.A-a}${endless2}"})
    conf["endless2"] = "${endless}"
    seen = []
    for size in ("1m", "2m", "1m"):
        monkeypatch.setenv("HFLUSH_SIZE", size)
        seen.append(conf.identity())
    assert seen[0] == seen[2] != seen[1]


def test_what_the_process_says_is_sent(monkeypatch: pytest.MonkeyPatch):
    """Other keys are not put in place: a bucket may have its own."""
    monkeypatch.setenv("HFLUSH_T", "here")
    owner = pwd.getpwuid(os.getuid()).pw_name
    conf = Configuration()
    conf.update({"a": "${env.HFLUSH_T}/${b}/${user.name}", "b": "${env.HFLUSH_NO:-x${user.name}}"})
    sent = dict(conf.items_to_send())
    assert (sent["a"], sent["b"]) == (f"here/${{b}}/{owner}", f"x{owner}")
    assert sent["hadoop.tmp.dir"] == conf.get_raw("hadoop.tmp.dir")


@pytest.mark.parametrize(
    "key",
    [
        "fs.s3a.secret.key", "fs.s3a.access.key", "fs.s3a.bucket.b.session.token",
        "fs.s3a.bucket.b.encryption.key", "fs.s3a.server-side-encryption.key",
        "fs.s3n.awsSecretAccessKey", "fs.s3n.awsAccessKeyId", "fs.s3a.proxy.password",
        "fs.azure.account.key.me.net", "fs.azure.account.oauth2.client.secret.x.y",
        "fs.adl.oauth2.credential", "dfs.adls.oauth2.access.token", "my.secret", "my.Password",
        "ssl.client.keystore.keypassword", "ssl.server.keystore.pass", "javax.jdo.option.passwd",
        "hadoop.zk.auth.key.passphrase",
    ],
)  # fmt: skip
def test_secrets_by_name(key: str):
    """What Hadoop redacts, in the keys of every store."""
    conf = Configuration(load_defaults=False)
    conf[key] = "hush"
    conf["dfs.replication"] = 2
    assert conf.is_secret(key)
    assert dict(conf.without_secrets()) == {"dfs.replication": "2"}
    with pytest.raises(ValueError, match=re.escape(key)) as refusal:
        conf.get_int(key)
    assert "hush" not in str(refusal.value)


@pytest.mark.parametrize(
    "key",
    [
        "fs.defaultFS", "fs.s3a.endpoint", "fs.s3a.encryption.algorithm", "dfs.replication",
        "fs.s3a.aws.credentials.provider", "hadoop.security.credential.provider.path",
        "hadoop.http.authentication.signature.secret.file", "dfs.block.access.token.enable",
        "dfs.encryption.key.provider.uri", "hflush.s3.pickle.secrets",
        "hadoop.security.sensitive-config-keys", "fs.viewfs.mounttable.t.link./data/secret",
    ],
)  # fmt: skip
def test_keys_that_are_no_secrets(key: str):
    """Files that hold secrets may be named, and what decides how data are stored has to travel."""
    conf = Configuration(load_defaults=False)
    conf["hadoop.security.sensitive-config-keys"] = "secret$\nfs.s3a.encryption.algorithm"
    assert not conf.is_secret(key)


@pytest.mark.parametrize(
    ("algorithms", "key", "secret"),
    [
        ({"fs.s3a.encryption.algorithm": "SSE-KMS"}, "fs.s3a.encryption.key", False),
        ({"fs.s3a.encryption.algorithm": " dsse-kms "}, "fs.s3a.encryption.key", False),
        ({"fs.s3a.encryption.algorithm": "SSE-C"}, "fs.s3a.encryption.key", True),
        ({"fs.s3a.encryption.algorithm": "AES256"}, "fs.s3a.encryption.key", True),
        (
            {"fs.s3a.server-side-encryption-algorithm": "SSE-KMS"},
            "fs.s3a.server-side-encryption.key",
            False,
        ),
        (
            {"fs.s3a.server-side-encryption-algorithm": "SSE-C"},
            "fs.s3a.server-side-encryption.key",
            True,
        ),
        # Of one bucket: its own algorithm before that of all.
        ({"fs.s3a.encryption.algorithm": "SSE-KMS"}, "fs.s3a.bucket.a.b.encryption.key", False),
        (
            {
                "fs.s3a.encryption.algorithm": "SSE-C",
                "fs.s3a.bucket.a.b.server-side-encryption-algorithm": "SSE-KMS",
            },
            "fs.s3a.bucket.a.b.encryption.key",
            False,
        ),
        (
            {
                "fs.s3a.encryption.algorithm": "SSE-KMS",
                "fs.s3a.bucket.b.encryption.algorithm": "SSE-C",
            },
            "fs.s3a.bucket.b.server-side-encryption.key",
            True,
        ),
        # Of all: a bucket without one of its own has it, too.
        ({"fs.s3a.bucket.b.encryption.algorithm": "SSE-KMS"}, "fs.s3a.encryption.key", False),
        (
            {
                "fs.s3a.encryption.algorithm": "SSE-KMS",
                "fs.s3a.bucket.b.encryption.algorithm": "SSE-C",
            },
            "fs.s3a.encryption.key",
            True,
        ),
        (
            {
                "fs.s3a.encryption.algorithm": "SSE-KMS",
                "fs.s3a.bucket.b.encryption.algorithm": "SSE-C",
                "fs.s3a.bucket.b.encryption.key": "own",
                "fs.s3a.bucket.c.encryption.algorithm": "AES256",
            },
            "fs.s3a.encryption.key",
            False,
        ),
        ({"fs.s3a.encryption.algorithm": "SSE-KMS"}, "fs.s3a.secret.key", True),
        ({"fs.s3a.encryption.algorithm": "SSE-KMS"}, "fs.s3a.my-encryption.key", True),
    ],
)
def test_the_name_of_a_key_is_no_secret(algorithms: dict[str, str], key: str, secret: bool):
    """Of KMS: who lost it would write under another. Hadoop's list of what to hide changes none."""
    conf = Configuration(load_defaults=False)
    conf["hadoop.security.sensitive-config-keys"] = "fs.s3a.*[Ss]erver-?side-encryption.?key"
    conf.update({**algorithms, key: "arn"})
    assert conf.is_secret(key) is secret
    assert (key in conf.without_secrets()) is not secret


def test_what_secrets_are_made_of():
    """Does not travel, at however many removes, by however many doors."""
    conf = Configuration(load_defaults=False)
    conf.update({"corp.name": "sk", "corp.sk": "${corp.${corp.of}}", "corp.of": "key"})
    conf.update({"corp.key": "HUSH", "fs.s3a.secret.key": "${corp.${corp.name}}"})
    conf.update({"fs.s3a.access.key": "${fs.s3a.access.key}", "corp.other": "seen"})
    conf["fs.s3a.client.s3.custom.headers"] = "x-key=${corp.made}"
    conf["corp.made"] = "${fs.s3a.secret.key}"
    assert dict(conf.without_secrets()) == {"corp.other": "seen"}
    assert b"HUSH" not in pickle.dumps(hflush.FileSystem.new_instance("hdfs://nn/", conf))
    options = {"conf": dict(conf.raw_items()) | {"fs.s3a.access.key": "a", "my.secret ": "HUSH"}}
    assert "HUSH" not in fsspec.filesystem("hflush+hdfs", host="nn", **options).to_json()


def test_more_secrets_by_configuration():
    """Hadoop's key names more; an expression that only Java understands is taken as it stands."""
    conf = Configuration(load_defaults=False)
    conf.update({"hadoop.security.sensitive-config-keys": "^our\\..*pin$, a*+b", "our.pin": "1234"})
    conf["a*+b"] = "5678"
    assert conf.is_secret("our.pin")
    assert conf.is_secret("a*+b")
    assert not conf.is_secret("your.pin")
    assert list(conf.without_secrets()) == ["hadoop.security.sensitive-config-keys"]


def test_a_dictionary_is_set_on_top_of_the_files(conf_dir: Path, tmp_path: Path):
    """conf= takes a plain dict; None means the files alone."""
    site(conf_dir / "core-site.xml", "a=file", "b=file")
    conf = Configuration.of({"a": 1})
    assert (conf["a"], conf["b"]) == ("1", "file")
    assert Configuration.of(conf) is conf
    assert Configuration.of(None)["a"] == "file"


def test_the_default_file_system_comes_from_the_files(conf_dir: Path, tmp_path: Path):
    """A path without a scheme belongs to fs.defaultFS."""
    site(conf_dir / "core-site.xml", "fs.defaultFS=file+crc:///")
    with hflush.create(tmp_path / "data") as out:
        out.write(b"x")
    assert os.path.exists(tmp_path / ".data.crc")


def test_an_unknown_encoding_is_named_with_its_file(tmp_path: Path):
    """An encoding that no codec has, or that the parser cannot take, is ValueError."""
    path = tmp_path / "odd-site.xml"
    for encoding in ("klingon", "shift_jis", "base64"):
        path.write_text(f'<?xml version="1.0" encoding="{encoding}"?><configuration/>')
        with pytest.raises(ValueError, match=r"odd-site\.xml"):
            Configuration(load_defaults=False).add_resource(path)


def test_clear_never_fails():
    """Keys are removed even if their values cannot be read."""
    conf = Configuration(load_defaults=False)
    conf["a"] = "${a}"
    conf.clear()
    assert len(conf) == 0


def test_conf_that_is_no_mapping():
    """A list of pairs, a number or a path is TypeError."""
    for wrong in ([("a", "b")], 7, "core-site.xml"):
        with pytest.raises(TypeError, match="conf must be a mapping"):
            Configuration.of(wrong)
