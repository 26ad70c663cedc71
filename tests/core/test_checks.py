"""What a refusal of a request's fields says."""

import pytest

from zaichik.core.checks import MAX_NAME, check_name, check_subscribe
from zaichik.core.settings import BrokerSettings
from zaichik_protocol import Refused, Subscribe


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "it has 0 bytes; 1 to 200 are allowed"),
        ("ä" * MAX_NAME, "it has 400 bytes; 1 to 200 are allowed"),
        ("a\nb", "it contains control characters"),
    ],
)
@pytest.mark.parametrize(
    ("field", "what"), [("topic", "topic name"), ("name", "subscription name")]
)
def test_a_refused_name_says_of_what_it_is_and_why(field, what, name, problem):
    """TOP-4, CMT-3."""
    with pytest.raises(Refused) as refused:
        check_name(name, field)
    assert refused.value.field == field
    assert refused.value.message.startswith(f"{what} {name[:40]!r}")
    assert refused.value.message.endswith(f": {problem}")


def test_a_subscription_may_have_a_name_that_a_topic_may_not():
    """TOP-4: those beginning with $ are topics of the broker's own."""
    check_name("$name", "name")
    with pytest.raises(Refused, match="belong to the broker"):
        check_name("$name", "topic")


@pytest.mark.parametrize(("length", "dots"), [(39, ""), (40, ""), (41, "...")])
def test_of_a_long_name_the_beginning_is_shown(length, dots):
    name = "a" * (length - 1) + "\n"
    with pytest.raises(Refused) as refused:
        check_name(name, "topic")
    assert refused.value.message.startswith(f"topic name {name[:40]!r}{dots}: ")


@pytest.mark.parametrize(
    ("request_", "field", "problem"),
    [
        (Subscribe(3, "t"), "id", "id is 3; it must be greater than that of the last Subscribe, 3"),
        (Subscribe(4, "t", credit=0), "credit", "credit is 0; it must be 1 to 9"),
        (Subscribe(4, "t", credit=10), "credit", "credit is 10; it must be 1 to 9"),
        (
            Subscribe(4, "t", credit_bytes=0),
            "credit_bytes",
            "credit_bytes is 0; it must be at least 1",
        ),
    ],
)
def test_a_refused_subscribe_says_what_was_given_and_what_is_allowed(request_, field, problem):
    with pytest.raises(Refused) as refused:
        check_subscribe(request_, 3, 0, BrokerSettings(max_credit=9))
    assert (refused.value.field, refused.value.message) == (field, problem)
