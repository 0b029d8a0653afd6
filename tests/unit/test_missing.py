"""What is missing on a machine: the native part, or a library of the system."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import hflush
import pytest
from hflush._missing import advice
from support.waiting import DEADLINE_S

PACKAGE = Path(hflush.__file__).parent
IMPORT = [sys.executable, "-S", "-c", "import hflush"]


def failed(command: list[str], **environment: str) -> str:
    """The last line of what a command that fails says."""
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 1
    return done.stderr.strip().splitlines()[-1]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A directory with the package in it, but without its native part."""
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(PACKAGE, tmp_path / "hflush", ignore=ignored)
    return tmp_path


@pytest.mark.parametrize("name", ["hflush.whl", "env.zip"])
def test_imported_from_an_archive(tmp_path: Path, name: str):
    """As Spark's --py-files does: native code cannot be, and what to do instead."""
    archive = tmp_path / name
    with zipfile.ZipFile(archive, "w") as file:
        for path in PACKAGE.glob("*"):
            if path.is_file():
                file.write(path, f"hflush/{path.name}")
    said = failed(IMPORT, PYTHONPATH=str(archive))
    assert said.startswith("ImportError: hflush has native code")
    for word in (str(archive), "pip install", "--archives", "sc.addPyFile"):
        assert word in said
    assert "circular" not in said


def test_not_built(copied: Path):
    """Sources of which nothing was compiled; a clone has a command for it."""
    said = failed(IMPORT, PYTHONPATH=str(copied))
    for word in ("hflush._core", "not built", "pip install"):
        assert word in said
    (copied / "tools" / "devkit").mkdir(parents=True)
    python = copied / "src" / "python"
    shutil.copytree(copied / "hflush", python / "hflush")
    assert failed(IMPORT, PYTHONPATH=str(python)).endswith("not built: run ./dev build")


def test_built_for_another_python(copied: Path):
    """Both are named."""
    (copied / "hflush" / "_core.cpython-39-x86_64-linux-gnu.so").touch()
    said = failed(IMPORT, PYTHONPATH=str(copied))
    for word in ("another Python", "cpython-39", sys.implementation.cache_tag):
        assert word in said


def test_a_library_that_the_native_part_needs(copied: Path, tmp_path: Path):
    """The file that is missing is named, and its package."""
    core = hflush._core.__file__
    assert core is not None
    broken = copied / "hflush" / Path(core).name
    needed = b"libstdc++.so.6\0"
    code = Path(core).read_bytes()
    assert needed in code
    broken.write_bytes(code.replace(needed, b"libstdc++.so.9\0"))
    said = failed(IMPORT, PYTHONPATH=str(copied))
    assert "libstdc++.so.9: cannot open shared object file" in said
    assert "Install the system's package" in said


def test_what_cannot_be_loaded_at_all(copied: Path):
    """A file that is not a library."""
    core = hflush._core.__file__
    assert core is not None
    (copied / "hflush" / Path(core).name).write_bytes(b"")
    said = failed(IMPORT, PYTHONPATH=str(copied))
    for word in ("file too short", "force-reinstall"):
        assert word in said


@pytest.mark.parametrize(
    ("library", "package"), [("libcurl.so.4", "libcurl4"), ("libcrypto.so.3", "openssl")]
)
def test_s3_without_a_library(tmp_path: Path, library: str, package: str):
    """S3 says that it is S3 that needs it, and what to install; local files do without."""
    for name in (library, "libcrypto.so.4", "libcrypto.so.1.1"):
        (tmp_path / name).touch()  # found first, and no library
    create = (
        "import hflush, sys\n"
        "conf = {'fs.s3a.access.key': 'a', 'fs.s3a.secret.key': 'b'}\n"
        "hflush.create(sys.argv[1], conf=conf).close()"
    )
    command = [sys.executable, "-c", create]
    said = failed([*command, "s3://bucket/key"], LD_LIBRARY_PATH=str(tmp_path))
    assert said.startswith("io.UnsupportedOperation: ")
    for word in ("S3 needs", library, "apt install"):
        assert word in said
    assert package in said or "libcurl4" in said  # libcurl needs libcrypto itself
    subprocess.run(
        [*command, str(tmp_path / "local")],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}, check=True,
    )  # fmt: skip


