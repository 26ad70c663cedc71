"""The page in a real browser, if there is one here: what a person sees and does."""

import math
import re
import shutil
import socket
import time
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from embedded import Embedded
from shared_worker import busy_worker

import zaichik
from zaichik.apps.web import events
from zaichik.apps.web.app import Options
from zaichik.apps.web.interests import Interest, TopicInterest
from zaichik.apps.web.run import run
from zaichik.client.endpoint import Credentials, Endpoint

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect
expect.set_options(
    timeout=60_000
)  # milliseconds after which what does not come has failed; nothing waits to pass

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))),
    None,
)
NOT_FOUND = 404
ANA, BOB = (f"zk_{letter * 43}" for letter in "ab")
DESKTOP = {"width": 1280, "height": 900}
BIDI = "a\u202ebc"  # the letters after it run from right to left
NEVER = "\u2013"  # as the page writes that a key was never dropped
MARKUP = '<img src=x onerror="document.title=1">'

NAME = (
    "(document.activeElement.ariaLabel || document.activeElement.innerText).replaceAll('\\n', ' ')"
)
# What fingers have to meet, and is lower or narrower than they need.
SMALL = """[...document.querySelectorAll('button, input, select, nav a')]
    .filter((it) => it.checkVisibility())
    .filter((it) => it.offsetHeight < 44 || it.offsetWidth < 44).map((it) => it.outerHTML)"""

# One browser and one broker for all of them: they run in one process of the suite, one after the
# other.
pytestmark = [
    pytest.mark.skipif(
        BROWSER is None, reason="no Chromium is installed (Debian: apt install chromium)"
    ),
    pytest.mark.xdist_group("browser"),
]


@asynccontextmanager
async def served(port, **options):
    """The page's address, for the broker at that port."""
    stop, ready = anyio.Event(), anyio.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    chosen = Options(
        endpoint=Endpoint("127.0.0.1", port), port=listener.getsockname()[1], **options
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(
            lambda: run(listener, chosen, tls=None, allowed=[], stop=stop, ready=ready.set)
        )
        await ready.wait()
        try:
            yield f"http://127.0.0.1:{chosen.port}"
        finally:
            stop.set()


@pytest.fixture(autouse=True)
def _without_haste(monkeypatch, _without_pauses):
    """Ten pictures a second, which a browser takes a tenth of the time to draw."""
    for interest in (Interest, TopicInterest):
        monkeypatch.setattr(interest, "seconds", 0.1)


@pytest.fixture(scope="module")
def portal():
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture(scope="module")
def broker(portal):
    """A broker with the machine's clock."""
    broker = Embedded(portal, zaichik.SystemClock(), None)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def address(portal, broker):
    with portal.wrap_async_context_manager(served(broker.port, can_write=True)) as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    # As root, and with little shared memory.
    in_containers = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=in_containers)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def window(browser):
    """One window for most of the tests: opening one takes longer than most of them."""
    context = browser.new_context(viewport=DESKTOP, color_scheme="light")
    yield watched(context.new_page())
    context.close()


@pytest.fixture
def page(window):
    """The window, empty.

    An error on the page, or a breach of its own security policy, fails the test.
    """
    window.problems.clear()
    window.set_viewport_size(DESKTOP)
    window.emulate_media(reduced_motion="no-preference")
    yield window
    window.goto("about:blank")  # its streams and its stage end
    assert window.problems == []


def watched(page):
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on(
        "console", lambda said: page.problems.append(said.text) if said.type == "error" else None
    )
    return page


def test_a_published_message_is_in_the_strip(page, broker, address):
    broker.create("orders")
    page.goto(f"{address}/topic#orders")
    expect(answer(page, "Stored")).to_contain_text("0 of 10,000")
    broker.publish("orders", [("kim", b'{"late": 4}')])
    expect(answer(page, "Stored")).to_contain_text("1 of 10,000")
    expect(page.locator(".strip .mark.resident")).to_have_attribute("d", re.compile("^M"))
    expect(page.locator(".messages li").first).to_contain_text('kim {"late": 4}')
    expect(page.locator(".law").first).to_have_text(
        "published\u00a01 = stored\u00a01 + compacted\u00a00\u00a0✓"
    )


