"""What `$topics` tells of the topics that come and go, and what of that goes when."""

import random
from collections import Counter

import pytest
from conversation import Conversation, batch, broker_with
from followed import DAY, Following, create, delete, later, parsed, publish, records

from zaichik.base.clock import LAST_US
from zaichik.core.checks import MAX_NAME
from zaichik.core.following.topics_table import KNOWN_COST, Earlier, _record, settings_for
from zaichik.core.rights import TOPICS
from zaichik.core.settings import MAX_CAPACITY, MIB
from zaichik.core.tables.keep_last import ROW
from zaichik_protocol import (
    FOREVER,
    Commit,
    CreateTopic,
    Delete,
    DeletionsMissed,
    Publish,
    Subscribe,
    Unsubscribe,
)


def test_it_begins_with_a_record_of_each_topic_but_the_brokers_own():
    """PAT-1."""
    client = Following(broker_with())
    create(client, "b", journal_bytes=1000)
    create(client, "a")
    subscribed, (messages,) = client.follow()
    assert (subscribed.start, subscribed.live) == (0, 2)
    assert records([messages]) == [(0, "b", 0, False), (1, "a", 0, False)]
    create(client, "c", journal_bytes=1000)
    assert client.broker.registry.find("$journal/c") is not None
    assert len(records(client.follow()[1])) == 3


def test_a_record_has_the_topics_epoch_in_the_written_order():
    """PAT-1, follow.2."""
    client = Following(broker_with())
    epoch = create(client, "a").epoch
    _, (messages,) = client.follow()
    assert messages.batch.payloads() == [b'{"epoch": %d, "earlier": 0}' % epoch]
    client.tell(Delete(client.next_id(), "a"))
    _, messages = client.heard()
    assert messages.batch.keys() == [b"a"]
    assert messages.batch.payloads() == [b'{"epoch": %d, "earlier": 0, "gone": true}' % epoch]


def test_topics_that_come_by_use_and_go_by_disuse_are_told():
    """PAT-1, TOP-3, TOP-7."""
    broker = broker_with(topic_ttl=5)
    client = Following(broker)
    client.follow()
    other = Conversation(broker)
    other.ask(Publish(2, "used", batch(b"x")), Subscribe(3, "mistyped"), Unsubscribe(4, 3))
    assert records(client.heard()) == [(0, "used", 0, False), (1, "mistyped", 0, False)]
    later(broker, 1)
    later(broker, 5)
    assert records(client.heard()) == [(2, "mistyped", 0, True)]


def test_the_record_comes_before_what_is_published_can_be_answered():
    """follow.3: whoever has the next turn."""
    client = Following(broker_with())
    client.follow()
    client.tell(Publish(client.next_id(), "new", batch(b"x")))
    table = client.broker.registry.find(TOPICS)
    assert table.end == 1


def test_a_topic_that_was_made_and_deleted_between_two_looks_shows_in_the_count():
    """PAT-1."""
    client = Following(broker_with())
    create(client, "a")
    subscribed, _ = client.follow(credit=1)
    for _ in range(3):
        delete(client, "a")
        create(client, "a")
    client.tell()
    client.heard()
    events = client.ask(Commit(0, subscribed.id, 1))
    assert records(events) == [(6, "a", 3, False)]
    delete(client, "a")
    events = client.ask(Commit(0, subscribed.id, 7))
    assert records(events) == [(7, "a", 3, True)]


