"""What it costs a broker to be watched: by a page in a browser, `zaichik watch`, and Prometheus.

    python benchmarks/views.py --browser    # twelve minutes
    python benchmarks/views.py --quick      # does it work? The figures of this say nothing
    python benchmarks/views.py --only cost  # or latency, streams, scrapes
    python benchmarks/views.py --only cost --looker watch

A fixed number of messages is published as fast as a reader gets them, and the processor time of the
broker is counted: while it is watched, and while the watchers are stopped (SIGSTOP), in turns, at
the same broker. Each ratio is the median of ten pairs. The broker's share of a core is measured,
too, at a thousand messages a second in batches of ten: then it does not contend for a processor
with the watchers, and what it takes more is what their requests cost. The share of the watching
program is measured beside it. A scrape is counted by itself. Pages are streams without a browser;
with `--browser`, there is one.
"""

import argparse
import gzip
import math
import random
import re
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "chaos")]  # for the processes of those tests

from served import served  # noqa: E402

from benchmarks import idle  # noqa: E402
from benchmarks.access import Broker, Measure, ratio, show  # noqa: E402
from benchmarks.busy import TOPIC, Load, processor_ns  # noqa: E402
from benchmarks.looking import Looker, Stream, beside, fetch, nobody, pages, scrapes, watch, web  # noqa: E402
from benchmarks.processes import paused, resumed  # noqa: E402
from zaichik.apps.watch.polling import MOST_REST_SECONDS  # noqa: E402
from zaichik.apps.web.app import STATIC  # noqa: E402
from zaichik_protocol import Subscribe  # noqa: E402

PAIRS, QUICK_PAIRS = 10, 2
PAGE = f"view=topic&topic={TOPIC}&width=1200&hz=10"
READERS = 12
MOST_TOPICS = 9_600  # of the broker's 10,000; one client may not take all that is left
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))),
    None,
)
STEADY_S = 2.0  # of each half of a pair, at a thousand messages a second
SETTLE_S = 0.3  # what was due while it was stopped is asked at once, and does not count
# Who looks, how many other topics there are, and how many seconds a turn lasts: what is done once a
# second or less often takes longer turns.
SCENARIOS: dict[str, tuple[Looker, int, float]] = {
    "nobody looks: nobody looks (the noise)": (nobody, 0, 0.7),
    "one page of the topic, 10 Hz": (pages(PAGE, 1), 0, 0.7),
    "ten pages of the topic, 10 Hz": (pages(PAGE, 10), 0, 0.7),
    f"zaichik watch {TOPIC}": (watch, 0, 0.7),
    "its requests alone, nothing is drawn": (beside("asks"), 0, 0.7),
    "no requests, computing 5 ms ten times a second": (beside("computes"), 0, 0.7),
    "/metrics once a second, 1,000 topics": (scrapes, 999, 2.0),
    f"the page of all topics, {MOST_TOPICS:,} of them": (
        pages("view=topics&count=50", 1),
        MOST_TOPICS - 1,
        2.0,
    ),
}
SCRAPED = (
    (1, 0, 0),
    (100, 110, 10),
    (1_000, 0, 0),
    (1_000, 1_200, 200),
    (MOST_TOPICS, 0, 0),
)  # see `scraped`
SCRAPES, QUICK_SCRAPES = 11, 1
LAW = """() => {
  const law = document.querySelector(".law");
  const now = () => performance.timeOrigin + performance.now();
  const observer = new MutationObserver(() => {
    const seen = [Number(law.textContent.split("=")[0].replace(/[^0-9]/g, "")), now(), Infinity];
    window.seen.push(seen);
    requestAnimationFrame(() => { seen[2] = now(); });
  });
  window.seen = [];
  observer.observe(law, { childList: true, characterData: true, subtree: true });
}"""


@contextmanager
def broker() -> Iterator[Broker]:
    """Returns a broker that runs as long as the block lasts."""
    with served("--log-level", "warning") as process:
        yield Broker(process, "", has_tls=False)


# -- what the broker pays ------------------------------------------------------------------------


def cost(pairs: int, part: float, word: str) -> None:
    """What being watched costs the broker.

    Only watchers whose name has that word in it are measured.
    """
    show(
        "broker, µs of processor time a message; % of a core at 1,000/s",
        "looked at; not; ratio; not, %; % more; itself, %",
    )
    for name, (looker, others, seconds) in SCENARIOS.items():
        if word not in name:
            continue
        topics = int(others * part)
        with broker() as at, closing(Load(at)) as load:
            with closing(idle.IdleConnection(at.process.port)) as connection:
                connection.ask(idle.topics(topics))
            count = calibrated(load, seconds * part)
            with looker(at.process.port) as group, paused(group):
                a, b, by = ratio(
                    pairs,
                    looked_at(group, load, count, seconds * part),
                    lambda: load.publish(count),  # noqa: B023
                )
                with load.steady():
                    shares = added(group, at.process.pid, pairs, STEADY_S * part)
        show(
            name,
            f"{a:.2f}; {b:.2f}; {by:.3f}; " + "; ".join(f"{100 * each:.1f}" for each in shares),
        )


