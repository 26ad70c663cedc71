"""What a learner's program finds in its environment."""

import pytest

from zaichik.learn import config, lab
from zaichik.learn.environment import for_program
from zaichik.learn.server import Server

CANARY = "zk_" + "Canary-" * 6 + "x"
PIN = "?pin=sha256:" + "0a" * 32
SECRETS = {
    "ZAICHIK_TOKEN": CANARY,
    "ZAICHIK_TOKEN_FILE": "/Canary",
    "ZAICHIK_PASSWORD": "Canary",
    "ZAICHIK_PASSWORD_FILE": "/Canary",
    "ZAICHIK_CONNECT": f"zaichiks://{CANARY}@h:1{PIN}",
}
TELLING = """
import os, socket
own = [name for name in os.environ if name.startswith("ZAICHIK_")]
print(*(f"{name}={os.environ[name]}" for name in own), "told")
with socket.create_server(("127.0.0.1", int(os.environ["PORT"]))) as listener:
    while True:
        listener.accept()[0].close()
"""


def test_no_secret_and_all_else():
    ours = {"PATH": "/bin", "ZAICHIK_ACCESS": "access"} | SECRETS
    assert for_program("PORT", 5, ours) == {
        "PATH": "/bin", "ZAICHIK_ACCESS": "access", "PORT": "5", "PYTHONUNBUFFERED": "1",
    }  # fmt: skip


@pytest.mark.parametrize("address", ["h:1", "zaichiks://h:1", f"zaichiks://h:1{PIN}"])
def test_an_address_without_a_login_stays(address):
    assert for_program("PORT", 5, {"ZAICHIK_CONNECT": address})["ZAICHIK_CONNECT"] == address


@pytest.mark.parametrize(
    "address", ["zaichiks://ana:Canary@h:1", "zaichiks://ana@h:1", CANARY, f"{CANARY}:8889"]
)
def test_an_address_with_a_login_goes(address):
    assert "ZAICHIK_CONNECT" not in for_program("PORT", 5, {"ZAICHIK_CONNECT": address})


@pytest.fixture
def program(tmp_path, monkeypatch):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "broker.py"
    path.write_text(TELLING, encoding="utf-8")
    return path


def test_a_program_of_an_experiment_finds_no_secret(program):
    with lab.running(program) as broker:
        assert broker.output() == ["told"]


@pytest.mark.anyio
async def test_the_server_of_learn_toml_finds_no_secret(program, tmp_path):
    (tmp_path / "learn.toml").write_text(
        f'[server]\ncommand = "python3 {program}"\n', encoding="utf-8"
    )
    server = await Server.start(config.read(tmp_path / "learn.toml"))
    assert server.output() == "told"
    await server.terminate()
    server.close()
