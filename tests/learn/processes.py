"""Small programs for the tester to start: each a server that goes wrong, or right, in one way."""

import sys

PYTHON = [sys.executable, "-E", "-S"]  # starts in a fraction of the time

LISTEN = """
import os, signal, socket, sys, time
port = int(os.environ.get("PORT") or sys.argv[1])
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", port))
print("listening", port, flush=True)  # whoever can connect can read it
listener.listen()
clients = []
def serve():
    while True:
        clients.append(listener.accept()[0])
"""

PROGRAMS = {
    "listens": LISTEN + "serve()\n",
    "ignores_sigterm": "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    + LISTEN
    + "serve()\n",
    "leaves_a_child": f"""
import subprocess, sys
deaf = "import signal\\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\\n"
deaf += {LISTEN!r} + "serve()\\n"
subprocess.call([sys.executable, "-E", "-S", "-c", deaf])
""",
    "exits_early": "print('no config')\nraise SystemExit(3)\n",
    "leaves_the_foreground": "",
    "writes_much": (
        "print('first ' + 'x' * 99)\nfor _ in range(20_000): print('x' * 99)\nprint('last')\n"
    )
    + LISTEN
    + "serve()\n",
    "crashes": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n",
    "never_listens": (
        "import os, time\nopen('pid', "
        "'w').write(str(os.getpid()))\nprint('thinking')\ntime.sleep(60)\n"
    ),
    "listens_once": "import os, sys\ntry:\n    os.mkdir(sys.argv[1] + '/mine')\n"
    "except FileExistsError:\n    print('was here before')\n    sys.exit(3)\n"
    + LISTEN
    + "serve()\n",
    "hangs_the_second_time": "import os, sys, time\ntry:\n    os.mkdir(sys.argv[1] + '/mine')\n"
    "except FileExistsError:\n    print('thinking again', flush=True)\n    time.sleep(60)\n"
    + LISTEN
    + "serve()\n",
    "exits_after_a_client": LISTEN + "for _ in range(3):\n    listener.accept()\nprint('enough')\n",
}


def write(folder, name, *, start=20, stop=20, argument="", variable="PORT"):
    """A folder with a learn.toml that starts this program. Returns the path of the learn.toml."""
    (folder / "server.py").write_text(PROGRAMS[name], encoding="utf-8")
    command = ", ".join(
        f'"{word}"' for word in [*PYTHON, "server.py", *([argument] if argument else [])]
    )
    path = folder / "learn.toml"
    times = f"start_seconds = {start}\nstop_seconds = {stop}\n"
    path.write_text(
        f'[server]\ncommand = [{command}]\nport_variable = "{variable}"\n{times}', encoding="utf-8"
    )
    return path