def test_libcrypto_of_openssl_4(tmp_path: Path):
    """It has another name: here a copy of what the machine has bears it."""
    newer = tmp_path / "libcrypto.so.4"
    shutil.copy(loaded_libcrypto().pop(), newer)
    assert str(newer) in loaded_libcrypto(LD_LIBRARY_PATH=str(tmp_path))


def loaded_libcrypto(**environment: str) -> set[str]:
    """The files that a process has loaded which writes to S3."""
    program = (
        "import hflush\n"
        "keys = {'access.key': 'a', 'secret.key': 'b', 'create.performance': True}\n"
        "conf = {f'fs.s3a.{key}': value for key, value in keys.items()}\n"
        "hflush.create('s3://bucket/key', conf=conf).abort()\n"
        "print(open('/proc/self/maps').read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(re.findall(r"/\S*/libcrypto\.so\S*", done.stdout))


LIBRARIES = ("botocore", "fsspec", "numpy", "pandas", "pyarrow", "pyspark", "tqdm", "upath")
BLOCK = f"import sys\nlibraries = {LIBRARIES}\nsys.modules.update(dict.fromkeys(libraries))\n"


@pytest.mark.parametrize(
    ("use", "error", "said"),
    [
        ("import hflush; hflush.fsspec", "AttributeError", "hflush.fsspec needs 'fsspec'"),
        ("import hflush.fsspec", "ModuleNotFoundError", "hflush.fsspec needs 'fsspec'"),
        ("from hflush import fsspec", "ModuleNotFoundError", "hflush.fsspec needs 'fsspec'"),
        ("import hflush.upath", "ModuleNotFoundError", "hflush.upath needs 'fsspec'"),
        (
            "from hflush.crc import chunked_sums_array as sums; sums(b'x')",
            "ModuleNotFoundError",
            "hflush.crc.chunked_sums_array needs 'numpy'",
        ),
        (
            "from hflush.spark import ForeachWriter",
            "ModuleNotFoundError",
            "hflush.spark.ForeachWriter needs 'pyspark'",
        ),
    ],
)
def test_what_an_extra_brings(use: str, error: str, said: str):
    """What needs it names it, and how to install it."""
    library = said.split("'")[1]
    expected = f"{error}: {said}: pip install 'hflush[{library.replace('pyspark', 'spark')}]'"
    assert failed([sys.executable, "-c", BLOCK + use]) == expected


def test_without_any_extra():
    """The package can be looked at, and each module is there or names a library."""
    program = (
        "import hflush, hflush.spark, importlib, inspect, pkgutil, pydoc\n"
        "inspect.getmembers(hflush)\n"
        "pydoc.render_doc(hflush)\n"
        "assert not hasattr(hflush, 'fsspec') and not hasattr(hflush.spark, 'ForeachWriter')\n"
        "for module in pkgutil.walk_packages(hflush.__path__, 'hflush.'):\n"
        "    try:\n"
        "        module.name.endswith('__main__') or importlib.import_module(module.name)\n"
        "    except ModuleNotFoundError as missing:\n"
        "        if missing.name.partition('.')[0] not in libraries:\n"
        "            raise\n"
    )
    subprocess.run([sys.executable, "-c", BLOCK + program], check=True)


@pytest.mark.parametrize("isolated", [True, False])
def test_in_a_subinterpreter(isolated: bool):
    """An error, where Python before 3.12, and since then in those of mod_wsgi, refuses nothing."""
    if sys.version_info >= (3, 13):
        module, kind = "_interpreters", repr("isolated" if isolated else "legacy")
    else:
        module, kind = "_xxsubinterpreters", f"isolated={isolated}"
    imports = (
        "import os, sys\n"
        "try:\n"
        "    import hflush\n"
        "except ImportError as refused:\n"
        "    print(refused, file=sys.stderr, flush=True)\n"
        "    os._exit(1)\n"
    )
    program = f"import {module} as some; some.run_string(some.create({kind}), {imports!r})"
    assert failed([sys.executable, "-c", program]).endswith("use threads or processes")


def test_advice_for_a_subinterpreter():
    """Installing it again, which was advised, does not help."""
    said = "module hflush._core does not support loading in subinterpreters"  # CPython's
    assert advice(ImportError(said), hflush.__path__).endswith("use threads or processes")
