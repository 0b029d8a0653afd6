"""``python -m hflush`` is the command ``hflush``."""

import sys

from .cli import main

sys.exit(main())
