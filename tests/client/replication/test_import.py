"""A program that does not wait for replication does not pay for it."""

import subprocess
import sys

PROGRAM = """
import sys, zaichik, zaichik.blocking
assert not [name for name in sys.modules if name.startswith("zaichik.client.replication")]
"""


def test_nothing_of_it_is_imported_before_it_is_asked_for():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
