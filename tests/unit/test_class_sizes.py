"""How many facts one class of the core keeps: complexity that leaves functions hides in fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CPP = ROOT / "src" / "cpp"

MOST = 20
# Classes that have more, each with how many: they may lose some, and no other may join them.
LARGER = {
    "HttpExchange": 22,  # libcurl's handle, and what it reports
    "Transfers": 22,
}

_CLASS = re.compile(
    r"\b(?:class|struct)\s+(?:HFLUSH_\w+(?:\([^)]*\))?\s+)?(?P<name>[\w:]+)(?:\s+final)?"
    r"(?:\s*:\s*[^:{;][^{;]*)?\s*\{"
)
_NOT_CODE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.S)
_ANNOTATION = re.compile(r"HFLUSH_\w+\([^()]*(?:\([^()]*\)[^()]*)*\)")
_FIELD = re.compile(r"(?:^|[\s>&*])([a-z]\w*_)\s*(?:=.*|\{\}|\[[^\]]*\])?$")


def test_classes_keep_few_fields() -> None:
    """None has more than 20 private fields but those named here, with exactly as many."""
    sizes = {name: count for path in sources() for name, count in classes(path.read_text())}
    assert sizes["OutputStream"] > 5  # they are found
    above = {name: count for name, count in sizes.items() if count > MOST}
    assert above == LARGER


def sources() -> list[Path]:
    return sorted(path for path in CPP.rglob("*") if path.suffix in {".h", ".cc"})


def classes(text: str) -> Iterator[tuple[str, int]]:
    """Each class that has private fields, by the trailing underscore, and how many."""
    code = _NOT_CODE.sub("", text)
    for opened in _CLASS.finditer(code):
        count = sum(1 for statement in statements(code, opened.end()) if _FIELD.search(statement))
        if count:
            yield opened["name"], count


def statements(code: str, begin: int) -> list[str]:
    """What stands in a class itself, without the bodies of its functions and classes."""
    depth, position, own = 1, begin, []
    while depth and position < len(code):
        character = code[position]
        depth += (character == "{") - (character == "}")
        if depth == 1 or (depth == 2 and character == "{"):
            own.append(character)
        position += 1
    plain = re.sub(r"\b(?:public|private|protected):", "", "".join(own))
    found = []
    for statement in _ANNOTATION.sub("", plain).split(";"):
        one = " ".join(statement.split())
        if not one.startswith(("return", "using", "static", "friend", "explicit")):
            found.append(one)
    return found
