"""The documentation: snippets do what they say, links lead somewhere, the index has every page."""

from __future__ import annotations

import re
from pathlib import Path

import locks
import pytest
from support.snippets import QUESTIONS, ROOT, Snippet, excerpts, printed_by, snippets

DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("bench/*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
LOCAL = [snippet for snippet in snippets() if not snippet.needs_s3]


@pytest.mark.parametrize("snippet", LOCAL, ids=[snippet.page for snippet in LOCAL])
def test_a_snippet_prints_what_its_page_says(snippet: Snippet, tmp_path: Path) -> None:
    assert printed_by(snippet, tmp_path, {}) == snippet.printed


def test_excerpts_are_what_the_files_say() -> None:
    found = excerpts(DOCS / "new-store.md")
    assert len(found) > 5
    assert [
        (excerpt.file.name, excerpt.pieces) for excerpt in found if not excerpt.is_of_file
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    """A link within the repository names a file that is there, and a heading that it has."""
    broken = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_the_index_has_every_page() -> None:
    index = set(LINK.findall((DOCS / "README.md").read_text(encoding="utf-8")))
    pages = {
        page.relative_to(DOCS).as_posix() for page in [*DOCS.glob("*.md"), *QUESTIONS.glob("*.md")]
    }
    assert pages - {"README.md"} - index == set()


def test_the_table_of_locks_is_that_of_the_declarations() -> None:
    """Every lock is in docs/threading.md, and says its order or what it is never held across."""
    assert locks.locks()
    assert [lock for lock in locks.locks() if not lock.note] == []
    assert locks.PAGE.read_text(encoding="utf-8") == locks.page(), "./dev docs writes it"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made of them on the project's site."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
