"""A package index shows README.md with links that lead to the repository."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.unmeasured

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETTINGS = {
    **PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["custom"],
    "repository": "https://forge.invalid/zaichik",
}

TARGET = re.compile(r"\]\(([^)]+)\)")
BLOB = "https://forge.invalid/zaichik/blob/v0.3.0"

_spec = importlib.util.spec_from_file_location("hatch_metadata", ROOT / "hatch_metadata.py")
hatch_metadata = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(hatch_metadata)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "[all](docs/README.md)",
            f"[all]({BLOB}/docs/README.md)",
        ),
        (
            "[`a`](a.py), [b](b)",
            f"[`a`]({BLOB}/a.py), [b]({BLOB}/b)",
        ),
        ("[run](#run)", f"[run]({BLOB}/README.md#run)"),
        (
            "![A ring](docs/ring.svg)",
            "![A ring](https://forge.invalid/zaichik/raw/v0.3.0/docs/ring.svg)",
        ),
        ("[there](https://example.org/x)", "[there](https://example.org/x)"),
        ("<http://127.0.0.1:8080>", "<http://127.0.0.1:8080>"),
        (
            "a [link\nof two lines](x.md)",
            f"a [link\nof two lines]({BLOB}/x.md)",
        ),
    ],
)
def test_a_link_leads_to_the_repository_at_this_version(text, shown):
    assert hatch_metadata.with_absolute_links(text, SETTINGS, "0.3.0") == shown


def test_the_address_of_the_repository_is_one_setting():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = hatch_metadata.with_absolute_links(text, SETTINGS, "0.3.0")
    addresses = hatch_metadata.urls(SETTINGS, "0.3.0").values()
    relative = [target for target in TARGET.findall(text) if "://" not in target]
    assert found.count("](https://forge.invalid/zaichik/") == len(relative) > 0
    assert all(address.startswith("https://forge.invalid/zaichik") for address in addresses)
    assert "example.org" not in found
