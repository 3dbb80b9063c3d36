"""``python -m xla_insight.cli``: the command line where its script is not on the path."""

from __future__ import annotations

import sys

from xla_insight.cli import main

sys.exit(main())
