"""Every door with every ending on every store: what is then at the path, and what is reported.

With --doors=FILE the outcomes go to FILE, from which docs/reliability.md is made.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import warnings

import hflush
import pytest
from reliability import doors as sections
from reliability import report
from support import doors
from support.doors import CHUNKS, DOORS, EXCEPTIONS, OLD, WHOLE, Door, Target
from support.stores import FILES, Store
from support.waiting import DEADLINE_S

KINDS = [
    pytest.param("plain", marks=pytest.mark.stores(*FILES)),
    pytest.param("whole", marks=pytest.mark.rule("CLOSE-18", "CLOSE-24", "CLOSE-25", "CLOSE-26")),
]


pytestmark = pytest.mark.doors


def fits(door: Door, store: Store, kind: str) -> bool:
    """Whether a door leads to such files: a name alone makes no atomic ones but on S3."""
    return kind == "plain" or store.name == "s3" or not door.by_name


def target(store: Store, kind: str, name: str) -> Target:
    """A path at which something is already."""
    path = store.path(name)
    store.write(path, OLD)
    is_atomic = kind == "whole" and store.name != "s3"
    return Target(store.url(path), dict(store.conf), is_atomic)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.title)
def test_success_and_exceptions(store: Store, door: Door, kind: str, outcomes) -> None:
    """Success publishes all. An exception comes out as it is; what can be aborted stays."""
    if not fits(door, store, kind):
        outcomes(store, kind, door, dict.fromkeys(("success", *EXCEPTIONS), "-"))
        return
    place = target(store, kind, "file")
    path = store.path("file")
    door.use(place, None, AssertionError())
    assert door.decode(store.content(path)) == WHOLE
    seen = {"success": "published"}
    for title, at in EXCEPTIONS.items():
        store.write(path, OLD)
        error = KeyError(title)
        with pytest.raises(KeyError) as raised:
            door.use(place, at, error)
        assert raised.value is error
        content = store.content(path)
        if kind == "whole":
            assert content == OLD
            seen[title] = "kept"
        else:
            assert OLD not in content
            seen[title] = "part"
    outcomes(store, kind, door, seen)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.title)
def test_collected(store: Store, door: Door, kind: str, outcomes) -> None:
    """Nothing is published, and a warning says so; files that a __del__ closes are closed."""
    if door.hold is None or not fits(door, store, kind):
        outcomes(store, kind, door, {"collected": "-"})
        return
    place = target(store, kind, "file")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        held = door.open(place)
        del held
        gc.collect()
    said = [one for one in caught if one.category is hflush.NotPublishedWarning]
    if door.closes_itself and kind == "plain":
        assert said == []
        outcomes(store, kind, door, {"collected": "closed"})
        return
    assert len(said) == 1
    assert "file" in str(said[0].message)
    assert_left(store, kind, store.path("file"))
    outcomes(store, kind, door, {"collected": "told"})


@pytest.mark.parametrize("kind", KINDS)
def test_at_exit(store: Store, kind: str, outcomes) -> None:
    """All doors are left open in one process: it names each path on stderr, and ends as usual."""
    chosen = [
        (number, target(store, kind, f"file{number}").url)
        for number, door in enumerate(DOORS)
        if door.hold is not None and fits(door, store, kind)
    ]
    is_atomic = kind == "whole" and store.name != "s3"
    argument = json.dumps([chosen, dict(store.conf), is_atomic])
    run = subprocess.run(
        [sys.executable, doors.__file__, argument],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert run.returncode == 0, run.stderr
    for number, _ in chosen:
        told = f"/file{number}'" in run.stderr
        closed = DOORS[number].closes_itself and kind == "plain"
        assert told or closed, f"{DOORS[number].title}: {run.stderr}"
        if not closed:
            assert_left(store, kind, store.path(f"file{number}"))
        outcomes(store, kind, DOORS[number], {"at exit": "closed" if closed else "told"})
    assert "NotPublishedWarning: never closed, not published" in run.stderr
    for number, door in enumerate(DOORS):
        if number not in dict(chosen):
            outcomes(store, kind, door, {"at exit": "-"})


def test_the_page_shows_what_was_seen() -> None:
    """docs/reliability.md is made of docs/doors.json, which has every door and every ending."""
    run = json.loads(sections.SEEN.read_text(encoding="utf-8"))
    assert run["doors"] == [door.title for door in DOORS]
    assert run["endings"] == list(doors.ENDINGS)
    assert sections.section() in report.PAGE.read_text(encoding="utf-8")


def assert_left(store: Store, kind: str, path: str) -> None:
    """What an abandoned stream leaves: the old file, or less than was written."""
    if kind == "whole":
        assert store.content(path) == OLD
    else:
        assert len(store.visible(path)) <= len(CHUNKS[0]) + 200
