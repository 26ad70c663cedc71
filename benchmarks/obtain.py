"""Programs that package managers rarely have, fetched once into a cache directory and used from
there.

The servers of Kafka and ZooKeeper are lists of files on Maven Central; each must have the checksum
that `peers/kafka_jars.txt` or `peers/zookeeper_jars.txt` gives. `nats bench` is compiled by Go,
which checks what it downloads against its own database of checksums, and so is a NATS server that
can sync each message, if the installed one is older. zaichik's own compiled wheel is made there,
too, one for each state of the source.
"""

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "zaichik-bench"
MAVEN_CENTRAL = "https://repo1.maven.org/maven2/"
ROOT = Path(__file__).parent.parent
SOURCES = ("pyproject.toml", "hatch_*.py", "zaichik/**/*.py", "protocol/**/*.py")
KAFKA_JARS = Path(__file__).parent / "peers" / "kafka_jars.txt"
ZOOKEEPER_JARS = Path(__file__).parent / "peers" / "zookeeper_jars.txt"
NATS_CLI = "github.com/nats-io/natscli/nats@v0.5.1"
NATS_SERVER = "github.com/nats-io/nats-server/v2@v2.15.2"
DOWNLOAD_SECONDS = 60.0
COMPILE_SECONDS = 600.0


class Unobtainable(Exception):
    """A program could not be downloaded or compiled; the message says why."""


def kafka_jars() -> list[Path]:
    """Returns the files of Kafka's server, for Java's class path, after downloading those that are
    missing (43 MB).

    Raises:
        Unobtainable: Maven Central cannot be reached, or a file differs from its checksum.
    """
    return _jars(KAFKA_JARS)


def zookeeper_jars() -> list[Path]:
    """Returns the files of ZooKeeper's server, for Java's class path, after downloading those that
    are missing (7 MB).

    Raises:
        Unobtainable: Maven Central cannot be reached, or a file differs from its checksum.
    """
    return _jars(ZOOKEEPER_JARS)


def _jars(listed: Path) -> list[Path]:
    lines = [
        line for line in listed.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    ]
    pairs = [line.split() for line in lines]
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(lambda pair: downloaded(*pair), pairs))


def downloaded(checksum: str, path: str) -> Path:
    """Returns the cached file of that path on Maven Central, after downloading it if there is none.

    Raises:
        Unobtainable: it cannot be downloaded, or its SHA-256 is not `checksum`.
    """
    target = CACHE / "kafka" / path  # the first that was there
    if target.exists():
        return target
    try:
        with urllib.request.urlopen(MAVEN_CENTRAL + path, timeout=DOWNLOAD_SECONDS) as response:  # noqa: S310 - https
            data: bytes = response.read()
    except OSError as error:
        raise Unobtainable(f"{MAVEN_CENTRAL}{path} cannot be downloaded: {error}") from error
    if hashlib.sha256(data).hexdigest() != checksum:
        raise Unobtainable(f"{MAVEN_CENTRAL}{path} has the wrong SHA-256")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(f".{os.getpid()}.part")
    part.write_bytes(data)
    part.rename(target)  # so that an interrupted download leaves no half file
    return target


def nats_cli() -> Path:
    """Returns the program `nats`, after compiling it if the cache has none, which takes about a
    minute.

    Raises:
        Unobtainable: Go could not download or compile it.
    """
    return _go_program(NATS_CLI, "nats")


def nats_server() -> Path:
    """Returns a recent `nats-server`, after compiling it if the cache has none, which takes about a
    minute.

    Raises:
        Unobtainable: Go could not download or compile it.
    """
    return _go_program(NATS_SERVER, "nats-server")


def _go_program(package: str, name: str) -> Path:
    target = CACHE / package.partition("@")[2] / name
    if not target.exists():
        _compile(["go", "install", package], GOBIN=str(target.parent))
    return target


@functools.cache
def compiled_zaichik() -> Path:
    """Returns the folder with zaichik's packages of today's source, compiled, after making it if
    there is none.

    Raises:
        Unobtainable: the source could not be compiled.
    """
    digest = hashlib.sha256(sys.implementation.cache_tag.encode() + sys.prefix.encode())
    for path in sorted(path for pattern in SOURCES for path in ROOT.glob(pattern)):
        digest.update(path.read_bytes())
    target = CACHE / f"zaichik-{digest.hexdigest()[:16]}"
    if not target.exists():
        for older in CACHE.glob("zaichik-*"):
            shutil.rmtree(older)
        part = target.with_suffix(f".{os.getpid()}.part")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        _compile([*pip, "--target", str(part), str(ROOT)], ZAICHIK_COMPILE="1")
        part.rename(target)
    return target


def _compile(command: list[str], **variables: str) -> None:
    """Run a program that compiles something, with variables beside those that are there.

    Raises:
        Unobtainable: it failed.
    """
    environment = {**os.environ, **variables}
    try:
        subprocess.run(
            command,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=COMPILE_SECONDS,
        )
    except subprocess.CalledProcessError as error:
        last = error.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise Unobtainable(f"`{' '.join(command)}` failed: {last[0]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unobtainable(f"`{' '.join(command)}` failed: {error}") from error
