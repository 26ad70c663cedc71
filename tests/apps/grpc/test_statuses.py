"""The table of statuses has every code there is, and no other."""

import re
from pathlib import Path

import zaichik.client.errors as client_errors
from zaichik import ZaichikError
from zaichik.apps.grpc.statuses import STATUSES, status_of
from zaichik_protocol import EndCode, Error, ErrorCode, GoAwayCode

PAGE = Path(__file__).parents[3] / "docs" / "use" / "grpc.md"

# What ends a subscription that was to end there, which this gateway never asks for.
UNUSED = {"UNTIL"}


def test_every_code_of_the_protocol_has_a_status():
    codes = {code.name for codes in (ErrorCode, EndCode, GoAwayCode) for code in codes}
    assert codes - UNUSED - STATUSES.keys() == set()


def test_every_error_of_the_client_has_a_status():
    names = {
        kind.name
        for kind in vars(client_errors).values()
        if isinstance(kind, type) and issubclass(kind, ZaichikError) and kind.name
    }
    # Its name is always that of a code.
    names.remove("SUBSCRIPTION_LOST")
    assert names - STATUSES.keys() == set()


def test_it_has_no_code_that_nothing_has():
    codes = {code.name for codes in (ErrorCode, EndCode, GoAwayCode) for code in codes}
    assert STATUSES.keys() - codes == {
        "CLUSTER_MAP_UNUSABLE",
        "CONNECT_FAILED",
        "CONNECTION_LOST",
        "NOT_LOSSLESS",
        "REPLICATION_LOST",
        "TOPIC_SHRUNK",
        "UNEXPECTED_REPLY",
    }


def test_a_code_of_a_later_version_is_unknown():
    error = zaichik_error(code=4711)
    assert status_of(error).name == "UNKNOWN"


def zaichik_error(code):
    return client_errors.BrokerError.of(Error(0, code, 0, "", 0, "something new"))


def test_what_may_succeed_later_is_told_from_what_never_will():
    """A retryable code has one of the two statuses that callers retry."""
    for code in ErrorCode:
        if code.retryable:
            assert STATUSES[code.name].name in {"UNAVAILABLE", "RESOURCE_EXHAUSTED"}, code


def test_the_page_has_the_same_table():
    row = r"^\| `([A-Z_]+)` \| (`.*`) \|"
    told = {}
    for status, codes in re.findall(row, PAGE.read_text("utf-8"), re.MULTILINE):
        told |= dict.fromkeys(re.findall(r"`([A-Z_]+)`", codes), status)
    assert told == {code: status.name for code, status in STATUSES.items()}
