"""The map says where shards are, and of two maps the later one counts, shard by shard."""

import json

import pytest

from zaichik import ClusterMapUnusable
from zaichik.client.cluster.map import MOST_SHARDS, ClusterMap, Shard

SINCE_US = 1796342400000000
A, B = Shard(3, "10.0.0.1:8900", "a", SINCE_US), Shard(1, "10.0.0.2:8901", None)
MAP = ClusterMap(7, (A, B))
TEXT = {
    "format": 1,
    "features": 7,
    "shards": [
        {"generation": 3, "address": "10.0.0.1:8900", "machine": "a", "since_us": SINCE_US},
        {"generation": 1, "address": "10.0.0.2:8901", "machine": None, "since_us": 0},
    ],
}


def test_a_map_is_written_and_read_as_the_documents_say():
    assert json.loads(MAP.encoded()) == TEXT
    assert ClusterMap.parse(json.dumps(TEXT).encode()) == MAP


def test_fields_of_later_versions_are_passed_over():
    later = TEXT | {"also": 1, "shards": [shard | {"rack": "x"} for shard in TEXT["shards"]]}
    assert ClusterMap.parse(json.dumps(later).encode()) == MAP


def test_a_shard_that_never_was_anywhere_has_no_address():
    for address in (None, ""):
        shard = {"generation": 0, "address": address, "machine": None}
        found = ClusterMap.parse(json.dumps(TEXT | {"shards": [shard]}).encode())
        assert found.shards == (Shard(0, ""),)


def test_another_format_is_refused_with_what_to_do():
    with pytest.raises(ClusterMapUnusable, match=r"format 2, .* knows only 1: upgrade zaichik"):
        ClusterMap.parse(json.dumps(TEXT | {"format": 2}).encode())


def shard(**fields):
    return TEXT | {"shards": [TEXT["shards"][0] | fields]}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], "not an object"),
        ({}, 'no "format"'),
        (TEXT | {"features": -1}, '"features"'),
        (TEXT | {"features": True}, '"features"'),
        (TEXT | {"shards": []}, "list of 1 to"),
        (TEXT | {"shards": {}}, "list of 1 to"),
        (TEXT | {"shards": [1]}, "not an object"),
        (TEXT | {"shards": [{}] * (MOST_SHARDS + 1)}, "list of 1 to"),
        (shard(generation="1"), '"generation"'),
        (shard(generation=2**63), '"generation"'),
        (shard(machine=1), "not text"),
        (shard(address=1), "not text"),
        (shard(address="10.0.0.1"), "not HOST:PORT"),
        (shard(address="zaichiks://10.0.0.1:1"), "not HOST:PORT"),
        (shard(address="user@10.0.0.1:1"), "not HOST:PORT"),
        (shard(address="10.0.0.1:1?pin=x"), "not HOST:PORT"),
    ],
)
def test_what_is_no_map_is_refused(value, problem):
    with pytest.raises(ClusterMapUnusable, match=problem):
        ClusterMap.parse(json.dumps(value).encode())


@pytest.mark.parametrize("payload", [b"", b"\xff", b"{", b"[" * 100_000])
def test_what_is_not_json_is_refused(payload):
    with pytest.raises(ClusterMapUnusable, match="not the map of a cluster"):
        ClusterMap.parse(payload)


def test_of_each_shard_the_larger_generation_counts():
    """A node that is cut off knows better of its own shard, and worse of others."""
    moved = Shard(4, "10.0.0.9:8900", "c")
    restarted = Shard(2, "10.0.0.2:8901", "b")
    assert MAP.updated(ClusterMap(7, (moved, B))).shards == (moved, B)
    assert MAP.updated(ClusterMap(7, (Shard(2, "10.0.0.8:1", "x"), restarted))).shards == (
        A,
        restarted,
    )


def test_in_one_generation_whoever_knows_the_address_knows_more():
    nobody = Shard(3, "", None)
    assert MAP.updated(ClusterMap(7, (nobody, B))).shards == (A, B)
    assert ClusterMap(7, (nobody, B)).updated(MAP).shards == (A, B)


def test_older_features_change_nothing():
    moved = Shard(9, "10.0.0.9:8900", "c")
    assert MAP.updated(ClusterMap(6, (moved, moved))) is MAP
    assert MAP.updated(ClusterMap(6, (moved,))) is MAP
    assert MAP.updated(ClusterMap(8, (moved, B))) == ClusterMap(8, (moved, B))


def test_another_number_of_shards_is_another_cluster():
    with pytest.raises(ClusterMapUnusable, match=r"had 2 shards, .* has 1: .* connect again"):
        MAP.updated(ClusterMap(8, (A,)))
