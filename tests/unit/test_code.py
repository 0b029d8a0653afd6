"""The code itself: which way includes point, where Python may be named, what an import costs."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import hflush
import pytest

ROOT = Path(__file__).resolve().parents[2]
CPP = ROOT / "src" / "cpp"
PYTHON = ROOT / "src" / "python" / "hflush"

# Each folder, and what of the core it may include besides itself: folders, or single headers.
# `write` and `read` of a store do not know each other; a store's client knows them all.
BELOW = {"base", "env", "crc", "crypto", "stream"}
HDFS, S3 = {"hdfs/settings"}, {"s3/memory_budget", "s3/packets"}
MAY_INCLUDE = {
    "base": set(),
    "env": {"base"},
    "crc": {"base"},
    "crypto": {"base", "env"},
    "stream": {"base", "env", "crc"},
    "local": BELOW,
    "hdfs/wire": BELOW,
    "hdfs/sasl": BELOW | {"hdfs/wire"},
    "hdfs/rpc": BELOW | HDFS | {"hdfs/wire", "hdfs/sasl"},
    "hdfs/write": BELOW | HDFS | {"hdfs/wire", "hdfs/rpc"},
    "hdfs/read": BELOW | HDFS | {"hdfs/wire", "hdfs/rpc"},
    "hdfs": BELOW | {"hdfs/wire", "hdfs/sasl", "hdfs/rpc", "hdfs/write", "hdfs/read"},
    "s3": BELOW,
    "s3/call": BELOW | S3,
    "s3/upload": BELOW | S3 | {"s3/call"},
    "s3/read": BELOW | S3 | {"s3/call"},
    "bindings": BELOW
    | {"local", "hdfs", "hdfs/wire", "hdfs/sasl", "hdfs/rpc", "hdfs/write", "hdfs/read"}
    | {"s3", "s3/call", "s3/upload", "s3/read"},
}

# The modules of the package by part, and what each part may import besides itself: also for types,
# also within functions. Stores do not know each other, and what is above knows no store.
PYTHON_PARTS = {
    "values": {
        "_core", "_missing", "_on_demand", "_version", "capabilities", "claims", "configuration",
        "crc", "credentials", "deprecations", "errors", "general_keys", "globbing", "handles",
        "handling", "keys", "leaving", "options", "paths", "permissions", "pinning", "sidecars",
        "spelling", "statistics", "status", "tokens", "warn", "workers",
    },
    "streams": {"input", "output", "output_kinds", "streams", "write_only"},
    "interfaces": {
        "atomic", "builders", "bulk_delete", "files", "filesystem", "keywords", "listing",
        "multipart", "namespace", "optional_operations", "registry", "transfer", "trash",
    },
    "above": {"aio", "logging", "opening", "upath"},
    "cli": {"__main__"},
    "list of stores": {"", "fsspec"},
}  # fmt: skip
PYTHON_BELOW = {"values", "streams", "interfaces"}
PYTHON_MAY_IMPORT = {
    "values": set(),
    "streams": {"values"},
    "interfaces": {"values", "streams"},
    "local": PYTHON_BELOW,
    "hdfs": PYTHON_BELOW,
    "s3": PYTHON_BELOW,
    "viewfs": PYTHON_BELOW,
    "above": PYTHON_BELOW,
    "checkpoint": PYTHON_BELOW,
    "cli": PYTHON_BELOW | {"checkpoint", "spark"},
    "fsspec": PYTHON_BELOW | {"above"},
    "hdfs for fsspec": PYTHON_BELOW | {"above", "fsspec", "hdfs"},
    "s3 for fsspec": PYTHON_BELOW | {"above", "fsspec", "s3"},
    "viewfs for fsspec": PYTHON_BELOW | {"above", "fsspec", "viewfs"},
    "spark": PYTHON_BELOW | {"above", "checkpoint"},
    "list of stores": {
        "values",
        "streams",
        "interfaces",
        "above",
        "cli",
        "checkpoint",
        "spark",
        "fsspec",
        "local",
        "hdfs",
        "s3",
        "viewfs",
    }
    | {"hdfs for fsspec", "s3 for fsspec", "viewfs for fsspec"},
}
HEAVY = {
    "numpy", "pandas", "pyarrow", "pyspark", "fsspec", "dataclasses", "inspect", "asyncio",
    "logging", "concurrent.futures", "xml", "defusedxml", "multiprocessing", "email",
}  # fmt: skip
LONGEST = 70
TYPE_OR_SPACE = re.compile(r"(class|struct|enum|union|namespace)\b")
TIMEOUT = re.compile(r"\btimeout[=(]([1-9]\d*)( \* \w+)?")  # of a mark, a process, a wait
MARKERS = re.compile(
    r"\b(FIXME|XXX|HACK)\b|\bTODO\b(?!\(\w+\): )|^(<{7}|>{7}|={7})( |$)|breakpoint\(\)", re.M
)


def cpp_files(*suffixes: str) -> list[Path]:
    return sorted(path for path in CPP.rglob("*") if path.suffix in suffixes)


def folder(path: Path) -> str:
    """The part of the core that a source file belongs to: base, hdfs, hdfs/write, bindings, …"""
    return path.parent.relative_to(CPP).as_posix().removeprefix("hflush/")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("part", MAY_INCLUDE)
def test_includes_point_one_way(part: str) -> None:
    """base ← env, crc ← stream ← local, hdfs, s3 ← bindings, and no part outside that list."""
    allowed = MAY_INCLUDE[part] | {part}
    included = {
        (name(path), target)
        for path in cpp_files(".h", ".cc", ".inc")
        if folder(path) == part
        for target in re.findall(r'#include "hflush/([\w/]+)\.', path.read_text())
    }
    assert {
        (path, target)
        for path, target in included
        if target not in allowed and target.rpartition("/")[0] not in allowed
    } == set()


def test_every_source_is_in_a_known_part() -> None:
    """A new part of the core has to say what it may include."""
    assert {folder(path) for path in cpp_files(".h", ".cc", ".inc")} == set(MAY_INCLUDE)


def python_modules() -> dict[str, Path]:
    """Every module of the package by its name within it; the package itself is the empty name."""
    found = {}
    for path in PYTHON.rglob("*.py*"):
        if path.suffix in {".py", ".pyi"}:
            parts = path.relative_to(PYTHON).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported_by(name: str, path: Path, modules: Collection[str]) -> set[str]:
    """The modules of the package that one imports, by a statement anywhere in it."""
    parts = name.split(".") if name else []
    package = parts if path.stem == "__init__" else parts[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            above = package[: len(package) - node.level + 1]
            target = ".".join([*above, *(node.module or "").split(".")]).strip(".")
            inner = {f"{target}.{alias.name}".lstrip(".") for alias in node.names}
            found |= inner & set(modules) or {target}
    return found - {name}


def python_part(module: str) -> str:
    """The part of the package that a module belongs to: one of a list, or the folder."""
    for part, members in PYTHON_PARTS.items():
        if module in members:
            return part
    folder, _, rest = module.partition(".")
    return f"{folder} for fsspec" if rest == "fsspec" else folder


@pytest.mark.parametrize("part", PYTHON_MAY_IMPORT)
def test_python_imports_point_one_way(part: str) -> None:
    """values ← streams, interfaces ← local, hdfs, s3 and what is above, which knows no store."""
    modules = python_modules()
    allowed = PYTHON_MAY_IMPORT[part] | {part}
    members = [name for name in modules if python_part(name) == part]
    assert members
    assert {
        (name, target)
        for name in members
        for target in imported_by(name, modules[name], modules)
        if python_part(target) not in allowed
    } == set()


def test_every_module_is_in_a_known_part() -> None:
    """A new module has to say what it may import."""
    assert {python_part(name) for name in python_modules()} == set(PYTHON_MAY_IMPORT)


def test_python_imports_have_no_rings() -> None:
    """Not when modules are loaded, not by types, not by imports in functions."""
    modules = python_modules()
    graph = {name: imported_by(name, path, modules) for name, path in modules.items()}
    order = list(TopologicalSorter(graph).static_order())  # which raises CycleError
    assert set(order) == set(modules)


def test_no_python_outside_the_bindings() -> None:
    """The core can be used, tested and sanitized without an interpreter."""
    python = re.compile(r"Python\.h|pybind11|\bPy[A-Z]\w+\(|\bPyObject\b")
    core = [path for path in cpp_files(".h", ".cc", ".inc") if folder(path) != "bindings"]
    assert core
    assert [name(path) for path in core if python.search(path.read_text())] == []


def test_headers_are_guarded_and_introduced() -> None:
    """A header opens with what it is, and can be included twice."""
    headers = cpp_files(".h")
    assert headers
    assert [name(path) for path in headers if "\n#pragma once\n" not in path.read_text()] == []
    assert [name(path) for path in headers if not path.read_text().startswith("// ")] == []


def test_an_import_stays_small() -> None:
    """`import hflush` brings in none of the heavy modules, be they of the standard library."""
    lines = ["import sys", "before = set(sys.modules)", "import hflush"]
    program = "\n".join([*lines, "print(*(set(sys.modules) - before))"])
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    loaded = set(run.stdout.split())
    assert "hflush._core" in loaded
    assert loaded & HEAVY == set()


def test_every_class_is_found_where_it_says_that_it_is() -> None:
    """By `__module__` and `__qualname__`: so pickle and readers look for it."""
    for library in ("pyspark", "upath"):
        pytest.importorskip(library)
    modules = [
        importlib.import_module(f"hflush.{module}" if module else "hflush")
        for module in python_modules()
        if not module.endswith("__main__")
    ]
    classes = {
        found
        for module in modules
        for found in vars(module).values()
        if isinstance(found, type) and found.__module__.partition(".")[0] == "hflush"
    }
    assert {hflush.FileSystem, hflush.StreamClosedError} <= classes
    assert [found for found in classes if place_of(found) is not found] == []


def place_of(found: type) -> object:
    place: object = sys.modules[found.__module__]
    for part in found.__qualname__.split("."):
        place = getattr(place, part, None)
    return place


def test_no_left_over_markers() -> None:
    """What is not done is an issue, not a comment; a TODO names its owner and its condition."""
    places = (CPP, PYTHON, ROOT / "tests", ROOT / "bench", ROOT / "demo", ROOT / "tools")
    found = [
        f"{name(path)}: {match[0]}"
        for place in places
        for path in sorted(place.rglob("*"))
        if path.suffix in {".h", ".cc", ".c", ".inc", ".py", ".pyi", ".txt"}
        and path != Path(__file__)
        for match in [MARKERS.search(path.read_text())]
        if match
    ]
    assert found == []


def test_timeouts_of_tests_are_long_and_scaled() -> None:
    """A minute at least, times HFLUSH_TEST_PATIENCE: tests/support/waiting.py."""
    found = {
        (name(path), match[0]): (int(match[1]), match[2])
        for path in (ROOT / "tests").rglob("*.py")
        for match in TIMEOUT.finditer(path.read_text())
    }
    assert found
    in_one_place = {" * DEADLINE_S", " * TIMEOUT_S"}  # they are multiples of it
    assert [
        where
        for where, (seconds, unit) in found.items()
        if unit not in in_one_place and not (unit == " * PATIENCE" and seconds >= 60)
    ] == []


def test_no_definition_hides_another() -> None:
    """Each function and class of a body has a name of its own.

    Ruff's F811 passes over names that begin with an underscore, and mypy does not read the tests.
    """
    folders = (PYTHON, *(ROOT / folder for folder in ("tests", "bench", "demo", "tools")))
    files = [path for folder in folders for path in folder.rglob("*.py*") if path.suffix != ".pyc"]
    assert files
    assert [hidden for path in files for hidden in hidden_definitions(path)] == []


def hidden_definitions(path: Path) -> Iterator[str]:
    """The functions and classes that are defined twice in one body."""
    of_one_name = ("overload", ".setter")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names = [
                inner.name
                for inner in node.body
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                and not any(ast.unparse(it).endswith(of_one_name) for it in inner.decorator_list)
            ]
            hidden = [defined for defined, times in Counter(names).items() if times > 1]
            yield from (f"{name(path)}: {defined}" for defined in hidden)


def test_functions_stay_short() -> None:
    """Past 70 lines two decisions live in one place, or something flat that can say so here."""
    functions = [*python_functions(), *cpp_functions()]
    assert functions
    assert [where for where, lines in functions if lines > LONGEST] == []


def python_functions() -> Iterator[tuple[str, int]]:
    """Every function and its length, docstring left out."""
    for path in sorted([*PYTHON.rglob("*.py"), *(ROOT / "tools").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                has_docstring = ast.get_docstring(node) is not None
                first = node.body[1] if has_docstring and len(node.body) > 1 else node.body[0]
                yield f"{name(path)}:{node.name}", (node.end_lineno or 0) - first.lineno + 1


def cpp_functions() -> Iterator[tuple[str, int]]:
    """Every function that starts at the left margin, and its length."""
    for path in cpp_files(".h", ".cc", ".inc"):
        lines = path.read_text().splitlines()
        opened: int | None = None
        for number, line in enumerate(lines):
            if re.match(r"[\w:]", line):
                opened = None if TYPE_OR_SPACE.match(line) else number
            elif line.startswith("}") and opened is not None:
                yield f"{name(path)}:{lines[opened]}", number - opened + 1
                opened = None


def test_types_are_published() -> None:
    """Users' type checkers read ours."""
    assert (PYTHON / "py.typed").exists()
    assert hflush.__file__ is not None
    assert (Path(hflush.__file__).parent / "_core.pyi").exists()