def test_a_tables_holes_are_hatched_and_its_tombstones_are_told(page, broker, address):
    broker.create("table", table=True, capacity=4)
    broker.publish("table", [("hot", b"1")], [("gone", b"2")], [("hot", b"3")])
    broker.publish("table", [("gone", None)])
    page.goto(f"{address}/topic#table")
    stored = answer(page, "Stored")
    expect(stored).to_contain_text("1 of 4 keys")
    expect(stored).to_contain_text("1 tombstone")
    expect(answer(page, "Publishers")).to_contain_text("new keys are refused")
    expect(page.locator(".strip .mark.holes")).to_have_attribute("d", re.compile("^M"))
    expect(page.locator(".messages li").first).to_contain_text("gone † a tombstone")
    expect(page.locator(".cells")).to_contain_text("gone †")
    expect(page.locator(".law").last).to_contain_text("superseded\u00a02\u00a0✓")


def test_a_shared_name_says_what_its_workers_have_and_what_it_waits_for(page, broker, address):
    broker.create("jobs", overflow="reject")
    broker.publish("jobs", [(None, b"x")] * 5)
    with busy_worker(broker.port, "jobs", "thumbs", "resizer"):
        page.goto(f"{address}/topic#jobs")
        lane = page.locator(".lanes li")
        expect(lane).to_have_count(1)
        expect(lane).to_contain_text("thumbs 4 behind")
        expect(lane).to_contain_text("at work")
        expect(page.locator(".strip .mark.shared")).to_have_attribute("d", re.compile("^M"))
        name, worker = page.locator(".card", has_text="Shared names").locator("tbody tr").all()
        expect(name).to_contain_text("1 with 1 worker")
        expect(name).to_contain_text("none of them takes more now")
        expect(worker).to_contain_text("resizer")
        expect(worker).to_contain_text("1 for ")
    broker.create("no jobs")
    page.goto(f"{address}/topic#no jobs")
    expect(page.get_by_role("heading", name="Last messages")).to_be_visible()
    expect(page.get_by_role("heading", name="Shared names")).to_be_hidden()


@pytest.mark.long
@pytest.mark.parametrize("part", [0, 0.5, 1])
def test_a_new_message_slides_in_from_the_edge_and_never_lies_beyond_it(page, address, part):
    page.goto(address)
    end = page.evaluate(
        """async (part) => (await import("/static/axis.js"))
            .between([[0, 0], [10, 100]], [[2, 0], [12, 100]], part, 12)""",
        part,
    )
    assert end == 100


def test_a_published_message_is_told_within_a_second(page, broker, address):
    """Of five the quickest counts, as any one may have to wait for a processor.

    On a slow machine none is in time.
    """
    broker.create("quick")
    page.goto(f"{address}/topic#quick")
    expect(answer(page, "Stored")).to_contain_text("0 of 10,000")
    took = []
    for count in range(1, 6):
        broker.publish("quick", [("kim", b"{}")])
        began = time.monotonic()
        expect(answer(page, "Stored")).to_contain_text(f"{count} of 10,000")
        took.append(time.monotonic() - began)
    assert min(took) < 1


# The marks of a lane follow one another from left to right, and none lies on another.
APART = """kinds => {
  const boxes = kinds.map(kind => document.querySelector(`.strip .mark.${kind}`).getBBox());
  return boxes.every((box, at) => !at || boxes[at - 1].x + boxes[at - 1].width <= box.x + 0.1);
}"""


def test_a_reader_that_stops_shows_how_far_it_is_behind(page, broker, address):
    broker.create("stalled", capacity=8)
    with stopped_reader(broker, "stalled", "slow"):
        broker.publish("stalled", [(None, b"x")] * 5)
        page.goto(f"{address}/topic#stalled")
        lane = page.locator(".lanes li")
        expect(lane).to_contain_text("slow 4 behind")
        expect(lane).to_contain_text("must commit first")
        expect(answer(page, "Furthest behind")).to_contain_text("slow: 4")
        lane.get_by_role("button").press("Enter")  # zooms to that reader, and back
        expect(page.get_by_role("button", name="Zoom: slow")).to_be_visible()
        expect(lane.get_by_role("button")).to_have_attribute("aria-pressed", "true")
        lane.get_by_role("button").click()
        expect(page.get_by_role("button", name="Zoom: auto")).to_be_visible()
        broker.publish("stalled", *[[(None, b"x")]] * 8)
        expect(lane).to_have_attribute("data-state", "lost")
        expect(page.locator(".strip .mark.lost")).to_have_attribute("d", re.compile("^M"))
        page.wait_for_function(APART, arg=["in_flight", "gate", "lost"])


