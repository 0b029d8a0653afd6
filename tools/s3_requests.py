#!/usr/bin/env python3
"""The table of requests in docs/s3-client.md, from a run on the scripted server of the tests.

tools/s3_requests.py            write it
tools/s3_requests.py --check    say whether it is up to date
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.s3_requests import PAGE, rendered


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    new = rendered(page)
    if "--check" in sys.argv[1:]:
        if new != page:
            print(f"{PAGE.name}: not what a run yields: tools/s3_requests.py writes it")
        return int(new != page)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
