"""*Bring your own client*: every command of the page is typed, and shows what the page shows."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from chapter import TUTORIAL
from fences import INTERRUPTION, Instruction, fences
from sybil import Document
from terminals import Terminals, is_as_shown

from zaichik.learn.server import free_port

pytestmark = [pytest.mark.gateways, pytest.mark.unmeasured]

PAGE = TUTORIAL / "bring-your-own-client.md"
NEW_FILE = re.compile(r"New file `(?P<name>[^`]+)`")

# What `umqtt.simple` offers, as far as the page uses it, on another client.
STAND_IN = '''\
"""Stands in for MicroPython's umqtt.simple where there is no MicroPython."""

from paho.mqtt import client as paho


class MQTTClient:
    def __init__(self, client_id, server, port=0):
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id)
        self._address = server, port or 1883

    def connect(self):
        self._client.connect(*self._address)
        self._client.loop_start()

    def publish(self, topic, msg, retain=False, qos=0):
        self._client.publish(topic.decode(), msg, qos, retain).wait_for_publish(30)

    def disconnect(self):
        self._client.disconnect()
        self._client.loop_stop()
'''


def has_micropython() -> bool:
    """Whether MicroPython is here, with its client of MQTT."""
    if shutil.which("micropython") is None:
        return False
    words = ["micropython", "-c", "import umqtt.simple"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def stand_in(folder: Path) -> Path:
    """A folder with a `micropython` that is this Python, with a stand-in for umqtt.simple."""
    (folder / "umqtt").mkdir(parents=True)
    (folder / "umqtt" / "simple.py").write_text(STAND_IN, encoding="utf-8")
    program = folder / "micropython"
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} "$@"\n', encoding="utf-8"
    )
    program.chmod(0o755)
    return folder


@pytest.fixture
def needs(tmp_path, monkeypatch):
    """What the page needs is here."""
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    if not has_micropython():
        pytest.importorskip("paho.mqtt.client")
        path = f"{stand_in(tmp_path / 'bin')}{os.pathsep}{os.environ['PATH']}"
        monkeypatch.setenv("PATH", path)


def page() -> Document:
    """The page, with ports that are free."""
    web, mqtt = two_ports()
    free = {"8080": web, "1883": mqtt}
    # All in one pass: a port that is free may have the other's digits in it.
    text = re.sub("8080|1883", lambda port: str(free[port[0]]), PAGE.read_text(encoding="utf-8"))
    return Document(text, str(PAGE))


def two_ports() -> tuple[int, int]:
    """Two free ports that differ."""
    first = second = free_port()
    while second == first:
        second = free_port()
    return first, second


def test_what_the_page_shows_is_what_happens(needs, tmp_path):
    folder = tmp_path / "reader"
    folder.mkdir()
    document = page()
    terminals = Terminals(folder)

    def act(fence) -> None:
        """Write a file, or type commands and compare."""
        new = NEW_FILE.fullmatch(fence.caption)
        if new:
            (folder / new["name"]).write_text(fence.text, encoding="utf-8")
        elif fence.language == "console":
            came = terminals.type(fence)
            assert is_as_shown(fence.text, came), f"it shows\n{fence.text}\nand this came\n{came}"

    steps = [(region.start, lambda fence=fence: act(fence)) for region, fence in fences(document)]
    steps += [
        (region.start, lambda told=region.parsed: terminals.interrupt(told["terminal"]))
        for region in Instruction(INTERRUPTION, lambda _example: None)(document)
    ]
    try:
        for _, step in sorted(steps, key=lambda each: each[0]):
            step()
    finally:
        terminals.close()


def test_the_page_has_a_sensor_and_a_script():
    """So that what is run above is not less than it seems."""
    captions = [fence.caption for _, fence in fences(page())]
    assert captions.count("New file `sensor.py`") == captions.count("New file `report.sh`") == 1
