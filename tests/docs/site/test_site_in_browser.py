"""The whole site, as a reader has it: in a browser, from a host of plain files.

It is in a folder of its host, and not at its root.
"""

import functools
import re
import shutil
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from docs.site import __main__ as site
from docs.site import stage
from zaichik.apps.web.stage.scenes import SCENES

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("zensical", reason="zensical is not installed (make .venv/.installed-site)")
expect = playwright.expect
STARTS = 120_000  # milliseconds after which a stage that has not begun never will
expect.set_options(timeout=60_000)  # after which what does not come has failed

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))),
    None,
)
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
FREE_PLAY = 15  # steps, of 2,000
CHAPTER = "tutorial/07-one-row-many-cursors/index.html"
PAGES = (
    "index.html",
    "tutorial/index.html",
    CHAPTER,
    "docs/understand/semantics.html",
    "protocol/index.html",
    "source/zaichik/core/ring.py.html",
    "stage/index.html",
)

IS_WIDER = "document.documentElement.scrollWidth > innerWidth"
THEME = "document.documentElement.dataset.theme"
BRIGHTNESS = """(() => {
    const [red, green, blue] = getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g);
    return (Number(red) + Number(green) + Number(blue)) / 765;
})()"""

# One browser and one site for all of them, in one process of the suite.
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        BROWSER is None, reason="no Chromium is installed (Debian: apt install chromium)"
    ),
    pytest.mark.xdist_group("browser"),
]


class Host(SimpleHTTPRequestHandler):
    """Serves files, and says nothing. Like many hosts, it doesn't know `.mjs`."""

    def log_message(self, *_):
        pass

    def guess_type(self, path):
        return "application/octet-stream" if path.endswith(".mjs") else super().guess_type(path)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The site's address."""
    try:
        pyodide = stage.obtain(site.BUILD)
    except stage.NoPyodide as error:
        pytest.skip(f"the stage cannot be built: {error}")
    host = tmp_path_factory.mktemp("host")
    assert site.make(host / "book", tmp_path_factory.mktemp("scratch"), pyodide) == []
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Host, directory=host))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/book"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    # As root, and with little shared memory.
    in_containers = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=in_containers)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser, address):
    """Opens a page of the site in a window of its own.

    What it complains of on its console, or loads from another host, fails the test.
    """
    problems, contexts = [], []

    def open_page(path, **options):
        context = browser.new_context(**{"viewport": DESKTOP, "color_scheme": "light"} | options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "console", lambda said: problems.append(said.text) if said.type == "error" else None
        )
        page.on(
            "request",
            lambda asked: (
                problems.append(asked.url)
                if not asked.url.startswith((address, "data:", "blob:"))
                else None
            ),
        )
        page.goto(f"{address}/{path}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


def started(stage):
    """Waits for the first picture; returns the page, or the frame, that it is in."""
    expect(stage.get_by_role("button", name="Step")).to_be_visible(timeout=STARTS)
    return stage


def test_every_scene_is_played_to_its_end(opened):
    page = opened("stage/index.html")
    expect(page.locator(".scenes a")).to_have_count(len(SCENES), timeout=STARTS)
    for slug, scene in SCENES.items():
        page.locator(f".scenes a[href='#{slug}']").click()
        expect(page.locator("h1")).to_have_text(scene.words["title"])
        step = page.get_by_role("button", name="Step")
        count = 0
        while count < FREE_PLAY or slug != "play":
            count += 1
            if step.is_disabled():
                break
            step.click()
            expect(page.locator(".controls .hint")).to_contain_text(f"step {count},")
        if slug != "play":
            expect(page.locator(".lesson")).to_have_text(scene.words["sentence"])
        page.get_by_text("All scenes").click()


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_has_the_colours_of_the_reader(opened, path, scheme):
    page = opened(path, color_scheme=scheme)
    brightness = page.evaluate(BRIGHTNESS)
    assert brightness > 0.9 if scheme == "light" else brightness < 0.15


def test_a_source_has_the_colours_that_were_chosen_on_other_pages(opened, address):
    page = opened("index.html", color_scheme="dark")

    def choose_the_next():
        page.goto(f"{address}/index.html")
        page.locator("[data-md-component=palette] label:visible").click()
        page.goto(f"{address}/source/zaichik/core/ring.py.html")

    choose_the_next()
    assert page.evaluate(THEME) == "light"
    choose_the_next()
    assert page.evaluate(THEME) == "dark"
    choose_the_next()  # the system's, which may be others by the time of reading
    page.emulate_media(color_scheme="light")
    page.reload()
    assert page.evaluate(THEME) == "light"


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_not_wider_than_a_phone(opened, path):
    page = opened(path, viewport=PHONE)
    assert not page.evaluate(IS_WIDER)


def test_a_scene_is_not_wider_than_a_phone(opened):
    page = started(opened("stage/index.html#lag", viewport=PHONE))
    assert not page.evaluate(IS_WIDER)


def test_a_picture_of_a_chapter_moves_by_the_keyboard_alone(opened):
    page = opened(CHAPTER)
    button = page.locator("button.live")
    button.focus()
    page.keyboard.press("Enter")
    frame = page.frame_locator("iframe.stage")
    started(frame)
    # Into the frame, past its links and knobs.
    while page.evaluate("document.activeElement.tagName") != "IFRAME":
        page.keyboard.press("Shift+Tab")
    page.keyboard.press(".")
    expect(frame.locator(".controls .hint")).to_contain_text("step 1,")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("img", name="Five messages")).to_be_visible()


def test_a_link_of_a_chapter_opens_its_scene(opened):
    page = opened(CHAPTER)
    page.get_by_role("link", name="Out of room").click()
    expect(started(page).locator("h1")).to_have_text("Out of room")
    assert page.locator("input[name=capacity]").input_value() == "5"


def test_a_block_is_copied_without_prompts_and_signs(opened):
    page = opened(CHAPTER)
    commands = page.locator(".language-console code").first
    assert commands.get_attribute("data-copy").startswith("zaichik learn goto 07")
    blocks = page.locator(".language-diff code")
    for number in range(blocks.count()):
        block = blocks.nth(number)
        kept = [line[1:] for line in block.text_content().split("\n") if line[:1] != "-"]
        assert block.get_attribute("data-copy").split("\n") == kept


def test_a_word_is_found(opened):
    page = opened("index.html")
    page.wait_for_load_state("networkidle")  # zensical loads the index once the page is there
    page.keyboard.press("Control+k")
    page.locator("input:visible").first.fill("back-pressure")
    page.locator("a[href*='12-slow-consumers'][href*='h=back-pressure']").first.click()
    expect(page).to_have_url(re.compile("12-slow-consumers"))


def test_a_browser_that_cannot_run_it_says_so(browser, address):
    context = browser.new_context(viewport=DESKTOP)
    context.add_init_script("delete globalThis.WebAssembly")
    page = context.new_page()
    page.goto(f"{address}/stage/index.html#lag")
    expect(page.get_by_role("alert")).to_contain_text("Your browser can't run this")
    expect(page.get_by_role("img")).to_be_visible()
    context.close()


def test_a_host_that_has_lost_a_file_is_told(browser, address):
    context = browser.new_context(viewport=DESKTOP)
    page = context.new_page()
    page.route("**/stage.zip.packed", lambda route: route.abort())
    page.goto(f"{address}/stage/index.html#lag")
    expect(page.get_by_role("alert")).to_contain_text("can't run this", timeout=STARTS)
    context.close()
