"""The page of `zaichik stats` as a browser shows it, if there is one here."""

import re
import shutil
import subprocess

import pytest
from made_up import MINUTE, row, statistics
from matplotlib.image import imread

from zaichik.spark import report
from zaichik.spark.windows import FOREVER_US

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
GUARD = 60  # seconds

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")


def browse(tmp_path, url, *options):
    """What the browser writes. It has a profile of its own, and no network."""
    alone = ["--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", "--host-rules=MAP * ~NOTFOUND"]
    logged = ["--enable-logging=stderr", "--log-level=0"]
    command = [BROWSER, "--headless", *alone, *logged, "--window-size=1000,1400", *options, url]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=GUARD)


@pytest.fixture
def page(tmp_path):
    """The address of a page."""
    file = tmp_path / "report.html"
    report.write_page(file, [statistics(row(MINUTE, 800), row(FOREVER_US, 700, 3, 1), topic="<orders>")])
    return file.as_uri()


def test_a_browser_understands_the_whole_page(tmp_path, page):
    done = browse(tmp_path, page, "--dump-dom")
    shown = re.sub(r"<style.*?</style>|<[^>]+>", " ", done.stdout, flags=re.DOTALL)
    for words in ("&lt;orders&gt;: a window that never closes", "Hot keys", "&lt;b&gt;&amp;\\xff", "70.0%"):
        assert words in shown
    assert done.stdout.count("<svg") == done.stdout.count("</svg>") == 1
    assert "CONSOLE" not in done.stderr  # where it would complain of what it could not load


def test_a_browser_draws_the_page(tmp_path, page):
    """The plots are where they should be, in their colours: not an empty frame."""
    browse(tmp_path, page, f"--screenshot={tmp_path / 'page.png'}")
    pixels = imread(tmp_path / "page.png")[:, :, :3]
    assert pixels.shape[1] == 1000
    blue = (abs(pixels - [0x1F / 255, 0x77 / 255, 0xB4 / 255]) < 0.02).all(axis=2)  # matplotlib's first colour
    assert blue.sum() > 5000
    assert (pixels.min(axis=2) < 0.5).sum() > 1000  # letters