def test_records_of_topics_that_are_gone_go_after_a_day():
    """PAT-1, follow.4: and the count of the name with them."""
    broker = broker_with()
    client = Following(broker)
    create(client, "a")
    create(client, "b")
    client.follow()
    late, _ = client.follow(credit=1)
    delete(client, "a")
    delete(client, "b")
    client.heard()
    later(broker, DAY - 1)
    assert len(records(client.follow()[1])) == 2
    later(broker, 1)
    # The newest message of the topic stays.
    assert records(client.follow()[1]) == [(3, "b", 0, True)]
    create(client, "c")
    later(broker, 0)
    assert records(client.follow()[1]) == [(4, "c", 0, False)]
    # Of two that went, one reader had the record of neither: it is told once, without names.
    events = [it for it in client.ask(Commit(0, late.id, 1)) if it.id == late.id]
    assert isinstance(events[0], DeletionsMissed)
    assert records(events) == [DeletionsMissed(late.id, 4), (4, "c", 0, False)]
    create(client, "a")
    assert (5, "a", 0, False) in records(client.follow()[1])


def test_beyond_as_many_as_there_may_be_topics_records_of_those_gone_go_early():
    """PAT-1, follow.4: the oldest first."""
    broker = broker_with(max_topics=3)
    client = Following(broker)
    client.follow()
    for name in ("a", "b", "c", "d"):
        create(client, name)
        delete(client, name)
    create(client, "e")
    assert records(client.follow()[1]) == [
        (3, "b", 0, True),
        (5, "c", 0, True),
        (7, "d", 0, True),
        (8, "e", 0, False),
    ]
    table = broker.registry.find(TOPICS).retained
    assert (table.evicted, table.deleted_below) == (1, 2)


def test_a_topic_that_is_made_again_in_time_is_no_longer_one_that_has_gone():
    """PAT-1: its record does not go."""
    broker = broker_with()
    client = Following(broker)
    client.follow()
    create(client, "a")
    delete(client, "a")
    create(client, "a")
    create(client, "b")
    later(broker, 2 * DAY)
    assert records(client.follow()[1]) == [(2, "a", 1, False), (3, "b", 0, False)]


def test_its_memory_is_charged_and_it_never_loses_a_record_for_others():
    """PAT-1: while another topic fills the memory."""
    broker = broker_with(max_bytes=MIB)
    client = Following(broker)
    client.follow()
    for number in range(50):
        create(client, f"topic {number}", retention_ttl_ms=FOREVER)
    budget = broker.registry.budget
    table = broker.registry.find(TOPICS)
    assert table.memory >= 50 * 100
    assert budget.reserved == table.retained.reserved
    for _ in range(40):
        publish(client, "topic 0", b"x" * 100_000)
    assert budget.used <= budget.limit
    assert len(records(client.follow()[1])) == 50
    for number in range(50):
        delete(client, f"topic {number}")
    assert table.retained.reserved - table.retained.kept.memory == 50 * KNOWN_COST
    create(client, "topic 0")
    known = 49 + 1  # those that have gone, and the one that had an earlier one
    assert table.retained.reserved - table.retained.kept.memory == known * KNOWN_COST
    delete(client, "topic 0")
    known = 50 + 1
    assert table.retained.reserved - table.retained.kept.memory == known * KNOWN_COST
    later(broker, DAY)
    assert table.retained.resident == 1


class Fold:
    """What a client holds that follows: of each name, the last record, and how many had it."""

    def __init__(self, client, credit):
        self.client = client
        subscribed, events = client.follow(credit=credit)
        self.reader = client.manager.readers[subscribed.id]
        self.known, self.counts, self.is_exact = {}, Counter(), True
        self.take(events)

    def take(self, events):
        for event in parsed(events):
            if isinstance(event, DeletionsMissed):
                self.is_exact = False
                continue
            _, name, record = event
            self.counts[name] += self.news(record, self.known.get(name))
            self.known[name] = record

    def news(self, record, known):
        """How many topics it is about that were not known, its own and those before it."""
        if known is None:
            return record["earlier"] + 1
        if known["epoch"] == record["epoch"]:
            return 0
        if known["epoch"] < record.get("first", record["epoch"]):
            return record["earlier"] + 1
        return record["earlier"] - known["earlier"]

    def commit(self):
        self.take(self.client.ask(Commit(0, self.reader.id, self.reader.cursor)))

    def catch_up(self):
        while self.reader.ahead or self.reader.in_flight:
            self.commit()

    def topics(self):
        return {name for name, record in self.known.items() if "gone" not in record}


