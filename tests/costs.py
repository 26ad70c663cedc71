"""What processor time tests take, with that of the programs they start; pytest writes it down with
`--costs FILE`. As a program it reads such a file, and shows where the time is.

Wall-clock time says little where several processes share a few processors. A program counts for the
test in which it ended; one that a fixture keeps running, like Spark's, for the last of its users.
"""

import json
import resource
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

FILES, TESTS = 40, 60  # so many of each are shown


def used_s() -> float:
    """Returns the processor time of this process, and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class Meter:
    """A plugin of pytest that appends a line for each test; its processes share the file."""

    def __init__(self, file: str) -> None:
        self._file = Path(file)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        """Measure a test, its fixtures included."""
        before = used_s()
        result = yield
        line = json.dumps([round(used_s() - before, 4), item.nodeid])
        with self._file.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        return result


def main(file: str) -> None:
    """Print which files and which tests took most."""
    tests, files, cases = Counter(), Counter(), Counter()
    for line in Path(file).read_text(encoding="utf-8").splitlines():
        seconds, name = json.loads(line)
        path = name.partition("::")[0]
        tests[name] += seconds
        files[path] += seconds
        cases[path] += 1
    print(f"{sum(files.values()):8.1f} s  {sum(cases.values())} cases in {len(files)} files")
    for path, seconds in files.most_common(FILES):
        print(f"{seconds:8.1f} s  {path}, {cases[path]} cases")
    for name, seconds in tests.most_common(TESTS):
        print(f"{seconds:8.2f} s  {name}")


if __name__ == "__main__":
    main(sys.argv[1])
