"""The table of limits, as `zaichik serve` and `zaichik describe` show it."""

import io
from dataclasses import asdict, fields

import pytest
from rich.console import Console

from zaichik.broker.settings import BrokerSettings, TopicSettings
from zaichik.console import limits

SETTINGS = [*BrokerSettings().limits(), *(field.name for field in fields(TopicSettings))]


@pytest.mark.parametrize("name", SETTINGS)
def test_every_limit_and_default_has_a_row(name):
    file = io.StringIO()
    Console(file=file, width=200).print(limits.table(BrokerSettings().limits(), asdict(TopicSettings())))
    shown = name.removesuffix("_ms").replace("_", " ")
    assert shown in file.getvalue().replace("_", " ")