def test_a_publisher_that_waits_is_explained_by_a_wall_with_a_name(page, broker, address):
    broker.create("full", capacity=4, overflow="reject")
    with stopped_reader(broker, "full", "accounts"):
        broker.publish("full", *[[(None, b"x")]] * 4)
        page.goto(f"{address}/topic#full")
        refused(broker, "full")
        expect(page.locator(".cells")).to_contain_text("full, waits for accounts")
        expect(answer(page, "Publishers")).to_contain_text("wait for accounts")


def test_what_became_of_the_last_message_of_a_key_is_a_question_of_the_page(page, broker, address):
    broker.create("windows", compaction_window=60)
    broker.publish("windows", [("kim", b"1")], [("kim", b"2")])
    page.goto(f"{address}/topic#windows")
    page.get_by_label("key or offset").fill("kim")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".verdicts li").first).to_contain_text("kept out")
    page.locator(".messages .offset").click()
    expect(page.locator(".verdicts li").first).to_contain_text("readable")


def test_markup_in_names_keys_and_payloads_stays_text(page, broker, address):
    broker.create(MARKUP, compaction_window=60)
    broker.publish(MARKUP, [(MARKUP, MARKUP.encode())])
    broker.publish(MARKUP, [(BIDI, b"\x1b[31m")])
    page.goto(address)
    page.get_by_label("search topics").fill("<img")
    expect(page.locator(".rows .row")).to_have_count(1)
    link = page.locator(".rows a")
    expect(link).to_have_text(MARKUP)
    link.click()
    expect(page.locator("h1")).to_have_text(MARKUP)
    expect(page.locator(".messages li").nth(1)).to_contain_text(f"{MARKUP} {MARKUP}")
    expect(page.locator(".messages li").first).not_to_contain_text(re.compile("[\u202e\x1b]"))
    expect(page.locator("main img")).to_have_count(0)
    assert MARKUP in page.title()


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ('{"id": 12345678901234567890}', '{\n  "id": 12345678901234567890\n}'),
        ("[1.0,1e400,-0, {}, [ ]]", "[\n  1.0,\n  1e400,\n  -0,\n  {},\n  []\n]"),
        ('{"b":1,"b":2,"1":3}', '{\n  "b": 1,\n  "b": 2,\n  "1": 3\n}'),
        ('{"a":\n\t"say \\"[,\\" \\u00e9"}', '{\n  "a": "say \\"[,\\" \\u00e9"\n}'),
        ("[" * 200 + "]" * 200, None),
        ('{"a": ', '{"a": '),
        ("[NaN]", "[NaN]"),
    ],
)
def test_json_is_laid_out_with_the_letters_that_were_sent(page, broker, address, sent, shown):
    """A number that JavaScript would round, or a key that comes twice, is shown as it is."""
    topic = f"json/{abs(hash(sent))}"
    broker.create(topic)
    broker.publish(topic, [(None, sent.encode())])
    page.goto(f"{address}/topic#{topic}")
    page.get_by_label("show payloads as").select_option("JSON")
    payload = page.locator(".messages .payload")
    expect(payload).to_have_count(1)
    text = payload.evaluate("it => it.textContent")
    if shown is None:
        assert "".join(text.split()) == sent
        assert max(map(len, text.split("\n"))) < 2 * len(sent)
    else:
        assert text == shown


def test_bytes_are_shown_only_where_all_of_them_are_known(page, broker, address):
    broker.create("bytes")
    broker.publish("bytes", [(None, b"ab\n"), (None, b"\n" * 600), (None, b"c" * 600)])
    page.goto(f"{address}/topic#bytes")
    page.get_by_label("show payloads as").select_option("hex")
    payloads = page.locator(".messages li")
    expect(payloads.nth(0)).to_contain_text(re.compile("63 63$|63 63 … of 600 B$"))
    for number in (1, 2):
        expect(payloads.nth(number)).to_contain_text("not as bytes")


