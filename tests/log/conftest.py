"""Where the tests of the log find what they share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # `sim_disk` and `made`
