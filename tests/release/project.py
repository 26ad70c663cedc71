"""What a release must be: read once, from `pyproject.toml` and the repository, and never from what
was built.
"""

import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("zaichik/", "protocol/zaichik_protocol/")
REFUSED_FRAMES = (
    "protocol/vectors/invalid.json",
    "zaichik/learn/invalid.json",
)  # a file from elsewhere in the tree


@dataclass(frozen=True)
class Project:
    """What the files of a release are held against.

    Attributes:
        files: what the repository has, from its root; not what it ignores.
        hot: those of them that a compiled wheel has as extension modules, too.
        repository: its address, to which links of the description lead.
    """

    name: str
    version: str
    requires_python: str
    extras: frozenset[str]
    files: frozenset[str]
    hot: frozenset[str]
    repository: str = ""

    @classmethod
    def read(cls, root: Path) -> "Project":
        """Returns what the clone at `root` says."""
        pyproject = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        project = pyproject["project"]
        # New files count as well: that a release has no changes without a commit is another check.
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(
            command, cwd=root, check=True, capture_output=True, text=True, timeout=60
        )
        return cls(
            name=project["name"],
            version=project["version"],
            requires_python=project["requires-python"],
            extras=frozenset(project["optional-dependencies"]),
            files=frozenset(
                path for path in listed.stdout.split("\0") if path and (root / path).exists()
            ),
            hot=hot_files(
                root, pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
            ),
            repository=pyproject["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"],
        )

    @property
    def dist_info(self) -> str:
        """The folder of a wheel that tells what it is."""
        return f"{self.name}-{self.version}.dist-info"

    @property
    def data(self) -> str:
        """The folder of a wheel whose files go beside Python's packages."""
        return f"{self.name}-{self.version}.data"

    @property
    def sdist_root(self) -> str:
        """The one folder of the source archive."""
        return f"{self.name}-{self.version}"

    def in_wheel(self) -> set[str]:
        """Returns the names of what every wheel has."""
        packaged = {installed(path) for path in self.files if path.startswith(PACKAGES)}
        about = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
        packaged |= {REFUSED_FRAMES[1], f"{self.data}/data/share/man/man1/{self.name}.1"}
        return packaged | {f"{self.dist_info}/{name}" for name in about}

    def in_sdist(self) -> set[str]:
        """Returns the names of what the source archive has: the repository, without what only its
        own machines need.
        """
        tracked = {path for path in self.files if not path.startswith(".ci/")}
        return {f"{self.sdist_root}/{path}" for path in tracked | {"PKG-INFO"}}

    def hot_modules(self) -> list[str]:
        """Returns the names that programs import compiled files by."""
        return sorted(installed(path).removesuffix(".py").replace("/", ".") for path in self.hot)


def installed(path: str) -> str:
    """Returns where an installation has a file of the repository."""
    return path.removeprefix("protocol/")


def hot_files(root: Path, settings: Mapping[str, list[str]]) -> frozenset[str]:
    """Returns the files that the build hook compiles, read from its settings by a second reader of
    them.
    """
    found = set()
    for folder in settings["compile"]:
        for path in (root / folder).glob("*.py"):
            if path.suffix != ".py" or path.name == "__init__.py":
                continue
            lines = path.read_text(encoding="utf-8").split("\n")
            if not any(line.startswith("# Not compiled: ") for line in lines):
                found.add(str(path.relative_to(root)))
    return frozenset(found)
