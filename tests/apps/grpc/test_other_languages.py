"""Clients of others: what the page shows works, in Go, in Java and in a shell, word for word."""

import os
import re
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.streams.text import TextReceiveStream
from callers import ANA, gateway
from grpc_toolchains import (
    GRPCURL,
    HERE,
    PROTOC_GEN_GO,
    PROTOC_GEN_GO_GRPC,
    go,
    go_program,
    jars,
    needed,
)

from zaichik.apps.grpc import broker_pb2 as pb

pytestmark = [pytest.mark.anyio, pytest.mark.gateways]

PAGE = Path(__file__).parents[3] / "docs" / "use" / "grpc.md"
PROTO = Path(pb.__file__).parent / "broker.proto"
DEFAULT = "127.0.0.1:50051"


def blocks(language):
    """The blocks of the page in that language."""
    return re.findall(
        rf"^```{language}\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )


def commands(name):
    """What the page has a reader type that begins with this word."""
    typed = "\n".join(blocks("console")).replace("\\\n", " ")
    return [line[2:] for line in typed.splitlines() if line.startswith(f"$ {name} ")]


def program(folder, name, *words):
    """Have a name stand for a program, for what is run with this folder in its path."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f'#!/bin/sh\nexec {" ".join(map(str, words))} "$@"\n', encoding="utf-8")
    path.chmod(0o755)


def typed(command, folder):
    """What a shell prints that is given this, with `bin` beside the folder first in its path."""
    path = f"{folder.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def folder(tmp_path):
    """Where a client is made, with the declaration in it."""
    made = tmp_path / "example"
    made.mkdir()
    (made / "broker.proto").write_bytes(PROTO.read_bytes())
    return made


@asynccontextmanager
async def lines_of(*words, **variables):
    """The lines that a program prints, one at a time."""
    async with await anyio.open_process(
        [str(word) for word in words], env=os.environ | variables, stderr=None
    ) as process:

        async def lines():
            text = ""
            async for received in TextReceiveStream(process.stdout):
                *whole, text = (text + received).split("\n")
                for line in whole:
                    yield line

        try:
            yield lines()
        finally:
            process.kill()


async def committed(running, offset):
    """Wait until the reader called billing has got so far."""
    while True:
        found = await running.client.subscriptions("orders")
        if any(it["session"] == "billing" and it["committed"] == offset for it in found):
            return
        await anyio.lowlevel.checkpoint()


async def test_a_client_in_go_does_what_the_page_says(folder):
    """It logs in."""
    for name, package in (
        ("protoc-gen-go", PROTOC_GEN_GO),
        ("protoc-gen-go-grpc", PROTOC_GEN_GO_GRPC),
    ):
        program(folder.parent / "bin", name, go_program(package))
    program(folder.parent / "bin", "protoc", sys.executable, "-m", "grpc_tools.protoc", "-I.")
    (generate,) = [command for command in commands("protoc") if "--go_out" in command]
    assert typed(generate, folder).returncode == 0
    (source,) = blocks("go")
    (folder / "main.go").write_text(source, encoding="utf-8")
    for name in ("go.mod", "go.sum"):
        (folder / name).write_bytes((HERE / name).read_bytes())
    go("mod", "download", cwd=folder)
    built = typed("go vet . && go build -o orders .", folder)
    assert built.returncode == 0, built.stderr
    async with gateway("user *\nallow all *\n") as running:
        address = f"127.0.0.1:{running.port}"
        async with lines_of(folder / "orders", address, ZAICHIK_TOKEN=ANA) as lines:
            assert await anext(lines) == "stored from offset 0"
            assert await anext(lines) == "0: two apples"
            assert await anext(lines) == "1: a pear"
            await committed(running, 2)


async def test_a_client_in_java_does_what_the_page_says(folder):
    protoc, plugin, libraries = jars()
    for path in (protoc, plugin):
        path.chmod(0o755)
    program(folder.parent / "bin", "protoc", protoc)
    program(folder.parent / "bin", "protoc-gen-grpc-java", plugin)
    (generate,) = [command for command in commands("protoc") if "--java_out" in command]
    assert typed(f"mkdir generated && {generate}", folder).returncode == 0
    (source,) = blocks("java")
    (folder / "Orders.java").write_text(source, encoding="utf-8")
    class_path = os.pathsep.join(map(str, [folder / "out", *libraries]))
    built = typed(
        f"javac -d out -cp '{class_path}' Orders.java $(find generated -name '*.java')", folder
    )
    assert built.returncode == 0, built.stderr
    async with gateway() as running:
        words = ("java", "-cp", class_path, "Orders", f"127.0.0.1:{running.port}")
        async with lines_of(*words) as lines:
            assert await anext(lines) == "stored from offset 0"
            assert await anext(lines) == "0: two apples"
            await committed(running, 1)


async def test_grpcurl_does_what_the_page_says(folder):
    """By reflection; and errors are shown with their code."""
    program(folder.parent / "bin", "grpcurl", go_program(GRPCURL))
    create, publish, subscribe = commands("grpcurl")
    async with gateway() as running:
        here = f"127.0.0.1:{running.port}"

        async def run(command):
            assert DEFAULT in command
            return await anyio.to_thread.run_sync(typed, command.replace(DEFAULT, here), folder)

        assert '"created": true' in (await run(create)).stdout
        assert '"stored": 1' in (await run(publish)).stdout
        read = await run(subscribe)
        assert '"payload": "aGVsbG8="' in read.stdout
        wrong = await run(create.replace("3600000", "7"))
        assert "Code: AlreadyExists" in wrong.stderr
        assert "[TOPIC_EXISTS]" in wrong.stderr


def test_the_page_shows_a_program_in_each_language():
    """So that none of the others is skipped for want of what it looks for."""
    assert (len(blocks("go")), len(blocks("java")), len(commands("grpcurl"))) == (1, 1, 3)
    needed("sh")
