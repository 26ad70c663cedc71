"""What is wrong with a wheel or a source archive, without installing it: one sentence for each
fault.

A file that is missing, or that doesn't belong, is found by its name; one that was changed after the
build, by the wheel's own RECORD.
"""

import base64
import csv
import hashlib
import io
import re
import tarfile
import zipfile
from collections.abc import Collection, Iterator
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

from .project import Project

SHOWN = 5  # names in one sentence
EXTENSIONS = (".so", ".pyd")
RELATIVE_LINK = re.compile(r"\]\((?![a-z]+:)([^)]*)\)")


def wheel_faults(path: Path, project: Project, *, compiled: bool) -> Iterator[str]:
    """Yield what is wrong with a wheel."""
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        extensions = {name for name in names if name.endswith(EXTENSIONS)}
        yield from _compared(names - extensions, project.in_wheel())
        yield from _extension_faults(extensions, project, compiled=compiled)
        yield from _record_faults(wheel, f"{project.dist_info}/RECORD")
        yield from _tag_faults(
            path, _message(wheel, f"{project.dist_info}/WHEEL"), compiled=compiled
        )
        yield from metadata_faults(_message(wheel, f"{project.dist_info}/METADATA"), project)


def sdist_faults(path: Path, project: Project) -> Iterator[str]:
    """Yield what is wrong with a source archive."""
    about = f"{project.sdist_root}/PKG-INFO"
    with tarfile.open(path) as archive:
        names = set(archive.getnames())
        file = archive.extractfile(about) if about in names else None
        metadata = BytesParser().parse(file) if file else Message()
    yield from _compared(names, project.in_sdist())
    yield from metadata_faults(metadata, project)


def metadata_faults(metadata: Message, project: Project) -> Iterator[str]:
    """Yield what the metadata says otherwise than `pyproject.toml`."""
    promised = {
        "Name": project.name,
        "Version": project.version,
        "Requires-Python": project.requires_python,
    }
    for field, value in promised.items():
        if metadata[field] != value:
            yield f"its metadata says {field}: {metadata[field]}, and pyproject.toml says {value}"
    extras = set(metadata.get_all("Provides-Extra", []))
    if extras != project.extras:
        yield f"its extras are {_some(extras)}, and pyproject.toml has {_some(project.extras)}"
    if not metadata.get_all("Project-URL", []):
        yield "its metadata has no project URLs"
    description = str(metadata.get_payload())
    if not description.strip():
        yield "its metadata has no description"
    if relative := set(RELATIVE_LINK.findall(description)):
        yield f"its description has links that lead nowhere from an index: {_some(relative)}"


def differences(one: Path, other: Path) -> Iterator[str]:
    """Yield in what two wheels differ that should be the same."""
    with zipfile.ZipFile(one) as first, zipfile.ZipFile(other) as second:
        names, others = set(first.namelist()), set(second.namelist())
        if names != others:
            yield f"only one of them has {_some(names ^ others)}"
        if changed := {name for name in names & others if first.read(name) != second.read(name)}:
            yield f"they have different bytes in {_some(changed)}"


def _compared(names: set[str], expected: set[str]) -> Iterator[str]:
    if missing := expected - names:
        yield f"it lacks {_some(missing)}"
    if extra := names - expected:
        yield f"it has {_some(extra)}, which should not be there"


def _extension_faults(extensions: set[str], project: Project, *, compiled: bool) -> Iterator[str]:
    """A pure wheel has none; a compiled one has a module for each hot file, and one with the code
    of all.
    """
    if not compiled:
        if extensions:
            yield f"it is pure Python, but has {_some(extensions)}"
        return
    modules = {name.partition(".")[0].replace("/", ".") for name in extensions}
    expected = {*project.hot_modules(), f"{project.name}__mypyc"}
    if missing := expected - modules:
        yield f"it lacks the extension modules {_some(missing)}"
    if extra := modules - expected:
        yield f"it has the extension modules {_some(extra)}, which should not be there"


def _record_faults(wheel: zipfile.ZipFile, record: str) -> Iterator[str]:
    """RECORD names every file with its hash; it has none itself."""
    names = set(wheel.namelist())
    if record not in names:
        return  # was missing already
    rows = {
        name: digest for name, digest, _ in csv.reader(io.StringIO(wheel.read(record).decode()))
    }
    if names != rows.keys():
        yield f"RECORD and the wheel disagree on {_some(names ^ rows.keys())}"
    if wrong := {
        name for name in names & rows.keys() - {record} if rows[name] != _digest(wheel.read(name))
    }:
        yield f"RECORD has another hash for {_some(wrong)}"


def _tag_faults(path: Path, about: Message, *, compiled: bool) -> Iterator[str]:
    """The tag in the name decides who may install the wheel."""
    tag = "-".join(path.name.removesuffix(".whl").split("-")[-3:])
    told = about.get_all("Tag", [])
    if sorted(told) != sorted(_tags(tag)):
        yield f"its name says {tag}, and its file WHEEL says {_some(told)}"
    if "-linux_" in tag:
        yield f"its tag is {tag}, which the package index refuses"
    if (tag == "py3-none-any") == compiled:
        yield f"its tag is {tag}, but it should be {'compiled' if compiled else 'pure Python'}"
    if about["Root-Is-Purelib"] != ("false" if compiled else "true"):
        yield f"its file WHEEL says Root-Is-Purelib: {about['Root-Is-Purelib']}"


def _tags(name: str) -> set[str]:
    """Returns the tags that a name stands for: a dot separates several platforms."""
    python, abi, platforms = name.split("-")
    return {f"{python}-{abi}-{platform}" for platform in platforms.split(".")}


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def _message(wheel: zipfile.ZipFile, name: str) -> Message:
    """What is missing is empty here; that it is missing was found by its name."""
    return BytesParser().parsebytes(wheel.read(name) if name in wheel.namelist() else b"")


def _some(names: Collection[str]) -> str:
    shown = sorted(names)[:SHOWN]
    return (", ".join(shown) or "nothing") + (
        f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    )