def calibrated(load: Load, seconds: float) -> int:
    """Returns how many messages take about this long."""
    load.publish(2_000)
    began = time.perf_counter()
    load.publish(5_000)
    return max(1_000, int(5_000 * seconds / (time.perf_counter() - began)))


def looked_at(group: int, load: Load, count: int, seconds: float) -> Measure:
    """Returns a function that measures while the processes of that group go on."""

    def measure() -> float:
        with resumed(group):
            time.sleep(min(SETTLE_S, seconds))
            if seconds > 1:  # what is done when a second begins is done as often in each turn
                time.sleep(1 - (time.monotonic() + 0.5) % 1)
            return load.publish(count)

    return measure


def added(group: int, pid: int, pairs: int, seconds: float) -> Iterator[float]:
    """Returns parts of a core: the broker's, how much more it takes while a group goes on, and its
    leader's.
    """
    rows = []
    for _ in range(pairs):
        with resumed(group):
            time.sleep(min(SETTLE_S, seconds))
            looked_at, itself = shares(seconds, pid, group)
        alone = share(pid, seconds)
        rows.append((alone, looked_at - alone, itself))
    return map(statistics.median, zip(*rows, strict=True))


# -- how soon it is seen -------------------------------------------------------------------------


def latency(messages: int, *, has_browser: bool) -> None:
    """How long after its publish a message is seen."""
    with broker() as at, closing(Load(at)) as load, web(at.process.port) as (port, _):
        load.publish_one()
        seen: list[tuple[int, float]] = []

        def heed(state: Any, came: float) -> None:
            seen.append((state["reading"]["topic"]["published"], came))

        show("one message at a time, at random moments, one reader", "median ms; p99 ms")
        with closing(Stream(port, PAGE, heed)):
            begun = published(load, messages, time.perf_counter)
        told("publish to server-sent event", found(begun, seen, 1000))
        with closing(Stream(port, PAGE)) as stream:
            before, began = len(stream.sizes["delta"]), time.perf_counter()
            load.publish(calibrated(load, messages / 50))
            updates = (len(stream.sizes["delta"]) - before) / (time.perf_counter() - began)
        show("updates of a page a second, while the broker has all it can do", f"{updates:.1f}")
        if has_browser:
            in_a_browser(port, load, messages)


def published(load: Load, messages: int, clock: Callable[[], float]) -> list[float]:
    """Publish at random moments. Returns when each publish began."""
    moments = random.Random(1)  # noqa: S311 - no secret
    begun = []
    for _ in range(messages):
        time.sleep(moments.uniform(0.02, 0.12))
        begun.append(clock())
        load.publish_one()
    time.sleep(0.5)  # until the last one is seen
    return begun


def found(begun: list[float], seen: list[tuple[int, float]], by: float) -> list[float]:
    """Returns how many ms passed until each message was counted: the last of `begun` is the last
    that was seen.
    """
    first = max(count for count, _ in seen) - len(begun) + 1
    return [
        by * (min(came for count, came in seen if count >= first + index) - at)
        for index, at in enumerate(begun)
    ]


