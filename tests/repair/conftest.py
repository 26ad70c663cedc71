"""Where the tests of repairs find what those of the log share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "log"))  # `sim_disk` and `made`
