"""The page of `zaichik stats` as a browser shows it, if there is one here."""

import re
import shutil
import subprocess

import pytest
from made_up import MINUTE, row, statistics
from matplotlib.image import imread

from zaichik.apps.statistics import report
from zaichik.apps.statistics.chain import FOREVER_US

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))),
    None,
)
GUARD = 120  # seconds after which what hangs has failed
LIGHT, DARK = (f"--blink-settings=preferredColorScheme={number}" for number in (1, 0))

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium is installed (Debian: apt install chromium)"
)


def browse(tmp_path, url, *options):
    """What the browser writes. It has a profile of its own, and no network."""
    alone = [f"--user-data-dir={tmp_path / 'profile'}", "--host-rules=MAP * ~NOTFOUND"]
    # As root, and with little shared memory.
    in_containers = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    logged = ["--enable-logging=stderr", "--log-level=0"]
    command = [BROWSER, "--headless", *alone, *in_containers, *logged, *options, url]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=GUARD)


@pytest.fixture
def file(tmp_path):
    """A page."""
    file = tmp_path / "report.html"
    report.write_page(
        file, [statistics(row(MINUTE, 800), row(FOREVER_US, 700, 3, 1), topic="<orders>")]
    )
    return file


def test_a_browser_understands_the_whole_page(tmp_path, file):
    done = browse(tmp_path, file.as_uri(), "--dump-dom")
    shown = re.sub(r"<style.*?</style>|<[^>]+>", " ", done.stdout, flags=re.DOTALL)
    for words in (
        "&lt;orders&gt;",
        "A window that never closes",
        "Hot keys",
        "0x3c623e26ff",
        "70.0%",
    ):
        assert words in shown
    assert done.stdout.count("<svg") == done.stdout.count("</svg>") == 1
    assert "CONSOLE" not in done.stderr  # where it would complain of what it could not load


@pytest.mark.parametrize(
    ("scheme", "background"), [(LIGHT, 1.0), (DARK, 0.07)], ids=["light", "dark"]
)
def test_a_browser_draws_the_page(tmp_path, file, scheme, background):
    """The plots are there in their colours, and letters stand out: neither an empty frame nor dark
    on dark.
    """
    picture = tmp_path / "page.png"
    browse(tmp_path, file.as_uri(), scheme, "--window-size=1000,1400", f"--screenshot={picture}")
    pixels = imread(picture)[:, :, :3]
    assert pixels.shape[1] == 1000
    assert pixels[0, 0] == pytest.approx([background] * 3, abs=0.03)
    red, blue = pixels[:, :, 0], pixels[:, :, 2]
    assert (blue - red > 0.3).sum() > 5000  # bars and lines
    assert (abs(pixels.mean(axis=2) - background) > 0.6).sum() > 1000  # letters


def test_on_a_narrow_screen_tables_scroll_and_the_page_does_not(tmp_path, file):
    widths = (
        "document.documentElement.scrollWidth, innerWidth, "
        "document.querySelector('table').offsetWidth"
    )
    file.write_text(f"{file.read_text()}<script>document.title = [{widths}]</script>")
    dom = browse(tmp_path, file.as_uri(), "--window-size=500,800", "--dump-dom").stdout
    page, screen, table = map(int, re.search(r"<title>(\d+),(\d+),(\d+)</title>", dom).groups())
    assert page <= screen < table
