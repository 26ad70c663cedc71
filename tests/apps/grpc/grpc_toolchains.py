"""Programs and libraries that a client in another language is made with, kept in a cache.

What a machine lacks, or cannot download, skips the test that needs it, with the reason. What is
wrong with what they make is a failure of that test.
"""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from benchmarks.obtain import CACHE, Unobtainable, downloaded  # noqa: E402 - not installed

HERE = Path(__file__).parent / "toolchains"
GO_PROGRAMS = CACHE / "grpc"
SECONDS = 600.0
# Versions in the path, so that another one is another file.
PROTOC_GEN_GO = "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12"
PROTOC_GEN_GO_GRPC = "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.0"
GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3"


def go_program(package: str) -> Path:
    """Returns a program in Go, after compiling it if the cache has none."""
    needed("go")
    name, _, version = package.rpartition("/")[2].partition("@")
    target = GO_PROGRAMS / version / name
    if not target.exists():
        go("install", package, GOBIN=str(target.parent))
    return target


def go(*words: str, cwd: Path = HERE, **variables: str) -> None:
    """Have Go download something, or compile what it downloads."""
    done = subprocess.run(
        ["go", *words],
        cwd=cwd,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"go {' '.join(words)} fails: {done.stderr.strip()[-300:]}")


def jars() -> tuple[Path, Path, list[Path]]:
    """Returns protoc, its plugin for Java, and the libraries, from Maven Central."""
    needed("java")
    needed("javac")
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("the pinned protoc is for Linux on x86-64")
    lines = (HERE / "jars.txt").read_text(encoding="utf-8").splitlines()
    try:
        paths = [downloaded(*line.split()) for line in lines if not line.startswith("#")]
    except Unobtainable as error:
        pytest.skip(str(error))
    protoc, plugin, *libraries = paths
    return protoc, plugin, libraries


def needed(program: str) -> None:
    """Skip the test where there is no such program."""
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program} here")
