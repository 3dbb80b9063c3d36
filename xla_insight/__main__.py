"""``python -m xla_insight`` is the command ``xla-insight``."""

import sys

from xla_insight.cli import main

sys.exit(main())
