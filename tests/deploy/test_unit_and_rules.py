"""The unit for systemd, as systemd judges it, and what the page for operators says of unit and
alerts.
"""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from zaichik.cli.main import EPILOG, main
from zaichik.server.server import Server

pytestmark = pytest.mark.unmeasured

ROOT = Path(__file__).parents[2]
UNIT, RULES = ROOT / "deploy" / "zaichik.service", ROOT / "deploy" / "prometheus" / "alerts.yml"
FRONT_END = ROOT / "deploy" / "zaichik-mqtt.service"
PAGE = ROOT / "docs" / "run" / "operations.md"
EXPOSURE = 11  # of 100, as systemd counts it; most of what is left is the network
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze"
)


@pytest.fixture(params=[UNIT, FRONT_END], ids=lambda unit: unit.stem)
def unit(request, tmp_path):
    """A unit, with a program that is there."""
    path = tmp_path / request.param.name
    text = request.param.read_text(encoding="utf-8")
    path.write_text(text.replace("/opt/zaichik/bin/zaichik", sys.executable))
    return path


def setting(name):
    (value,) = re.findall(rf"^{name}=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    return value


def analyzed(*words):
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, check=False)


@needs_systemd
def test_systemd_understands_every_line(unit):
    result = analyzed("verify", "--man=no", unit)
    assert (result.returncode, result.stdout + result.stderr) == (0, "")


def test_it_waits_for_addresses_and_for_the_time():
    """Or a start at boot fails where --host is not up yet, and the clock is set under it."""
    for name in ("Wants", "After"):
        assert setting(name).split() == ["network-online.target", "time-sync.target"]


@pytest.mark.anyio
async def test_a_stop_is_given_more_time_than_it_may_take(tmp_path):
    """Or else the broker is killed before its disk and its clients have had theirs."""
    server = await Server.listening("127.0.0.1", 0, data=tmp_path)
    await server.aclose()
    assert server.longest_stop_s == 31, "what the comment in the unit adds up"
    (docker,) = re.findall(r"docker stop --time (\d+) ", PAGE.read_text(encoding="utf-8"))
    for seconds in (setting("TimeoutStopSec"), docker):
        assert int(seconds) > server.longest_stop_s + 10, "checkpoints take time, too"


@needs_systemd
def test_little_of_the_machine_is_exposed(unit):
    result = analyzed("security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE}", unit)
    assert result.returncode == 0, result.stdout


def test_it_serves_others_with_access_control_or_not_at_all(tmp_path, capsys):
    program, *words = shlex.split(setting("ExecStart"))
    assert "--insecure" not in words
    assert program == "/opt/zaichik/bin/zaichik"
    words = [
        word.replace("/etc/", f"{tmp_path}/").replace("/var/lib/", f"{tmp_path}/") for word in words
    ]
    (tmp_path / "zaichik").mkdir()
    assert main([*words, "--port", "0"]) == 1
    assert "--init-access" in capsys.readouterr().err


def test_the_page_names_every_exit_code_and_after_which_it_is_not_started_again():
    rows = dict(
        re.findall(r"^\| (\d+) \|.*\| (yes|no) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert setting("RestartPreventExitStatus").split() == [
        code for code, again in rows.items() if again == "no"
    ]
    assert set(re.findall(r"^  (\d+) ", EPILOG.partition("exit codes:")[2], re.MULTILINE)) == {
        *rows,
        "0",
    }


def test_the_page_says_what_to_do_about_every_alert():
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8"))
    assert alerts
    assert (
        re.findall(r"^\| `(Zaichik\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
        == alerts
    )
