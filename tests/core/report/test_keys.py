"""What became of a message of a key: what is nearest to the time asked about."""

import pytest
from asking import fates, made, seen, told, verdicts
from conversation import Conversation, batch, broker_with
from fake_log import Durably

from zaichik.core import ringed, search
from zaichik.core.decisions import REMEMBERED_BATCHES
from zaichik_protocol import FOREVER, Publish, Subscribe

SECOND_MS, SECOND_US = 1_000, 1_000_000
K, L = (b"k", b"x"), (b"l", b"x")


@pytest.fixture
def client():
    """A topic with a window of ten seconds."""
    client = Conversation(broker_with())
    made(client, RETENTION_TTL_MS=FOREVER, COMPACTION_WINDOW_MS=10 * SECOND_MS)
    return client


def publish(client, *messages):
    return client.ask(Publish(3, "t", batch(*messages)))


def test_a_message_that_was_stored(client):
    """And what became of it, as for its offset."""
    publish(client, b"x", K, L)
    answer = told(client, key=b"l")
    assert (answer["offset"], answer["key"]) == (2, "l")
    assert fates(answer["verdicts"]) == ["readable", "no_reader", "window_open"]


def test_a_message_that_was_kept_out_by_which_and_until_when(client):
    """COM-2."""
    publish(client, b"x", K)
    client.broker.clock.advance(4)
    publish(client, L, K)
    answer = told(client, key=b"k")
    assert answer["offset"] is None
    kept_out, window = answer["verdicts"]
    assert seen(kept_out, "at_us", "winner", "opened_us", "until_us") == (
        "kept_out", "COM-2", 1_000 + 4 * SECOND_US, 1, 1_000, 1_000 + 10 * SECOND_US,
    )  # fmt: skip
    assert "offset 1" in kept_out["text"]
    assert seen(window, "opened_us", "until_us") == (
        "window_open", "COM-1", 1_000, 1_000 + 10 * SECOND_US,
    )  # fmt: skip


@pytest.mark.usefixtures("patchable")
def test_what_was_kept_out_at_one_time_takes_one_search(client, monkeypatch):
    """The clock of a lesson stands still, and a search for each would take more than a turn."""
    searches = []
    monkeypatch.setattr(
        ringed, "nearest", lambda *asked: searches.append(asked) or search.nearest(*asked)
    )
    for _ in range(REMEMBERED_BATCHES):
        publish(client, K)
    expected = ["readable", "no_reader", *["kept_out"] * (REMEMBERED_BATCHES - 1), "window_open"]
    assert fates(verdicts(client, key=b"k")) == expected
    assert len(searches) == 2, "for the key, and for all that were kept out"


def test_of_a_batch_whose_keys_were_too_many_to_remember_nothing_is_known(client):
    """EXP-1: so it is not said either that no message of the key was ever stored."""
    messages = [(b"%04d" % number + bytes(100), b"") for number in range(200)]
    publish(client, *messages)
    client.broker.clock.advance(1)
    publish(client, (b"new", b""), *messages)  # only this one is stored
    assert fates(verdicts(client, key=b"other")) == ["unknown"]
    client.broker.clock.advance(1)
    publish(client, (b"other", b""))
    assert "unknown" not in fates(verdicts(client, key=b"other"))