@pytest.mark.parametrize("seed", range(20))
def test_a_client_that_folds_the_records_knows_which_topics_there_are(seed):
    """PAT-1: and all that have come and gone, unless it was told that it may have missed some.

    Every other client reads all there is before records go, and so misses nothing.
    """
    chance = random.Random(seed)
    broker = broker_with(max_topics=6)
    client = Following(broker)
    fold = Fold(client, credit=2)
    there = set()
    made = Counter()
    for _ in range(200):
        name = chance.choice("abcd")
        if name in there:
            _, *events = client.ask(Delete(client.next_id(), name))
            there.remove(name)
        else:
            _, *events = client.ask(CreateTopic(client.next_id(), name))
            there.add(name)
            made[name] += 1
        fold.take(events)
        if chance.random() < 0.02:
            if seed % 2:
                fold.catch_up()
            later(broker, DAY)
        if chance.random() < 0.3:
            fold.commit()
    fold.catch_up()
    assert fold.topics() == there
    table = broker.registry.find(TOPICS).retained
    gone = table.expired + table.evicted + table.superseded
    assert table.end == table.resident + gone
    assert fold.is_exact or not seed % 2
    if fold.is_exact:
        assert fold.counts == made
    assert Fold(client, credit=100).topics() == there


def test_a_topic_that_goes_at_an_unknown_time_goes_at_the_latest_known_one():
    """TIM: times do not decrease. A topic that finds no room on the disk goes like that."""
    broker = broker_with()
    client = Following(broker)
    create(client, "a")
    client.follow()
    later(broker, 5)
    table = broker.registry.find(TOPICS).retained
    table.went(broker.registry.find("a"), 0)
    assert table.accepted_us(1) == broker.clock.now_us()
    later(broker, DAY)
    create(client, "b")
    later(broker, 0)
    assert records(client.follow()[1]) == [(2, "b", 0, False)]


def test_a_count_says_from_which_topic_on_it_counts():
    """PAT-1, follow.4: so a reader that knows an older one is not misled when it begins again."""
    broker = broker_with()
    client = Following(broker)
    client.follow()
    first = create(client, "a").epoch
    delete(client, "a")
    create(client, "a")
    delete(client, "a")
    last = create(client, "a").epoch
    _, events = client.follow()
    assert parsed(events) == [(4, "a", {"epoch": last, "earlier": 2, "first": first})]
    delete(client, "a")
    create(client, "z")
    later(broker, DAY)
    anew = create(client, "a").epoch
    delete(client, "a")
    last = create(client, "a").epoch
    _, events = client.follow()
    assert parsed(events)[-1] == (9, "a", {"epoch": last, "earlier": 1, "first": anew})


def test_nothing_is_left_of_a_table_that_is_deleted():
    """PAT-5: its memory is given back."""
    broker = broker_with()
    client = Following(broker)
    client.follow()
    for name in "abc":
        create(client, name)
        delete(client, name)
    assert broker.registry.budget.reserved > 0
    table = broker.registry.find(TOPICS).retained
    broker.registry.stop_following()
    assert (table.resident, table.reserved) == (0, 0)
    assert broker.registry.budget.reserved == 0
    assert broker.registry.budget.used == 0


def test_its_settings_have_room_for_all_records():
    """PAT-1: a topic for each that there may be, and as many that have gone."""
    client = Following(broker_with(max_topics=7))
    client.follow()
    settings = client.broker.registry.find(TOPICS).settings
    assert (settings.table, settings.retention_ttl_ms, settings.capacity) == (1, FOREVER, 14)
    longest = _record(LAST_US, Earlier(10**9, LAST_US), gone=True)
    assert settings.max_bytes >= 14 * (MAX_NAME + len(longest) + ROW)
    assert settings_for(MAX_CAPACITY).capacity == MAX_CAPACITY