def in_a_browser(port: int, load: Load, messages: int) -> None:
    """The same, until it is in the page, and until the page is drawn."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        print("no browser: playwright is not installed")
        return
    if CHROMIUM is None:
        print("no browser: Chromium is not installed")
        return
    in_containers = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
    ]  # root, little shared memory
    with (
        sync_playwright() as driver,
        closing(driver.chromium.launch(executable_path=CHROMIUM, args=in_containers)) as b,
    ):
        page = b.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"http://127.0.0.1:{port}/topic#{TOPIC}")
        page.locator(".law", has_text="published").first.wait_for()
        page.evaluate(LAW)
        begun = published(load, messages, lambda: time.time() * 1000)
        rows: list[list[float]] = page.evaluate("() => window.seen")
    for name, column in (("publish to DOM", 1), ("publish to pixel (the next frame)", 2)):
        told(
            name,
            found(
                begun, [(int(row[0]), row[column]) for row in rows if row[column] is not None], 1
            ),
        )


def told(name: str, ms: list[float]) -> None:
    """Print median and p99."""
    p99 = sorted(ms)[min(len(ms) - 1, int(len(ms) * 0.99))]
    show(name, f"{statistics.median(ms):.0f}; {p99:.0f}")


# -- what is sent, and what `zaichik web` itself takes -------------------------------------------


def streams(seconds: float) -> None:
    """Bytes of the page and of its stream, and processor time of `zaichik web`."""
    with (
        broker() as at,
        closing(Load(at, READERS)) as load,
        web(at.process.port) as (port, pid),
        ExitStack() as stack,
    ):
        names = sorted(path.name for path in STATIC.iterdir())
        files = [
            fetch(port, "/"),
            *(fetch(port, f"/static/{name}") for name in names if name != "index.html"),
        ]
        sent, zipped = (
            sum(map(len, files)) / 1024,
            sum(len(gzip.compress(file)) for file in files) / 1024,
        )
        show(f"the page's {len(files)} files, KiB: as sent; gzip", f"{sent:.1f}; {zipped:.1f}")
        stack.enter_context(load.steady())
        show(f"a topic with {READERS} readers, 1,000 messages a second", "")
        stream = stack.enter_context(closing(Stream(port, PAGE)))
        time.sleep(seconds / 10)
        before, used = (
            {kind: len(sizes) for kind, sizes in stream.sizes.items()},
            share(pid, seconds),
        )
        sizes = {kind: sizes[before.get(kind, 0) :] for kind, sizes in list(stream.sizes.items())}
        events = [size for kind in sizes for size in sizes[kind]]
        show(
            "stream of one page, KiB/s; events/s",
            f"{sum(events) / 1024 / seconds:.1f}; {len(events) / seconds:.1f}",
        )
        whole, changes = (
            statistics.median(stream.sizes[kind] or [0]) / 1024 for kind in ("state", "delta")
        )
        show("a whole state, KiB; a change, KiB", f"{whole:.1f}; {changes:.1f}")
        show("zaichik web, one page, % of a core", f"{100 * used:.1f}")
        for _ in range(9):
            stack.enter_context(closing(Stream(port, PAGE)))
        show("zaichik web, ten pages of one width", f"{100 * share(pid, seconds / 2):.1f}")
        for width in range(900, 990, 10):
            stack.enter_context(closing(Stream(port, re.sub(r"width=\d+", f"width={width}", PAGE))))
        show(
            "zaichik web, nine more, each of another width", f"{100 * share(pid, seconds / 2):.1f}"
        )


def share(pid: int, seconds: float) -> float:
    """Returns which part of a core a process takes during this many seconds."""
    return shares(seconds, pid)[0]


def shares(seconds: float, *pids: int) -> list[float]:
    """Returns which part of a core each of these processes takes during the same seconds."""
    before, began = [processor_ns(pid) for pid in pids], time.perf_counter()
    time.sleep(seconds)
    took = (time.perf_counter() - began) * 1e9
    return [(processor_ns(pid) - was) / took for pid, was in zip(pids, before, strict=True)]


# -- what a scrape takes -------------------------------------------------------------------------


def scraped(times: int, part: float) -> None:
    """What one scrape of `/metrics` takes, in the median: by the numbers of topics, subscriptions
    and named ones.
    """
    show(
        "a scrape: topics; subscriptions; named",
        "ms of the broker's processor time; ms until the answer",
    )
    for topics, readers, named in (
        tuple(math.ceil(part * number) for number in row) for row in SCRAPED
    ):
        with broker() as at, ExitStack() as stack:
            port = at.process.port
            held = [stack.enter_context(closing(idle.IdleConnection(port))) for _ in range(2)]
            held[0].ask(idle.topics(topics))
            for turn, connection in enumerate(held):
                connection.ask(
                    Subscribe(
                        2 + number,
                        f"topic-{number % topics}",
                        name=f"reader-{number}" if number < named else "",
                    )
                    for number in range(turn, readers, 2)
                )
            server, _ = stack.enter_context(web(port))
            fetch(server, "/metrics")
            used, took = zip(*(scrape(server, at.process.pid) for _ in range(times)), strict=True)
        figures = f"{statistics.median(used):.1f}; {statistics.median(took):.0f}"
        show(f"{topics:,}; {readers:,}; {named:,}", figures)


def scrape(port: int, broker: int) -> tuple[float, float]:
    """Returns ms of the broker's processor time, and ms until the answer."""
    time.sleep(MOST_REST_SECONDS)  # a scrape that comes sooner shares the next answer
    before, began = processor_ns(broker), time.perf_counter()
    fetch(port, "/metrics")
    return (processor_ns(broker) - before) / 1e6, (time.perf_counter() - began) * 1000


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a fraction of everything")
    parser.add_argument(
        "--browser", action="store_true", help="until it is seen in a browser, too: in Chromium"
    )
    parser.add_argument(
        "--only", choices=["cost", "latency", "streams", "scrapes"], help="one of the four parts"
    )
    parser.add_argument(
        "--looker", metavar="WORD", default="", help="only those whose line has this word in it"
    )
    options = parser.parse_args()
    pairs, part = (QUICK_PAIRS, 0.02) if options.quick else (PAIRS, 1.0)
    began = time.monotonic()
    if options.quick:
        print("quick: these figures say nothing")
    if options.only in {None, "cost"}:
        cost(pairs, part, options.looker)
    if options.only in {None, "latency"}:
        latency(max(5, int(120 * part)), has_browser=options.browser)
    if options.only in {None, "streams"}:
        streams(8 * part)
    if options.only in {None, "scrapes"}:
        scraped(QUICK_SCRAPES if options.quick else SCRAPES, part)
    print(f"took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