@pytest.mark.parametrize(
    ("half_seconds", "is_as_near"), [(0, True), (1, True), (2, True), (3, True), (4, False)]
)
def test_a_batch_without_keys_may_have_been_nearer_to_the_time(client, half_seconds, is_as_near):
    """EXP-1: or as near as the message that is found."""
    messages = [(b"%04d" % number + bytes(100), b"") for number in range(200)]
    publish(client, *messages)
    publish(client, *messages)
    client.broker.clock.advance(3)
    publish(client, (b"other", b""))
    client.broker.clock.advance(7)
    found = verdicts(client, key=b"other", time=1_000 + half_seconds * SECOND_US // 2)
    unknown = [seen(it, "at_us") for it in found if it["fate"] == "unknown"]
    assert unknown == [("unknown", "EXP-1", 1_000)] * is_as_near


def test_of_one_batch_one_message_was_stored_and_its_repeat_kept_out(client):
    publish(client, K, K)
    assert fates(verdicts(client, key=b"k")) == ["readable", "no_reader", "kept_out", "window_open"]


def test_a_key_whose_window_is_forever(client):
    made(client, "u", COMPACTION_WINDOW_MS=FOREVER)
    client.ask(*[Publish(0, "u", batch(K))] * 2)
    answer = [
        it for it in verdicts(client, "u", key=b"k") if it["fate"] in {"kept_out", "window_open"}
    ]
    assert [it["evidence"].get("until_us") for it in answer] == [None, None]


def test_a_winner_that_has_left_the_ring(client):
    """COM-6: its window goes on, and is all that is known of it."""
    made(client, "u", COMPACTION_WINDOW_MS=10 * SECOND_MS, CAPACITY=1)
    client.ask(*(Publish(0, "u", batch(it)) for it in (K, b"x", K)))
    kept_out = next(it for it in verdicts(client, "u", key=b"k") if it["fate"] == "kept_out")
    assert seen(kept_out, "winner", "opened_us", "until_us") == (
        "kept_out",
        "COM-2",
        None,
        1_000,
        1_000 + 10 * SECOND_US,
    )
    assert "no longer in memory" in kept_out["text"]
    client.broker.clock.advance(10)
    client.broker.sweep()
    kept_out = next(it for it in verdicts(client, "u", key=b"k") if it["fate"] == "kept_out")
    assert seen(kept_out, "winner", "opened_us") == ("kept_out", "COM-2", None, None)


def kept_out(client):
    return next(it for it in verdicts(client, key=b"k") if it["fate"] == "kept_out")


def test_a_winner_is_found_however_many_messages_came_after_it(client, monkeypatch):
    """As long as its window is remembered."""
    monkeypatch.setattr(search, "SEARCHED_MESSAGES", 4)
    publish(client, b"x", K)
    client.broker.clock.advance(1)
    for _ in range(10):
        publish(client, b"x")
    publish(client, K)
    assert seen(kept_out(client), "winner", "opened_us") == ("kept_out", "COM-2", 1, 1_000)


def test_a_winner_that_was_not_looked_for_far_enough_back_is_not_said_to_be_gone(
    client, monkeypatch
):
    """EXP-4: its window is over, so only so many messages before the one that it kept out are
    searched.
    """
    monkeypatch.setattr(search, "SEARCHED_MESSAGES", 4)
    publish(client, K)
    client.broker.clock.advance(1)
    for _ in range(10):
        publish(client, b"x")
    publish(client, K)
    client.broker.clock.advance(10)
    client.broker.sweep()
    verdict = kept_out(client)
    assert seen(verdict, "winner", "opened_us", "searched") == (
        "kept_out",
        "COM-2",
        None,
        None,
        [7, 11],
    )
    assert "below offset 7, where nothing was searched" in verdict["text"]
    monkeypatch.setattr(search, "SEARCHED_MESSAGES", 11)
    assert seen(kept_out(client), "winner", "searched") == ("kept_out", "COM-2", 0, None)


def test_a_winner_of_a_later_window_is_not_taken_for_an_earlier_one(client):
    publish(client, K)
    client.broker.clock.advance(1)
    publish(client, K)
    client.broker.clock.advance(10)
    publish(client, K)
    verdict = next(
        it for it in verdicts(client, key=b"k", time=1_000 + SECOND_US) if it["fate"] == "kept_out"
    )
    assert seen(verdict, "winner", "opened_us") == ("kept_out", "COM-2", 0, 1_000)


def test_the_message_nearest_to_a_time(client):
    """Of three, stored at 0, 20 and 40 seconds; one at 25 was kept out."""
    for seconds in (20, 5, 15, 10):
        publish(client, K)
        client.broker.clock.advance(seconds)
    for at, offset in ((0.5, 0), (9, 0), (11, 1), (22, 1), (39, 2), (50, 2)):
        assert told(client, key=b"k", time=1_000 + int(at * SECOND_US))["offset"] == offset
    assert told(client, key=b"k", time=1_000 + 24 * SECOND_US)["verdicts"][0]["fate"] == "kept_out"
    assert told(client, key=b"k")["offset"] == 2


def test_a_key_that_never_was(client):
    """PUB-2."""
    publish(client, K, b"l")  # a payload is no key
    assert seen(*verdicts(client, key=b"l")) == ("never_seen", "PUB-2")
    assert told(client, key=b"l")["offset"] is None


def test_a_key_that_may_have_been_among_what_is_gone(client):
    """EXP-4."""
    made(client, "u", RETENTION_TTL_MS=FOREVER, CAPACITY=1)
    client.ask(*(Publish(0, "u", batch(it)) for it in (K, L)))
    (verdict,) = verdicts(client, "u", key=b"k")
    assert seen(verdict, "head", "searched") == ("unknown", "EXP-4", 1, [1, 2])
    assert "below offset 1" in verdict["text"]
    assert fates(verdicts(client, "u", key=b"l", time=1_000)) == ["readable", "no_reader"]


def test_only_so_many_are_searched(client, monkeypatch):
    """EXP-4: on each side of the time."""
    monkeypatch.setattr(search, "SEARCHED_MESSAGES", 4)
    publish(client, K)
    for _ in range(5):
        client.broker.clock.advance(1)
        publish(client, b"x", b"y")
    (verdict, *_) = verdicts(client, key=b"k")
    assert seen(verdict, "searched") == ("unknown", "EXP-4", [7, 11])
    assert "offsets 0 to 6 were not searched" in verdict["text"]
    assert told(client, key=b"k", time=2_000)["offset"] == 0
    (verdict, *_) = verdicts(client, key=b"m", time=2_000)
    assert "offsets from 5 on were not searched" in verdict["text"]


def test_decisions_that_were_forgotten_may_have_been_nearer(client):
    """EXP-1."""
    publish(client, L)
    for second in range(REMEMBERED_BATCHES + 1):
        client.broker.clock.move_to(2_000 + second)
        publish(client, L)
    forgotten = [it for it in verdicts(client, key=b"l", time=2_000) if it["rule"] == "EXP-1"]
    assert [seen(it, "until_us") for it in forgotten] == [("unknown", "EXP-1", 2_000)]
    assert not [it for it in verdicts(client, key=b"l") if it["rule"] == "EXP-1"]
    assert verdicts(client, key=b"none", time=0)[0]["rule"] == "EXP-1"


def test_what_is_on_the_disk_or_waits_for_it_is_not_searched():
    """EXP-4."""
    client = Durably()
    client.create(CAPACITY=1)
    client.filled(K, L)
    client.publish(0, (b"m", b"x"))
    (verdict, *_) = verdicts(client, key=b"k")
    assert seen(verdict, "searched") == ("unknown", "EXP-4", [1, 2])
    assert "offsets 0 to 0 were not searched" in verdict["text"]
    assert "what waits for the disk was not searched: 1 batch" in verdict["text"]


def test_keys_of_strangers_are_escaped(client):
    """As on a terminal, wherever they are shown."""
    key = b"\x1b[31m\xff\n"
    publish(client, (key, b"x"))
    publish(client, (key, b"x"))
    answer = told(client, key=key)
    assert answer["key"] == r"\x1b[31m\xff\n"
    assert r"\x1b[31m\xff\n" in answer["verdicts"][-2]["text"]
    (verdict, *_) = verdicts(client, key=b"\x9b")
    assert r"\x9b" in verdict["text"]


def test_subscriptions_are_told_of_a_key_s_message_too(client):
    client.ask(Subscribe(3, "t", credit=5))
    publish(client, K)
    assert fates(verdicts(client, key=b"k")) == ["readable", "in_flight", "window_open"]


@pytest.fixture
def table():
    """A table in which keys k and l had two messages each."""
    client = Conversation(broker_with())
    made(client, TABLE=1, TOMBSTONES_MS=SECOND_MS)
    client.broker.clock.advance(1)
    publish(client, K, L)
    publish(client, K, L)
    return client


def test_a_key_that_a_table_never_had_was_never_stored(table):
    """EXP-4: other keys have superseded messages, but this one has none that superseded any."""
    assert fates(verdicts(table, key=b"m")) == ["never_seen"]


def test_before_the_message_of_a_key_may_have_been_one_that_it_superseded(table):
    answer = verdicts(table, key=b"k", time=2)
    assert fates(answer) == ["readable", "no_reader", "unknown"]
    assert "the later message of the key supersedes earlier ones" in answer[-1]["text"]


def test_a_key_that_is_not_there_may_be_one_whose_tombstone_is_gone(table):
    """TAB-5."""
    table.ask(Publish(3, "t", batch((b"k", b"")), tombstones=True))
    publish(table, L)
    table.broker.clock.advance(2)
    table.broker.sweep()
    (answer,) = verdicts(table, key=b"k")
    assert answer["fate"] == "unknown"
    assert "tombstones below offset 5 are gone" in answer["text"]
