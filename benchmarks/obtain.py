"""Programs that package managers rarely have, fetched once into a cache directory and used from there.

Kafka's server is a list of files on Maven Central; each must have the checksum that `peers/kafka_jars.txt` gives.
`nats bench` is compiled by Go, which checks what it downloads against its own database of checksums.
"""

import hashlib
import os
import subprocess
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "zaichik-bench"
MAVEN_CENTRAL = "https://repo1.maven.org/maven2/"
KAFKA_JARS = Path(__file__).parent / "peers" / "kafka_jars.txt"
NATS_CLI = "github.com/nats-io/natscli/nats@v0.5.1"
DOWNLOAD_SECONDS = 60.0
COMPILE_SECONDS = 600.0


class Unobtainable(Exception):
    """A program cannot be had; the message says why."""


def kafka_jars() -> list[Path]:
    """The files of Kafka's server, for Java's class path; those not in the cache yet are downloaded (43 MB in all).

    Raises:
        Unobtainable: Maven Central cannot be reached, or a file differs from its checksum.
    """
    lines = [line for line in KAFKA_JARS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    pairs = [line.split() for line in lines]
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(lambda pair: downloaded(*pair), pairs))


def downloaded(checksum: str, path: str) -> Path:
    """The file of that path on Maven Central, downloaded if the cache has none.

    Raises:
        Unobtainable: it cannot be downloaded, or has another SHA-256 than `checksum`.
    """
    target = CACHE / "kafka" / path
    if target.exists():
        return target
    try:
        with urllib.request.urlopen(MAVEN_CENTRAL + path, timeout=DOWNLOAD_SECONDS) as response:  # noqa: S310 - https
            data: bytes = response.read()
    except OSError as error:
        raise Unobtainable(f"{MAVEN_CENTRAL}{path} cannot be downloaded: {error}") from error
    if hashlib.sha256(data).hexdigest() != checksum:
        raise Unobtainable(f"{MAVEN_CENTRAL}{path} is not the file it should be: its SHA-256 differs")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(f".{os.getpid()}.part")
    part.write_bytes(data)
    part.rename(target)  # whole or not at all, also if this program is ended now
    return target


def nats_cli() -> Path:
    """The program `nats`, compiled by Go if the cache has none: about a minute.

    Raises:
        Unobtainable: Go cannot compile it, or not download it.
    """
    target = CACHE / NATS_CLI.partition("@")[2] / "nats"
    if not target.exists():
        environment = {**os.environ, "GOBIN": str(target.parent)}
        command = ["go", "install", NATS_CLI]
        try:
            subprocess.run(
                command, env=environment, check=True, capture_output=True, text=True, timeout=COMPILE_SECONDS
            )
        except subprocess.CalledProcessError as error:
            last = error.stderr.strip().splitlines()[-1:] or ["no reason given"]
            raise Unobtainable(f"`{' '.join(command)}` failed: {last[0]}") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unobtainable(f"`{' '.join(command)}` failed: {error}") from error
    return target
