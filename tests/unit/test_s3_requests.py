"""How many requests an operation takes: what docs/s3-client.md says, and not one more."""

from __future__ import annotations

import pytest
from support.s3_requests import BEGIN, END, PAGE, ROWS, Row, counted

pytestmark = pytest.mark.stores("s3")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_as_many_as_the_page_says(row: Row) -> None:
    """./dev docs writes the page; a request more is to be meant."""
    page = PAGE.read_text(encoding="utf-8")
    lines = page.partition(BEGIN)[2].partition(END)[0].splitlines()
    (said,) = (line for line in lines if line.startswith(f"| {row.name} |"))
    requests = counted(row)
    named = ", ".join(f"{n} {name}" for name, n in sorted(requests.items()))
    assert said == f"| {row.name} | {requests.total()} | {named} |"


def test_every_row_of_the_page_is_counted() -> None:
    page = PAGE.read_text(encoding="utf-8")
    lines = page.partition(BEGIN)[2].partition(END)[0].splitlines()[2:]
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines] == [r.name for r in ROWS]
