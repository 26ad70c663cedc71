"""Who may ask: what other sites make a browser send is answered with nothing but a sentence."""

import pytest
from browsing import OURS, PORT, POSTED, Browser
from starlette.responses import PlainTextResponse

from zaichik.apps.web.guard import MAX_BODY, POLICY, Guard

pytestmark = pytest.mark.anyio


async def behind(scope, receive, send):
    await PlainTextResponse("secret")(scope, receive, send)


def browser(scheme="http", port=PORT, allowed=()):
    return Browser(Guard(behind, port, scheme, allowed))


@pytest.mark.parametrize(
    "host", ["localhost:8080", "127.0.0.1:8080", "[::1]:8080", "LocalHost:8080"]
)
async def test_the_page_is_at_this_machines_own_names(host):
    assert (await browser().get("/", host=host)).text == "secret"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:8080",
        "localhost:8081",
        "localhost",
        "localhost:8080.evil.example",
        "127.0.0.1.nip.io:8080",
        "",
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS"])
async def test_a_name_that_was_made_to_point_here_gets_nothing(host, method):
    """DNS rebinding: the foreign page's Origin and Host are both its own."""
    answer = await browser().get(
        "/events", method, host=host, **POSTED | {"origin": f"http://{host}"}
    )
    assert (answer.status, b"secret" in answer.body) == (421, False)


@pytest.mark.parametrize(
    ("scheme", "port", "allowed", "host", "status"),
    [
        ("http", PORT, ["broker.example"], "broker.example:8080", 200),
        ("http", PORT, ["broker.example"], "broker.example", 200),  # through a proxy
        ("http", PORT, ["https://broker.example"], "broker.example", 200),
        ("http", PORT, ["https://broker.example"], "broker.example:8080", 421),
        ("http", PORT, ["broker.example:9443"], "broker.example", 421),
        ("http", PORT, ["broker.example"], "broker.example:9443", 421),
        ("http", PORT, ["broker.example"], "localhost", 421),
        ("http", PORT, ["broker.example:80"], "broker.example:80", 200),
        ("https", 443, ["broker.example"], "broker.example", 200),
        ("http", 443, [], "localhost", 421),
    ],
)
async def test_more_names_are_those_that_were_allowed(scheme, port, allowed, host, status):
    assert (await browser(scheme, port, allowed).get("/", host=host)).status == status


@pytest.mark.parametrize(
    ("scheme", "allowed", "origin", "status"),
    [
        ("http", "broker.example", "https://broker.example", 200),
        ("http", "broker.example", "http://broker.example", 200),
        ("http", "broker.example:9443", "https://broker.example:9443", 200),
        ("http", "https://broker.example", "https://broker.example", 200),
        ("http", "https://broker.example", "http://broker.example", 403),
        ("http", "broker.example", "https://broker.example:9443", 403),
        ("http", "broker.example", "https://broker.example.evil.example", 403),
        ("https", "broker.example", "https://broker.example", 200),
        ("https", "broker.example", "http://broker.example", 403),
    ],
)
async def test_a_page_behind_a_proxy_posts_with_the_origin_of_the_proxy(
    scheme, allowed, origin, status
):
    page = browser(scheme, allowed=[allowed])
    host = allowed.rpartition("/")[2]
    assert (await page.post("/publish", host=host, origin=origin)).status == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://127.0.0.1:8080"}, 200),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"content-type": "application/json; charset=utf-8"}, 200),
        ({"origin": ""}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "https://localhost:8080"}, 403),
        ({"origin": "http://localhost:3000"}, 403),
        ({"x-zaichik": ""}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-length": ""}, 411),
        ({"content-length": "-1"}, 411),
        ({"content-length": "", "transfer-encoding": "chunked"}, 411),  # a body without an end
        ({"transfer-encoding": "chunked"}, 400),  # or is it with one?
        ({"content-length": "٣"}, 411),
        ({"content-length": str(MAX_BODY)}, 200),
        ({"content-length": str(MAX_BODY + 1)}, 413),
        ({"content-length": "9" * 5000}, 413),
    ],
)
async def test_only_the_page_itself_can_post(headers, status):
    scope = browser()._scope("POST", "/publish", POSTED | headers)
    scope["headers"] = [
        (name, value.replace("٣".encode(), b"\xb2")) for name, value in scope["headers"]
    ]
    statuses = []

    async def send(message):
        statuses.append(message.get("status"))

    await Guard(behind, PORT)(scope, None, send)
    assert statuses[0] == status


async def test_another_site_can_link_to_the_page_and_do_nothing_else():
    from_elsewhere = {"sec-fetch-site": "cross-site"}
    assert (await browser().get("/", sec_fetch_mode="navigate", **from_elsewhere)).status == 200
    assert (await browser().get("/", sec_fetch_mode="no-cors", **from_elsewhere)).status == 403
    assert (
        await browser().get("/state", sec_fetch_mode="navigate", **from_elsewhere)
    ).status == 403
    assert (await browser().get("/state", sec_fetch_site="same-site")).status == 403


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "TRACE"])
async def test_other_methods_are_not_answered(method):
    assert (await browser().get("/", method, origin=OURS)).status == 405


@pytest.mark.parametrize("host", ["localhost:8080", "evil.example"])
async def test_every_answer_forbids_the_browser_all_that_the_page_does_not_need(host):
    headers = (await browser().get("/", host=host)).headers
    assert headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert (
        headers["cross-origin-opener-policy"]
        == headers["cross-origin-resource-policy"]
        == "same-origin"
    )
    assert headers["cache-control"] == "no-store"
    assert not [name for name in headers if name.startswith("access-control")]


async def test_two_hosts_are_none():
    scope = browser()._scope("GET", "/", {})
    scope["headers"].append((b"host", b"evil.example"))
    statuses = []

    async def send(message):
        statuses.append(message.get("status"))

    await Guard(behind, PORT)(scope, None, send)
    assert statuses[0] == 421


async def test_a_websocket_is_not_answered():
    await Guard(behind, PORT)({"type": "websocket", "headers": []}, None, None)
