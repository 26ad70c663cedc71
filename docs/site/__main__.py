"""python -m docs.site [FOLDER] [--without-stage]: makes the site, in the folder `site`."""

import argparse
import shutil
import sys
from pathlib import Path

from docs.site import book, links, stage
from docs.site.pages import ROOT

BUILD = ROOT / "build" / "site"


def main() -> int:
    """Make the site; returns the process's exit code."""
    parser = argparse.ArgumentParser(prog="python -m docs.site")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "site")
    parser.add_argument("--without-stage", action="store_true", help="the pages alone")
    arguments = parser.parse_args()

    site: Path = arguments.folder.resolve()
    built_stage = None
    if not arguments.without_stage:
        try:
            built_stage = stage.build(BUILD)
        except stage.NoStage as error:
            print(f"The book is built without the stage: {error}")
    try:
        book.build(BUILD / "book", has_stage=built_stage is not None)
    except book.Misread as error:
        print(error)
        return 1
    shutil.rmtree(site, ignore_errors=True)
    # A page of errors is at the root of a host, where the site may not be.
    shutil.copytree(BUILD / "book" / "html", site, ignore=shutil.ignore_patterns("404.html"))
    if built_stage is not None:
        shutil.copytree(built_stage, site / "stage")
    problems = links.problems(site)
    for problem in problems:
        print(problem)
    if problems:
        return 1
    print(f"{site} is complete. To read it: python -m http.server --directory {site}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
