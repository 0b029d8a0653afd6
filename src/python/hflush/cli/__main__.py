"""``python -m hflush.cli``: the same as the command ``hflush``."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
