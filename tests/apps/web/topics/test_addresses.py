"""Paths and queries are read byte by byte: no name turns into another one."""

import pytest

from zaichik.apps.web.topics.addresses import Address, fields_of
from zaichik.apps.web.topics.statuses import Refusal


def address(path):
    return Address.of({"raw_path": path.encode("latin-1")})


def refused(call, *args):
    with pytest.raises(Refusal) as caught:
        call(*args)
    return caught.value.name


@pytest.mark.parametrize(
    ("path", "topic", "name"),
    [
        ("/topics/orders", "orders", ""),
        ("/topics/a%2Fb", "a/b", ""),
        ("/topics/a%2fnames%2Fb", "a/names/b", ""),
        ("/topics/%24journal%2Forders", "$journal/orders", ""),
        ("/topics/caf%C3%A9", "café", ""),
        ("/topics/%EF%BF%BD", "\ufffd", ""),
        ("/topics/100%25", "100%", ""),
        ("/topics/a+b", "a+b", ""),
        ("/topics/topics", "topics", ""),
        ("/names/bill/topics/orders", "orders", "bill"),
        ("/names/a%2Ftopics%2Fb/topics/c%2Fd", "c/d", "a/topics/b"),
    ],
)
def test_a_slash_within_a_name_is_encoded_and_any_other_ends_it(path, topic, name):
    assert address(path) == Address(topic, name)


@pytest.mark.parametrize(
    "path",
    [
        "/topics/",
        "/topics/a/",
        "/topics/a/b",
        "//topics/a",
        "/topics%2Fa",
        "/names/bill/topics/",
        "/names//topics/a",
        "/names/bill",
        "/names/bill/topics/a/b",
    ],
)
def test_there_is_nothing_at_other_paths(path):
    assert refused(address, path) == "NOT_FOUND"


@pytest.mark.parametrize(
    "path", ["/topics/%FF", "/topics/\xff", "/topics/a%2", "/topics/%zz", "/topics/" + "a" * 1025]
)
def test_what_is_not_a_name_is_refused_and_not_read_as_another_one(path):
    assert refused(address, path) == "BAD_REQUEST"


def fields(query, *known):
    return fields_of({"query_string": query.encode("latin-1")}, *known)


def test_the_fields_of_a_query_are_decoded():
    assert fields("") == {}
    assert fields("key=a%26b+c%2B&start=", "key", "start") == {"key": "a&b c+", "start": ""}
    assert fields("key=a=b&", "key") == {"key": "a=b"}


@pytest.mark.parametrize("query", ["kee=a", "key=a&key=a", "key=%FF", "key=%", "%6Bey=%F", "=a"])
def test_a_query_that_may_mean_something_else_is_refused(query):
    assert refused(fields, query, "key") == "BAD_REQUEST"
