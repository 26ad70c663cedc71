"""The conformance suite of Eclipse Paho, as it is, against the gateway.

`make test-gateways PAHO_TESTING=/path/to/a/clone` runs it, in three minutes. It is in no package
registry; the clone is of `paho.mqtt.testing`.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from mqtt_clients import mqtt_gateway

import zaichik

pytestmark = [pytest.mark.gateways, pytest.mark.unmeasured]

PAHO_TESTING = os.environ.get("PAHO_TESTING", "")

# What the standard leaves to servers, and the suite asks for.
EXPECTED = {
    "client_test.py": {
        "test_subscribe_failure": "a filter that nobody may use, which is a matter of rights",
    },
    "client_test5.py": {
        "test_subscribe_failure": "the same",
        "test_server_keep_alive": "a server that insists on a keep-alive of 60 seconds",
    },
}


@pytest.mark.parametrize("script", EXPECTED)
def test_nothing_fails_but_what_servers_may_choose(script, tmp_path, monkeypatch):
    if not PAHO_TESTING:
        pytest.skip("there is no PAHO_TESTING=/path/to/a/clone of paho.mqtt.testing")
    folder = tmp_path / "interoperability"
    shutil.copytree(Path(PAHO_TESTING) / "interoperability", folder)
    # It waits for seconds to pass.
    monkeypatch.setattr("mqtt_clients.GUARD", 600)
    monkeypatch.setattr(zaichik, "ManualClock", lambda _: zaichik.SystemClock())
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(mqtt_gateway()) as running,
    ):
        text = (folder / script).read_text(encoding="utf-8")
        text = text.replace("port = 1883", f"port = {running.gateway.port}")
        (folder / script).write_text(text, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, script], cwd=folder, capture_output=True, text=True, check=False
        )
    failed = set(re.findall(r"^(?:FAIL|ERROR): (\w+) \(", done.stderr, re.MULTILINE))
    assert re.search(r"^Ran \d+ tests", done.stderr, re.MULTILINE)
    assert failed == set(EXPECTED[script]), done.stderr