@pytest.mark.parametrize("key", ["constructor", "__proto__", "toString"])
def test_a_key_with_a_name_of_javascripts_is_a_key_like_any_other(page, broker, address, key):
    topic = f"named/{key}"
    broker.create(topic, compaction_window=3600)
    broker.publish(topic, [("plain", b"0")])
    page.goto(f"{address}/topic#{topic}")
    rows = page.locator("section.card tbody tr")
    expect(rows).to_have_count(1)
    broker.publish(topic, [(key, b"1")])  # by a delta
    expect(rows.nth(0)).to_contain_text(key)
    expect(rows.nth(0).locator("td").last).to_have_text(NEVER)
    page.reload()  # by a whole state
    expect(rows.nth(0)).to_contain_text(key)
    expect(rows.nth(0).locator("td").last).to_have_text(NEVER)


def test_a_page_that_hears_nothing_from_its_server_does_not_say_that_it_is_live(
    browser, broker, address, monkeypatch
):
    """A dead connection and a stopped process close no stream."""
    broker.create("frozen")
    context = browser.new_context()
    page = watched(context.new_page())
    page.clock.install()
    page.goto(f"{address}/topic#frozen")
    expect(page.locator("#status")).to_have_text("live")
    with monkeypatch.context() as frozen:
        frozen.setattr(events.Mailbox, "put", lambda _: None)
        frozen.setattr(events, "HEARTBEAT_S", math.inf)
        page.clock.fast_forward(15_000)
        expect(page.locator("#status")).to_have_text("not live")
        expect(page.locator(".trouble")).to_contain_text("zaichik web does not answer")
    expect(page.locator("#status")).to_have_text("live")
    assert page.problems == []
    context.close()


def test_a_topics_name_is_a_link_in_a_row_for_a_screen_reader_too(page, broker, address):
    broker.create("linked")
    page.goto(address)
    page.get_by_label("search topics").fill("linked")
    expect(page.get_by_role("rowheader", name="linked")).to_have_count(1)
    link = page.get_by_role("rowheader").get_by_role("link", name="linked", exact=True)
    link.click()
    expect(page.locator("h1")).to_have_text("linked")


def test_the_page_says_that_the_broker_is_gone_and_goes_on_when_it_is_back(
    page, portal, address, broker
):
    with portal.wrap_async_context_manager(served(broker.port)) as own:
        page.goto(own)
        expect(page.locator("#status")).to_have_text("live")
        broker.stop()
        expect(page.locator(".trouble")).to_be_visible()
        expect(page.locator("#status")).to_have_text("not live")
        broker.start()
        expect(page.locator(".trouble")).to_be_hidden()
        page.goto("about:blank")  # or the browser says that its server is gone


def test_a_message_is_published_from_the_page_where_that_is_allowed(page, broker, address):
    broker.create("written")
    page.goto(f"{address}/topic#written")
    page.get_by_label("payload", exact=True).fill("hello")
    page.get_by_role("button", name="Publish").click()
    expect(page.locator(".publish output")).to_have_text("published at offset 0")
    expect(page.locator(".messages li")).to_contain_text("hello")


def test_a_scene_is_predicted_played_and_understood(page, address):
    page.goto(f"{address}/stage#copy?readers=2")
    expect(page.locator("h1")).to_have_text("One message, three readers")
    expect(page.locator(".lesson")).to_be_hidden()
    vote = page.locator(".predict button").first
    vote.click()
    vote.click()
    expect(vote).to_contain_text("2, one for each reader 2")
    page.get_by_label("speed").select_option("at once")
    page.get_by_role("button", name="Play").click()
    expect(page.locator(".lesson")).to_have_text("A message is stored once; a reader is a number.")
    expect(page.locator('[data-right="yes"]')).to_have_count(1)
    expect(page.locator(".strip")).to_have_count(2)  # this broker, and the model of 2020
    page.get_by_role("button", name="Back").click()
    expect(page.locator(".lesson")).to_be_hidden()
    page.locator(".stage summary", has_text="Knobs").click()
    page.get_by_role("spinbutton", name="readers").fill("3")
    page.get_by_role("button", name="Begin again").click()
    expect(page.locator(".predict")).to_contain_text("3 readers, one message")
    page.go_back()
    expect(page.locator(".predict")).to_contain_text("2 readers, one message")


