"""What `zaichik learn init` writes: a learn.toml, and for Python a server to begin with."""

from pathlib import Path

from zaichik.learn import config

TOML = """\
# How `zaichik learn` starts your broker. It is started in this folder, must listen at 127.0.0.1, and is ended with
# SIGTERM. Where it is to listen, it is told twice; use what suits you:
#   - the environment variable below holds the port;
#   - {{port}} in the command is replaced by it.
# If it keeps durable topics, {{data}} in the command is replaced by a folder for them, which is empty at first and goes
# in the end. Then some checks of S16 kill your broker, and start it again with the same port and folder.

[server]
command = {command}
port_variable = "PORT"
start_seconds = 10      # how long it may take until it listens; with a compiler in the command, allow more
stop_seconds = 5        # and until it ends after SIGTERM

# `zaichik learn watch` runs the checks when a file below this folder changes. Hidden folders, logs (*.log) and what
# compilers build (target, build, dist, out, bin, obj, zig-out) do not count. Whatever else your broker writes, let it
# write elsewhere.

# Others:
#   command = ["python3", "tiny_broker.py", "{{port}}"]
#   command = ["sh", "-c", "go build -o bin/broker . && exec bin/broker"]             # Go: os.Getenv("PORT")
#   command = ["sh", "-c", "cargo build --quiet && exec target/debug/my-broker"]     # Rust: std::env::var("PORT")
#   command = ["zaichik", "serve", "--port", "{{port}}"]       # to see how it looks when all is done
#   command = ["zaichik", "serve", "--port", "{{port}}", "--data", "{{data}}"]       # the same with durable topics
#
# `exec` puts your broker in the shell's place: it gets the SIGTERM itself, and its exit code is the one reported.
"""

PYTHON = '''\
"""My broker."""

import os
import socket

PORT = int(os.environ["PORT"])


def main() -> None:
    """Listen. What clients say, nobody hears yet: that is stage S1."""
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
    """Make the folder ready. Files that are there stay as they are.

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
