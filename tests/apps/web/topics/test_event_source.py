"""A real browser's EventSource, if there is a browser here: it resumes exactly where it was."""

import shutil

import pytest
from anyio.from_thread import start_blocking_portal
from embedded import Embedded
from serving import served

import zaichik

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))),
    None,
)
FOLLOW = """(address) => {
    window.seen = []
    window.others = []
    window.source = new EventSource(address)
    source.onmessage = (event) => seen.push(JSON.parse(event.data).payload)
    for (const kind of ["lagged", "epoch", "end", "failed", "bye"])
        source.addEventListener(kind, (event) => others.push(kind))
}"""
# What needs no permission: the answer is hidden, which is an error, but the request is sent.
POST = "(to) => fetch(to, {method: 'POST', body: 'x', mode: 'no-cors'}).catch(() => null)"
SEEN = "(count) => seen.length >= count"

pytestmark = [
    pytest.mark.skipif(
        BROWSER is None, reason="no Chromium is installed (Debian: apt install chromium)"
    ),
    pytest.mark.xdist_group("browser"),
]


@pytest.fixture
def portal():
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture
def broker(portal, tmp_path):
    """A broker whose topics are on a disk."""
    broker = Embedded(portal, zaichik.SystemClock(), tmp_path)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def browser():
    # As root, and with little shared memory.
    in_containers = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=in_containers)
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    page = browser.new_page()
    page.set_default_timeout(60_000)
    yield page
    page.close()


def publish(broker, *payloads):
    broker.publish("orders", [(None, payload.encode()) for payload in payloads])


def test_it_resumes_across_restarts_of_the_broker_and_of_the_gateway(portal, broker, page):
    broker.create("orders", durable=True)
    with portal.wrap_async_context_manager(served(broker.port)) as port:
        page.goto(f"http://127.0.0.1:{port}/static/page.css")
        page.evaluate(FOLLOW, "/topics/orders?start=earliest")
        publish(broker, "a", "b")
        page.wait_for_function(SEEN, arg=2)
        broker.stop()
        broker.start()
        publish(broker, "c", "d")
        page.wait_for_function(SEEN, arg=4)
    publish(broker, "e")
    with portal.wrap_async_context_manager(served(broker.port, port)):
        publish(broker, "f")
        page.wait_for_function(SEEN, arg=6)
        assert page.evaluate("seen") == ["a", "b", "c", "d", "e", "f"]
        assert page.evaluate("others") == ["bye"]
        page.evaluate("source.close()")


def test_it_gives_up_at_its_end_and_not_before(portal, broker, page):
    broker.create("orders")
    publish(broker, "a", "b", "c")
    with portal.wrap_async_context_manager(served(broker.port)) as port:
        page.goto(f"http://127.0.0.1:{port}/static/page.css")
        page.evaluate(FOLLOW, "/topics/orders?start=earliest&until=2")
        page.wait_for_function("() => source.readyState === EventSource.CLOSED")
        assert page.evaluate("seen") == ["a", "b"]
        assert page.evaluate("others") == ["end"]


def test_it_waits_for_a_broker_and_is_told_of_another_topic(portal, broker, page):
    broker.create("orders")
    publish(broker, "a")
    broker.stop()
    with portal.wrap_async_context_manager(served(broker.port)) as port:
        page.goto(f"http://127.0.0.1:{port}/static/page.css")
        page.evaluate(FOLLOW, "/topics/orders?start=earliest")
        page.wait_for_function("() => source.readyState === EventSource.OPEN")
        broker.start()
        broker.create("orders")
        publish(broker, "b")
        page.wait_for_function(SEEN, arg=1)
        broker.delete("orders")
        page.wait_for_function("() => others.includes('epoch')")
        publish(broker, "c")
        page.wait_for_function(SEEN, arg=2)
        assert page.evaluate("seen") == ["b", "c"]
        page.evaluate("source.close()")


def test_a_page_of_another_site_gets_nothing(portal, broker, page):
    """Whether it reads or posts; the other site is one on this machine, at another port."""
    broker.create("orders")
    publish(broker, "a")
    with (
        portal.wrap_async_context_manager(served(broker.port)) as port,
        portal.wrap_async_context_manager(served(broker.port)) as other,
    ):
        page.route(
            "**/static/page.css", lambda route: route.fulfill(body="x", content_type="text/plain")
        )
        page.goto(f"http://127.0.0.1:{other}/static/page.css")
        topic = f"http://127.0.0.1:{port}/topics/orders"
        page.evaluate(FOLLOW, f"{topic}?start=earliest")
        page.wait_for_function("() => source.readyState === EventSource.CLOSED")
        page.evaluate(POST, topic)
        assert page.evaluate("seen") == []
        assert broker.topics()[0]["next_offset"] == 1
