"""`python demo` runs the demo."""

import sys

from flights import main

sys.exit(main())
