"""curl, as in the documents: what a shell script sends and gets."""

import json
import shutil
import subprocess

import anyio
import pytest
from serving import broker_and_served

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        shutil.which("curl") is None, reason="there is no curl (Debian: apt install curl)"
    ),
]


@pytest.fixture
def anyio_backend():
    return "asyncio"  # uvicorn's only one


async def curl(*words, body=b"", check=True):
    command = ["curl", "--silent", "--show-error", "--no-buffer", "--max-time", "60", *words]
    done = await anyio.run_process(command, input=body, check=check, stderr=subprocess.STDOUT)
    return done.stdout.decode()


async def test_curl_publishes_and_reads():
    async with broker_and_served() as (client, port):
        topic = f"http://127.0.0.1:{port}/topics/orders"
        answer = json.loads(await curl("-d", "two apples", f"{topic}?key=alice"))
        assert answer == {"offset": 0, "compacted": False, "subscribers": 0, "durable": False}
        read = await curl(f"{topic}?start=earliest&until=1")
        epoch = (await client.topic("orders"))["epoch"]
        assert f"\nid: {epoch}-0\ndata: " in read
        assert '"key":"alice","payload":"two apples"' in read


async def test_a_file_is_a_payload_byte_by_byte():
    payload = bytes(range(256)) * 100
    async with broker_and_served() as (client, port):
        await curl("--data-binary", "@-", f"http://127.0.0.1:{port}/topics/orders", body=payload)
        async with client.subscribe("orders", until=1) as messages:
            assert [message.payload async for message in messages] == [payload]


async def test_an_upload_without_a_length_is_a_payload():
    async with broker_and_served() as (client, port):
        address = f"http://127.0.0.1:{port}/topics/orders"
        words = ("-X", "POST", "-H", "Transfer-Encoding: chunked", "--data-binary", "@-")
        await curl(*words, address, body=b"x" * 100_000)
        async with client.subscribe("orders", until=1) as messages:
            assert [len(message.payload) async for message in messages] == [100_000]


async def test_one_curl_is_piped_into_another():
    lines = b"".join(b'{"key":"k%d","payload":"%d"}\n' % (n, n) for n in range(100))
    sending = ("-H", "Content-Type: application/x-ndjson", "--data-binary", "@-")
    async with broker_and_served() as (client, port):
        topics = f"http://127.0.0.1:{port}/topics"
        assert json.loads(await curl(*sending, f"{topics}/orders", body=lines))["stored"] == 100
        accepting = ("-H", "Accept: application/x-ndjson")
        read = await curl(*accepting, f"{topics}/orders?start=earliest&until=100")
        assert (
            json.loads(await curl(*sending, f"{topics}/copy", body=read.encode()))["stored"] == 100
        )
        assert (await client.topic("copy"))["next_offset"] == 100


async def test_a_script_sees_by_the_exit_code_that_something_is_wrong():
    async with broker_and_served() as (_, port):
        with pytest.raises(subprocess.CalledProcessError) as caught:
            await curl("--fail-with-body", "-d", "x", f"http://127.0.0.1:{port}/topics/")
        assert caught.value.returncode == 22
        assert b'"NOT_FOUND"' in caught.value.output


async def test_a_body_that_is_too_large_is_refused_before_it_is_sent():
    async with broker_and_served() as (client, port):
        answer = await curl(
            "-H", "Expect: 100-continue", "--data-binary", "@-",
            "-w", "%{http_code} %{size_upload}",
            f"http://127.0.0.1:{port}/topics/orders", body=b"x" * 3_000_000,
        )  # fmt: skip
        assert answer.endswith("413 0")
        assert (await client.topic("orders"))["next_offset"] == 0
