"""Adds to the metadata what depends on where the repository is: project URLs, and the description.

The description is README.md, whose links are relative. They work in a clone and on a forge, but
would lead nowhere from a package index, so they are made absolute here, at the tag of this version.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# [text](target), or of a picture ![text](target).
LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
ABSOLUTE = re.compile(r"[a-z]+:")


class RepositoryMetadata(MetadataHookInterface):
    """Adds `urls` and `readme`.

    Its settings, in `pyproject.toml`:
        repository: the address of the repository.
        page: where a forge shows a file of it, with {repository}, {version} and {path}.
        raw: where it has the file itself, for pictures.
    """

    def update(self, metadata: dict[str, Any]) -> None:
        """Add them to the project's metadata."""
        version = metadata["version"]
        metadata["urls"] = urls(self.config, version)
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_absolute_links(text, self.config, version),
        }


def urls(settings: dict[str, str], version: str) -> dict[str, str]:
    """Returns the addresses that an index shows beside the description, by their labels."""
    repository = settings["repository"]
    return {
        "Source": repository,
        "Documentation": _address(settings["page"], settings, version, "docs/README.md"),
        "Changelog": _address(settings["page"], settings, version, "CHANGELOG.md"),
        "Issues": f"{repository}/issues",
    }


def with_absolute_links(text: str, settings: dict[str, str], version: str) -> str:
    """Returns the text of README.md, whose links lead to the repository from anywhere."""

    def absolute(link: re.Match[str]) -> str:
        target = link["target"]
        if ABSOLUTE.match(target):
            return link[0]
        # An index gives headings no names, so a place in this file is one in the repository, too.
        path = f"README.md{target}" if target.startswith("#") else target
        form = settings["raw"] if link["picture"] else settings["page"]
        address = _address(form, settings, version, path)
        return f"{link['picture']}[{link['text']}]({address})"

    return LINK.sub(absolute, text)


def _address(form: str, settings: dict[str, str], version: str, path: str) -> str:
    return form.format(repository=settings["repository"], version=version, path=path)