def test_a_stage_ends_when_its_page_is_left(page, address):
    with page.expect_response(re.compile("/stage[?]")) as answered:
        page.goto(f"{address}/stage#evict")
    stage = answered.value.json()["id"]
    expect(page.locator("h1")).to_have_text("Out of room")
    page.locator("main").focus()
    page.keyboard.press(".")
    expect(page.locator(".controls .hint")).to_contain_text("step 1")
    page.goto("about:blank")
    eventually(page, lambda: page.request.get(f"{address}/stage/{stage}").status == NOT_FOUND)


@pytest.mark.parametrize(
    ("link", "heading", "trouble"),
    [
        ("/topic#%E0%A4%A", "%E0%A4%A", "there is no topic"),
        ("/topic#a%E2%80%AEb", "a\ufffdb", "there is no topic"),
        ("/topic", "Topics", ""),
        ("/stage#lag?capacity=many", "The stage", "capacity must be a whole number"),
        ("/stage#%zz", "The stage", ""),
    ],
)
def test_a_strange_link_leads_somewhere_and_says_what_is_wrong(
    page, address, link, heading, trouble
):
    page.goto(f"{address}{link}")
    expect(page.locator("h1")).to_have_text(heading)
    expect(page.locator(".trouble")).to_contain_text(trouble)
    page.problems.clear()  # the browser's own line about the answer 400


def test_each_of_seven_windows_of_one_browser_is_live(browser, address):
    context = browser.new_context()
    # A browser has six connections to a server.
    windows = [watched(context.new_page()) for _ in range(7)]
    for window in windows:
        window.goto(f"{address}/connections")
    for window in windows:
        expect(window.locator("#status")).to_have_text("live")
        assert window.problems == []
    context.close()


def test_the_page_has_a_table_behind_the_picture_and_is_worked_by_keys(page, broker, address):
    broker.create("keys")
    page.goto(f"{address}/topic#keys")
    expect(page.locator("#status")).to_have_text("live")
    expect(page.locator(".strip")).to_have_attribute("aria-label", re.compile("keys"))
    # A button that has the focus keeps no key for itself but its own.
    page.get_by_role("button", name="Zoom").click()
    expect(page.get_by_role("button", name="Zoom: all that is stored")).to_be_focused()
    page.keyboard.press("t")
    expect(page.get_by_role("table", name="The readers of this topic")).to_be_visible()
    page.locator("main").focus()
    page.keyboard.press(" ")
    broker.publish("keys", [(None, b"x")])
    expect(page.locator(".status")).to_have_text(re.compile(r"^held, \d+ newer$"))
    expect(page.locator(".law").first).to_contain_text("published\u00a00")
    broker.publish("keys", [(None, b"x")])
    expect(page.locator("#newer")).not_to_have_text("")
    page.keyboard.press(".")  # shows one of the newer states, and holds that
    expect(page.locator("#status")).to_have_text("held")
    page.keyboard.press(" ")
    expect(page.locator(".law").first).to_contain_text("published\u00a02")
    expect(page.locator("#status")).to_have_text("live")
    page.keyboard.press("?")
    expect(page.locator("dialog kbd")).to_have_text(["z", "/", "t", "c", "space", ".", "?"])
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.get_by_label("key or offset")).to_be_focused()
    page.keyboard.press("z")  # a letter of a key
    expect(page.get_by_role("button", name="Zoom: all that is stored")).to_be_visible()


def test_what_matters_is_reached_by_the_tab_key_in_the_order_in_which_it_is_read(
    page, broker, address
):
    broker.create("order")
    with stopped_reader(broker, "order", "slow"):
        page.goto(f"{address}/topic#order")
        expect(page.locator(".lanes button")).to_be_visible()
        reached = []
        while "Explain" not in reached and len(reached) < 30:
            page.keyboard.press("Tab")
            reached.append(page.evaluate(NAME))
    assert [re.sub(r"^slow .*", "slow", name) for name in reached] == [
        *(
            "Skip to the content",
            "zaichik",
            "Topics",
            "Connections",
            "Stage",
            "Hold",
            "Theme",
            "Keys",
        ),
        *("Zoom: auto", "slow", "What the marks mean", "The readers as a table"),
        *("look up by", "key or offset", "Explain"),
    ]


