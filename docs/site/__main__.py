"""python -m docs.site [FOLDER] [--without-stage]: makes the site, in the folder `site`."""

import argparse
import shutil
import sys
from pathlib import Path

from docs.site import book, links, sources, stage
from docs.site.pages import ROOT

BUILD = ROOT / "build" / "site"
SITE = ROOT / "site"


def main() -> int:
    """Make the site; returns the process's exit code."""
    parser = argparse.ArgumentParser(prog="python -m docs.site")
    parser.add_argument("folder", nargs="?", type=Path, default=SITE)
    parser.add_argument("--without-stage", action="store_true", help="the pages alone")
    arguments = parser.parse_args()

    site: Path = arguments.folder.resolve()
    if not may_be_replaced(site):
        parser.error(f"{site} has files in it, and is not a site that was made before")
    pyodide = None
    if not arguments.without_stage:
        try:
            pyodide = stage.obtain(BUILD)
        except stage.NoPyodide as error:
            print(f"The site is made without the stage: {error}")
    faults = make(site, BUILD, pyodide)
    for fault in faults:
        print(fault)
    if faults:
        return 1
    print(f"{site} is complete. To read it: python -m http.server --directory {site}")
    return 0


def may_be_replaced(folder: Path) -> bool:
    """Returns whether a folder is a site, or empty: a wrong name must cost nobody their files."""
    if folder == SITE or not folder.exists():
        return True
    return (folder / sources.STYLES).is_file() or not any(folder.iterdir())


def make(site: Path, scratch: Path, pyodide: Path | None) -> list[str]:
    """Make the site.

    Args:
        site: its folder; what is there is deleted.
        scratch: a folder for what is needed meanwhile.
        pyodide: Python for browsers, as `stage.obtain` returns it; None makes a site without the
            stage.

    Returns:
        What is wrong with the site, a sentence each; nothing if it is as it should be.
    """
    faults = book.build(scratch / "book", has_stage=pyodide is not None)
    shutil.rmtree(site, ignore_errors=True)
    # A page of errors is at the root of a host, where the site may not be.
    shutil.copytree(scratch / "book" / "html", site, ignore=shutil.ignore_patterns("404.html"))
    if pyodide is not None:
        stage.build(pyodide, scratch, site / "stage")
    return faults + links.faults(site)


if __name__ == "__main__":
    sys.exit(main())
