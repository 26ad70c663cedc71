"""What `zaichik learn init` writes: a learn.toml, and for Python a server to start from."""

from pathlib import Path

from zaichik.learn import config

TOML = """\
# How `zaichik learn` starts your broker: in this folder. It must listen on 127.0.0.1, and is
# stopped with SIGTERM. It gets its port in two ways; use the one that suits you:
#   - the environment variable below holds the port (in Go, os.Getenv("PORT"); in Rust,
#     std::env::var("PORT"));
#   - {{port}} in the command is replaced by it.
# If it keeps durable topics, {{data}} in the command is replaced by a folder for them, which is
# empty at first and removed in the end. Some checks of S16 then kill your broker, and restart it
# with the same port and folder.

[server]
command = {command}
port_variable = "PORT"
start_seconds = 10      # how long it may take to listen; allow more if the command compiles
stop_seconds = 5        # how long it may take to end after SIGTERM

# `zaichik learn watch` runs the checks when a file below this folder changes. It ignores hidden
# folders, logs (*.log) and compilers' output (target, build, dist, out, bin, obj, zig-out). Let
# your broker write anything else elsewhere.

# Other commands:
#   command = ["python3", "tiny_broker.py", "{{port}}"]
#   command = ["node", "broker.mjs", "{{port}}"]                                  # Node
#   command = ["sh", "-c", "go build -o bin/broker . && exec bin/broker"]         # Go
#   command = ["sh", "-c", "cargo build --quiet && exec target/debug/my-broker"]  # Rust
#   command = ["zaichik", "serve", "--port", "{{port}}"]   # to see how it looks in the end
#   command = ["zaichik", "serve", "--port", "{{port}}", "--data", "{{data}}"]  # ... and durable
#
# `exec` replaces the shell with your broker: it gets the SIGTERM itself, and its exit code is the
# one that is reported.
"""

PYTHON = '''\
"""My broker."""

import os
import socket

PORT = int(os.environ["PORT"])


def main() -> None:
    """Listen. What clients send is not read yet: that is stage S1."""
    clients = []
    with socket.create_server(("127.0.0.1", PORT)) as listener:
        while True:
            client, _ = listener.accept()
            clients.append(client)


if __name__ == "__main__":
    main()
'''

PYTHON_COMMAND = '["python3", "broker.py"]'
OTHER_COMMAND = '["./my-broker"]'


def init(folder: Path, *, python: bool) -> list[Path]:
    """Prepare a folder. Existing files stay as they are.

    Returns:
        the files that were written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {config.FILE_NAME: TOML.format(command=PYTHON_COMMAND if python else OTHER_COMMAND)}
    if python:
        files["broker.py"] = PYTHON
    written = [folder / name for name in files if not (folder / name).exists()]
    for path in written:
        path.write_text(files[path.name], encoding="utf-8")
    return written