def test_the_skip_link_leads_to_the_content_and_not_to_another_topic(page, broker, address):
    broker.create("skipped")
    page.goto(f"{address}/topic#skipped")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.locator("h1")).to_have_text("skipped")


def test_with_reduced_motion_the_page_asks_for_one_picture_a_second(page, broker, address):
    broker.create("calm")
    page.emulate_media(reduced_motion="reduce")
    with page.expect_request(re.compile("/events.*hz=1$")):
        page.goto(f"{address}/topic#calm")


def test_on_a_phone_nothing_scrolls_sideways(page, broker, address):
    broker.create("phone")
    page.set_viewport_size({"width": 390, "height": 844})
    for path in ("/", "/topic#phone", "/connections", "/stage", "/stage#lag"):
        page.goto(f"{address}{path}")
        expect(page.locator("h1")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
        assert page.evaluate(SMALL) == [], path


def test_of_a_thousand_topics_only_those_on_the_screen_are_elements(page, portal, address, broker):
    portal.call(many_topics, broker.port, 1000)
    page.goto(address)
    expect(page.locator(".topics .bar .hint")).to_have_text(re.compile(r"^1,0\d\d topics$"))
    page.locator(".scroll").evaluate("it => it.scrollTop = 700 * 30")
    expect(page.locator(".rows")).to_contain_text("many/0700")
    assert page.locator(".rows .row").count() < 100


def test_with_access_control_the_page_asks_who_is_there_and_shows_what_they_may_see(page, portal):
    with portal.wrap_async_context_manager(two_users()) as address:
        page.goto(address)
        page.get_by_label("Password or token").fill(BOB[:-1])
        page.get_by_role("button", name="Log in").click()
        expect(page.locator(".problem")).to_be_visible()
        page.get_by_label("Password or token").fill(BOB)
        page.get_by_role("button", name="Log in").click()
        expect(page.locator(".rows a")).to_have_text(["bills"])
        other = page.context.new_page()
        other.goto(f"{address}/connections")
        expect(other.locator("#status")).to_have_text("live")
        page.get_by_role("button", name="Log out bob").click()
        expect(page.get_by_role("button", name="Log in")).to_be_visible()
        expect(other.get_by_role("button", name="Log in")).to_be_visible()
        other.close()
    page.problems.clear()  # the browser's own lines about each answer that said 401 or 403


@asynccontextmanager
async def two_users():
    """The page's address, for a broker that knows Ana and Bob, each of whom has a topic."""
    rules = "user ana\nallow all a*\nuser bob\nallow all b*\n"
    async with zaichik.running_broker(users={"ana": ANA, "bob": BOB}, rules=rules) as server:
        for secret, topic in ((ANA, "apples"), (BOB, "bills")):
            async with zaichik.connect(
                Endpoint("127.0.0.1", server.port, credentials=Credentials(secret=secret))
            ) as user:
                await user.create_topic(topic)
        async with served(server.port) as address:
            yield address


def eventually(page, happened):
    """Returns when that is so; a test that waits for it in vain fails."""
    for _ in range(1200):
        if happened():
            return
        page.wait_for_timeout(50)
    pytest.fail("it has not happened")


def answer(page, question):
    """The short answer and the sentence at the top of a topic."""
    return page.locator(".answers > div").filter(has=page.locator("dt", has_text=question))


def stopped_reader(broker, topic, name):
    """A reader with a credit of one, which takes nothing, as long as the block lasts."""

    @asynccontextmanager
    async def reading():
        async with (
            zaichik.connect(port=broker.port, name=name) as client,
            client.subscribe(topic, name=name, start="earliest", credit=1),
        ):
            await client.ping()
            yield

    return broker.during(reading)


def refused(broker, topic):
    """A batch is refused because there is no room."""

    async def publish():
        async with zaichik.connect(port=broker.port, name="shop") as client:
            with anyio.move_on_after(0.3):  # the client tries until somebody reads
                await client.publish(topic, b"x")

    broker.run(publish)


async def many_topics(port, count):
    async with zaichik.connect(port=port) as client, anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(client.create_topic, f"many/{number:04}")
