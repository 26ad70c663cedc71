"""Holds branch coverage against the project's limits; `make coverage` runs it after the tests.

One limit for the whole would let a well-tested codec pay for an untested command line.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from coverage import Coverage

ROOT = Path(__file__).parent.parent
PROTOCOL_AND_CORE = 98.0
THE_REST = 90.0
CORE = {"zaichik_protocol", "core"}  # folders


def is_core(name: str) -> bool:
    """Whether a file belongs to the protocol or the synchronous core."""
    return not CORE.isdisjoint(Path(name).parts)


def main() -> int:
    """Exit status 1 if a group is below its limit."""
    coverage = Coverage(config_file=str(ROOT / "pyproject.toml"))
    coverage.load()
    with TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        coverage.json_report(outfile=str(report))
        files = json.loads(report.read_text(encoding="utf-8"))["files"]
    status = 0
    for title, limit, core in (
        ("protocol and core", PROTOCOL_AND_CORE, True),
        ("the rest", THE_REST, False),
    ):
        summaries = [data["summary"] for name, data in files.items() if is_core(name) == core]
        covered = sum(item["covered_lines"] + item["covered_branches"] for item in summaries)
        total = sum(item["num_statements"] + item["num_branches"] for item in summaries)
        percent = 100 * covered / total if total else 0.0
        verdict = "ok" if percent >= limit else "TOO LOW"
        print(f"branch coverage of {title}: {percent:.1f} % (at least {limit:g} %): {verdict}")
        if percent < limit:
            status = 1
            for name, data in sorted(files.items()):
                if is_core(name) == core and data["summary"]["percent_covered"] < limit:
                    print(
                        f"    {name}: {data['summary']['percent_covered']:.1f} %, lines "
                        f"{data['missing_lines']}"
                    )
    return status


if __name__ == "__main__":
    sys.exit(main())
