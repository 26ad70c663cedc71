"""What users read does not depend on how Python was started."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from zaichik.base import docstrings
from zaichik.cli.main import COMMANDS

ROOT = Path(docstrings.__file__).parent.parent


WORDS = [
    *([name, "--help"] for name in COMMANDS),
    ["learn", "list"],
    ["learn", "list", "S5"],
    ["learn", "list", "S5.2"],
]
# One program for all of them, as starting a program takes longer than what it shows.
SHOW_ALL = """
import contextlib, io, json, sys
from zaichik.cli.main import main

shown = {}
for words in json.load(sys.stdin):
    sys.argv[1:] = words
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.suppress(SystemExit):
        main()
    shown[" ".join(words)] = output.getvalue()
print(json.dumps(shown))
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What is shown with docstrings and without them, by the words of the command."""
    folder = tmp_path_factory.mktemp("empty")
    outputs = []
    for options in ([], ["-OO"]):
        program = subprocess.run(
            [sys.executable, *options, "-c", SHOW_ALL],
            input=json.dumps(WORDS),
            capture_output=True,
            text=True,
            check=True,
            cwd=folder,
            env={**os.environ, "COLUMNS": "80"},
        )
        outputs.append(json.loads(program.stdout))
    return outputs


@pytest.mark.parametrize("words", [" ".join(words) for words in WORDS])
def test_the_same_is_shown_without_docstrings(words, shown):
    with_docstrings, without = shown
    assert with_docstrings[words] == without[words] != ""


def test_functions_and_modules_without_one():
    module = sys.modules[__name__]
    assert docstrings.of_module(__name__) == module.__doc__
    assert docstrings._in_source(module) == module.__doc__
    assert docstrings.of_function(test_functions_and_modules_without_one) == ""
    assert docstrings._in_source(docstrings.of_module).startswith("Returns a module's docstring")
    assert docstrings._in_source(len) == "", "it has no source"


def test_nothing_else_reads_docstrings():
    reading = [
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if re.search(r"__doc__|\bgetdoc\b|\bget_docstring\b", path.read_text(encoding="utf-8"))
    ]
    assert sorted(reading) == ["base/docstrings.py", "learn/docstrings.py"]
