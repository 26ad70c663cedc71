"""Commands at a cluster: each finds the shard that has its topic."""

import pytest
from shards import embedded_shards

ONE, TWO = "a.one", "d.two"  # topics of different shards


@pytest.fixture
def cluster():
    with embedded_shards(2) as embedded:
        assert {embedded.cluster.map.shard_of(topic) for topic in (ONE, TWO)} == {0, 1}
        yield embedded


@pytest.fixture
def there(cluster, zaichik):
    """Run a command at the cluster; it must succeed."""

    def run(command, *words):
        result = zaichik(command, "--cluster", cluster.address, *words)
        assert result.code == 0, result.err
        return result

    return run


@pytest.mark.parametrize("topic", [ONE, TWO])
def test_a_topic_is_used_wherever_it_is(there, topic):
    there("create", topic, "--retention", "1h")
    there("publish", topic, "hello", "again")
    assert there("subscribe", topic, "--count", "2").out == "hello\nagain\n"
    assert there("describe", topic, "--json").json["topic"]["next_offset"] == 2
    assert "readable" in there("explain", topic, "--offset", "1").out
    there("subscribe", topic, "--name", "n", "--count", "1")
    assert "is forgotten" in there("subscribe", topic, "--name", "n", "--forget").err
    there("work", topic, "--name", "jobs", "--until-empty", "--", "true")
    there("delete", topic)
    assert there("topics", "--json").json == []


def test_a_topic_is_created_by_publishing_to_it(there):
    there("publish", ONE, "hello")
    assert [topic["name"] for topic in there("topics", "--json").json] == [ONE]


def test_topics_of_all_shards_are_listed_and_read_by_a_pattern(there):
    for topic in (ONE, TWO):
        there("create", topic, "--retention", "1h")
        there("publish", topic, topic)
    assert [topic["name"] for topic in there("topics", "--json").json] == [ONE, TWO]
    assert [topic["name"] for topic in there("topics", "d", "--json").json] == [TWO]
    lines = there("subscribe", "*.*", "--count", "2").out.splitlines()
    assert sorted(lines) == [f"{ONE}\t{ONE}", f"{TWO}\t{TWO}"]


def test_without_a_topic_all_shards_are_described(cluster, there):
    described = there("describe", "--json").json
    assert [state["address"] for state in described] == cluster.cluster.addresses
    out = there("describe").out
    assert out.count("machine a") == 2
    assert "shard 1\n" in out


def test_a_shard_that_does_not_answer_is_described_as_away(cluster, there):
    cluster.call(cluster.cluster.stop, 1)
    assert "it does not answer" in there("describe").out


def test_connections_are_those_of_one_broker(cluster, zaichik):
    result = zaichik("describe", "--connections", "--cluster", cluster.address)
    assert (result.code, "name it by --connect" in result.err) == (2, True)


def test_either_a_broker_or_a_cluster_is_named(zaichik):
    result = zaichik("topics", "--cluster", "127.0.0.1:1", "--connect", "127.0.0.1:1")
    assert (result.code, result.err.count("\n")) == (2, 1)


def test_a_cluster_that_is_not_there_is_a_sentence(zaichik):
    result = zaichik("topics", "--cluster", "127.0.0.1:1")
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert "no broker answers at 127.0.0.1:1" in result.err


def test_a_name_that_no_host_can_have_is_a_sentence(zaichik):
    result = zaichik("topics", "--cluster", "a_ß.example:1")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "is not a host name" in result.err
