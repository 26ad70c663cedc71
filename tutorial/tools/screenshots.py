"""Takes the pictures of the page in docs/pictures: `make pictures`. It needs Chromium (Debian: apt install chromium).

A small crowd makes a broker busy for some seconds: a shop that publishes, readers that keep up, fall behind and stop.
What is to be seen is never the same twice, so no test compares these pictures.
"""

import json
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import anyio
from anyio import to_thread
from playwright.sync_api import sync_playwright

import zaichik
from zaichik.apps.web.app import Options
from zaichik.apps.web.run import run
from zaichik.client.endpoint import Endpoint
from zaichik.net.background import BackgroundTasks

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
BUSY_S = 16.0  # until retention has something to end, and a line of rates is long enough to be one
DESKTOP, PHONE = (1280, 760), (390, 844)
SHOTS = [
    ("page", "/topic#orders", DESKTOP, "light"),
    ("page-phone-dark", "/topic#orders", PHONE, "dark"),
    ("stage", "/stage#lag", DESKTOP, "light"),
]
KEYS = ("kim", "lee", "mia", "noa", "ola")


async def publish(port: int, topic: str, every_s: float, **settings: Any) -> None:
    """Publish until cancelled."""
    random = Random(topic)  # noqa: S311 (nothing is secret here)
    async with zaichik.connect(port=port, name=f"{topic} desk") as client:
        await client.create_topic(topic, **settings)
        number = 0
        while True:
            number += 1
            order = json.dumps({"order": number, "items": random.randint(1, 9)}).encode()
            await client.publish(topic, order, key=random.choice(KEYS).encode())
            await anyio.sleep(every_s)


async def read(port: int, topic: str, name: str, each_s: float, credit: int) -> None:
    """Read until cancelled, so fast."""
    async with (
        zaichik.connect(port=port, name=name) as client,
        client.subscribe(topic, name=name, credit=credit, events=True) as messages,
    ):
        async for _ in messages:
            await anyio.sleep(each_s)


@asynccontextmanager
async def busy_page() -> AsyncIterator[str]:
    """Returns the address of a page with something to see."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop, ready = anyio.Event(), anyio.Event()
    async with zaichik.running_broker() as server, anyio.create_task_group() as pages, BackgroundTasks() as crowd:
        port, group = server.port, crowd.group
        group.start_soon(partial(publish, port, "orders", 0.03, retention_ttl=8, capacity=200, compaction_window=1))
        group.start_soon(
            partial(publish, port, "invoices", 0.2, capacity=20, overflow="reject", retention_ttl="forever")
        )
        for number in range(1, 13):
            group.start_soon(partial(publish, port, f"shop/{number:02}", 0.1 * number, retention_ttl=30))
        await anyio.sleep(1)
        for topic, name, each_s, credit in (
            ("orders", "billing", 0.0, 64),
            ("orders", "audit", 0.3, 16),
            ("orders", "slow", 4.0, 8),
            ("invoices", "accounts", 1.0, 4),
        ):
            group.start_soon(read, port, topic, name, each_s, credit)
        options = Options(endpoint=Endpoint("127.0.0.1", port), port=listener.getsockname()[1])
        pages.start_soon(lambda: run(listener, options, tls=None, allowed=[], stop=stop, ready=ready.set))
        await ready.wait()
        try:
            yield f"http://127.0.0.1:{options.port}"
        finally:
            stop.set()


def shoot(address: str) -> None:
    """Take the pictures."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        watcher = browser.new_page()  # rates are known from when somebody looks
        watcher.goto(f"{address}/topic#orders")
        watcher.wait_for_timeout(BUSY_S * 1000)
        for name, path, (width, height), scheme in SHOTS:
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
            page.goto(f"{address}{path}")
            page.wait_for_timeout(1500)
            if "stage" in path:
                page.get_by_label("speed").select_option("at once")
                page.get_by_role("button", name="Play").click()
                page.locator(".lesson").wait_for(state="visible")
            page.screenshot(path=FOLDER / f"{name}.png")
            page.close()
        browser.close()


async def main() -> None:
    """Take them of a page of our own."""
    async with busy_page() as address:
        await to_thread.run_sync(shoot, address)


if __name__ == "__main__":
    anyio.run(main)
