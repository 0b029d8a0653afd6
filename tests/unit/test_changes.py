"""What ./dev test full --changed leaves out: no part that reads what has changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from devkit import changes, parts, sanitizing, sources, testing
from devkit.parts import PytestPart
from support.marks import SERVERS

ROOT = Path(__file__).resolve().parents[2]
TESTS, DOCS = ROOT / "tests", ROOT / "docs"

# Of modules, in programs that tests start, too: "from … import …", "import …", a name in quotes.
IMPORT = re.compile(r"^\s*(?:from (\w[\w.]*) )?import (\([^)]*\)|.*)", re.M)
QUOTED = re.compile(r'"(\w+(?:\.\w+)+)"')
WHERE_MODULES_ARE = (TESTS, ROOT / "bench", ROOT / "tools", ROOT / "demo")
PAGES = {path.relative_to(DOCS).as_posix(): path for path in DOCS.rglob("*")}
NAME_OF_PAGE = re.compile(r'"(?:docs/)?([\w./-]+)"')
WHO_NAMES_PAGES = (TESTS, ROOT / "tools" / "reliability")  # the rest of tools/ writes them
SAID_BY_FILES = ("spark", "doors")  # support/marks.py


@pytest.fixture(autouse=True)
def _kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "GREEN", tmp_path / "green.json")


def test_green_is_of_content(monkeypatch: pytest.MonkeyPatch):
    """A part is green until something changes that it looks at."""
    tree = {"tests/faults/test_a.py": "one", "src/cpp/a.cc": "one"}
    monkeypatch.setattr(changes.sources, "files", lambda: tree.items())
    assert not changes.is_green("faults")
    changes.keep_green(changes.digests(["faults", "cpp", "unit"]))
    assert changes.is_green("faults")
    tree["tests/faults/test_a.py"] = "two"
    green = [name for name in ("faults", "cpp", "unit") if changes.is_green(name)]
    assert green == ["cpp"]
    began = changes.digests(["cpp"])
    tree["src/cpp/a.cc"] = "two"
    assert not changes.is_green("cpp")
    changes.keep_green(began)  # what changed while it ran
    assert not changes.is_green("cpp")


def test_without_git_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    changes.keep_green(changes.digests(["unit"]))
    assert not changes.is_green("unit")


@pytest.mark.parametrize("name", [*testing.OF_FULL, *testing.SLOW])
def test_each_part_looks_at_its_own_tests(name: str):
    places = parts.PYTEST[name].places if name in parts.PYTEST else ()
    assert all(changes.concerns(name, f"tests/{place}/test_x.py") for place in places)
    assert changes.concerns(name, "src/cpp/hflush/base/status.h")
    assert not places or changes.concerns(name, "src/python/hflush/output.py")


@pytest.mark.parametrize("part", parts.PYTEST.values(), ids=lambda part: part.name)
def test_a_part_looks_at_what_its_tests_read(part: PytestPart):
    """The modules that they import, those in turn, and the pages that these name."""
    assert [path for path in sorted(read_by(part)) if not changes.concerns(part.name, path)] == []


def test_what_tests_read_is_found():
    wanted = {"docs/spark.md", "tests/faults/commit_writer.py", "tests/faults/shim/worker.py"}
    assert wanted <= read_by(parts.PYTEST["spark"])


@pytest.mark.parametrize("name", ["cpp", "sanitizers"])
def test_cpp_tests_look_at_their_pages(name: str):
    texts = [path.read_text() for path in TESTS.rglob("cpp/**/*.cc")]
    pages = {page for text in texts for page in re.findall(r'\bpage_table\("(.*?)"', text)}
    assert pages
    assert [page for page in pages if not changes.concerns(name, f"docs/{page}")] == []


def test_sanitizers_look_at_the_tests_that_they_run():
    names = set(re.findall(r"\btest_\w+\.py\b", Path(sanitizing.__file__).read_text()))
    files = [path.relative_to(ROOT) for name in names for path in TESTS.rglob(name)]
    assert files
    assert [path for path in files if not changes.concerns("sanitizers", path.as_posix())] == []


def read_by(part: PytestPart) -> set[str]:
    """The modules and pages that the tests of a part read, as far as their text says."""
    left, modules = [TESTS / "conftest.py", *files_of(part)], set[Path]()
    while left:
        path = left.pop()
        if path not in modules:
            modules.add(path)
            left += imported_by(path)
    return {path.relative_to(ROOT).as_posix() for path in modules} | set(pages_named(modules))


def files_of(part: PytestPart) -> Iterator[Path]:
    for path in (path for place in part.places for path in (TESTS / place).rglob("*.py")):
        is_test = path.name.startswith("test_") and may_run(part, path.read_text())
        if is_test or path.name == "conftest.py":
            yield path


def may_run(part: PytestPart, text: str) -> bool:
    """Whether some tests of a file can be of a part, by the marks in it."""
    for mark in part.marks.split(" and ") if part.marks else ():
        name = mark.removeprefix("not ")
        says = re.search(rf"\bmark\.{name}\b", text) is not None
        if mark != name:
            fits = name not in SAID_BY_FILES or not says
        else:
            fits = says or (name in SERVERS and may_take(name, text))
        if not fits:
            return False
    return True


def may_take(server: str, text: str) -> bool:
    """Whether some tests of a file can take a server, as support/marks.py finds it."""
    own = re.sub('""".*?"""', "", text, flags=re.S)  # without programs
    named = rf'^\s*@?pytest.*mark\.stores\([^)]*"{server}"'
    takes = "|".join((r"\bstore: \w*Store\b", named, *SERVERS[server]))
    return re.search(takes, own, re.M) is not None


@cache
def imported_by(path: Path) -> list[Path]:
    text = path.read_text()
    names = QUOTED.findall(text)
    for package, listed in IMPORT.findall(text):
        inner = re.findall(r"\w[\w.]*", listed)
        names += [package, *(f"{package}.{name}" for name in inner)] if package else inner
    modules = [place.joinpath(*name.split(".")) for name in names for place in WHERE_MODULES_ARE]
    files = (file for at in modules for file in (at.with_suffix(".py"), at / "__init__.py"))
    return [file for file in files if file.is_file()]


def pages_named(modules: Iterable[Path]) -> Iterator[str]:
    for path in modules:
        if any(path.is_relative_to(place) for place in WHO_NAMES_PAGES):
            for page in PAGES.keys() & set(NAME_OF_PAGE.findall(path.read_text())):
                yield f"docs/{page}/" if PAGES[page].is_dir() else f"docs/{page}"
