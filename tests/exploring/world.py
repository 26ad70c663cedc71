"""The real core beside its model at the beginning of all stories, and each step that may follow.

A publisher creates, fills and deletes a topic. Two readers, A and B, have at most one subscription
to it each. A reply is heard at once, messages when a reader takes a turn.
"""

from collections.abc import Callable
from dataclasses import dataclass

from beside_model import BesideModel, assert_reply
from model import SETTINGS

from zaichik_protocol import (
    FOREVER,
    Batch,
    Commit,
    CreateTopic,
    Delete,
    Publish,
    Start,
    Subscribe,
    Unsubscribe,
)

from .state import BEGIN_US, OLDEST_US, digest

MS_US = 1_000
ID = 1_000_000  # of every request but a Subscribe: one at a time is answered
PRODUCER = 7
TOPIC = "a"
READERS = {"A": 0, "B": 1}  # which clients they are; the publisher is the next one

# So little that a topic is full, and a message old, after a few steps.
SMALL = {
    "retention_ttl_ms": 2,
    "compaction_window_ms": 1,
    "capacity": 2,
    "max_bytes": 10_000,
    "max_keys": 2,
    "journal_bytes": 0,
    "overflow": 0,
}
KINDS = {
    "retained": SMALL,
    "transient": {**SMALL, "retention_ttl_ms": 0},
    "lossless": {**SMALL, "retention_ttl_ms": FOREVER, "overflow": 1},
}


@dataclass(frozen=True)
class Verb:
    """What may happen.

    Attributes:
        name: in a story; a reader's comes after the reader's name.
        do: the method of `World` that does it; a reader's gets its client.
        may: whether it makes sense now.
        is_reader_s: whether a reader does it.
    """

    name: str
    do: Callable
    may: Callable
    is_reader_s: bool


VERBS: dict[str, Verb] = {}


def happens(name, may=lambda _: True):
    """Declare a method as what may happen: by the publisher, in time, or in the broker."""
    return _declared(name, may, is_reader_s=False)


def reader_may(name, may):
    """Declare a method as what a reader may do. `may` gets the model of its connection."""
    return _declared(name, may, is_reader_s=True)


def _declared(name, may, *, is_reader_s):
    def declare(do):
        VERBS[name] = Verb(name, do, may, is_reader_s)
        return do

    return declare


def _subscribed(connection):
    return bool(connection.subscriptions)


def _not_subscribed(connection):
    return not connection.subscriptions


def _has_name(connection):
    return any(reader.session for reader in connection.subscriptions.values())


def _has_one(connection):
    return any(r.cursor > r.committed for r in connection.subscriptions.values())


def _has_several(connection):
    return any(r.cursor > r.committed + 1 for r in connection.subscriptions.values())


def _is_there(world):
    return TOPIC in world.model.topics


def _may_be_created(world):
    return not _is_there(world) or not world.model.topics[TOPIC].explicit


def _has_numbered(world):
    return PRODUCER in world.model.producers


class World(BesideModel):
    """A story that is told.

    Args:
        kind: of the topic, in `KINDS`.

    Attributes:
        requests: what was asked in each step, as it was sent.
    """

    def __init__(self, kind):
        self.settings = KINDS[kind]
        self.requests = []
        self.begin(BEGIN_US, {**self.settings, "overflow": 0})  # which cannot be a default
        self.core.resident = lambda: None  # it takes longer than all else that is described
        self.publisher = self.connected()
        self.clients.append(self.publisher)
        for client in self.clients:
            assert not self.one_turn(client)
        self.create()
        # So long ago that it makes no difference when.
        self.clock.move_to(BEGIN_US + OLDEST_US)

    # -- a story ---------------------------------------------------------------------------------

    def choices(self, verbs, *, alone):
        """Returns the steps that may come next, of these verbs.

        Args:
            verbs: names of them.
            alone: whether no reader has done anything. Both are alike, so it is A who begins.
        """
        steps = []
        for verb in map(VERBS.get, verbs):
            if not verb.is_reader_s:
                if verb.may(self):
                    steps.append(verb.name)
                continue
            for name, place in READERS.items():
                if verb.may(self.clients[place].model) and not (alone and name == "B"):
                    steps.append(f"{name} {verb.name}")
        return steps

    def take(self, step):
        """Have that happen to both.

        Raises:
            AssertionError: core and model do not say the same.
        """
        self.requests.append([])
        verb = VERBS[verb_of(step)]
        if verb.is_reader_s:
            verb.do(self, self.clients[READERS[step[0]]])
        else:
            verb.do(self)

    def check(self):
        """Compare all that can be observed, and what must always hold.

        Raises:
            AssertionError: core and model do not agree.
        """
        self.nobody_waits_in_vain()
        self.topics_agree()
        self.subscriptions_agree()
        self.names_whose_reader_is_away_agree()
        self.nothing_is_left_behind()

    def digest(self):
        """Returns what stands for the state; see there."""
        return digest((self.core, self.model, self.clients), self.clock.now_us())

    def ask(self, client, request, expected):
        """Ask both, and hear the reply, without which stories would differ in nothing else."""
        if self.requests:
            self.requests[-1].append(request)
        was_woken = client.woken
        super().ask(client, request, expected)
        (frame,) = self.frames(client, client.manager.replies.take())
        assert_reply(frame, client.replies.pop())
        if not client.manager.ready:
            client.woken = was_woken  # it was for the reply

    # -- what the publisher does -----------------------------------------------------------------

    @happens("publish")
    def publish(self):
        self._publish([(b"", b"x")])

    @happens("publish keyed")
    def publish_keyed(self):
        self._publish([(b"k", b"x")])

    @happens("publish two")
    def publish_two(self):
        self._publish([(b"k", b"x"), (b"", b"xy")])

    def _publish(self, pairs):
        request = Publish(ID, TOPIC, Batch.of(pairs))
        self.ask(self.publisher, request, lambda now: self.model.publish(ID, TOPIC, pairs, now))

    @happens("publish numbered")
    def publish_numbered(self):
        known = self.model.producers.get(PRODUCER)
        self._publish_numbered(len(known.answers) if known else 0)

    @happens("publish the number again", _has_numbered)
    def publish_again(self):
        known = self.model.producers[PRODUCER]
        self._publish_numbered(max(len(known.answers) - 1, 0))

    def _publish_numbered(self, sequence):
        pairs = [(b"k", b"n")]
        request = Publish(ID, TOPIC, Batch.of(pairs), producer=PRODUCER, sequence=sequence)
        self.ask(
            self.publisher,
            request,
            lambda now: self.model.publish_numbered(request, pairs, now),
        )

    @happens("create", _may_be_created)
    def create(self):
        settings = self.settings
        pairs = tuple((SETTINGS.index(key) + 1, value) for key, value in settings.items())
        request = CreateTopic(ID, TOPIC, pairs)
        self.ask(
            self.publisher,
            request,
            lambda now: self.model.create(ID, TOPIC, settings, now),
        )

    @happens("delete", _is_there)
    def delete(self):
        self._delete(if_empty=False)

    @happens("delete if empty", _is_there)
    def delete_if_empty(self):
        self._delete(if_empty=True)

    def _delete(self, *, if_empty):
        request = Delete(ID, TOPIC, if_empty=if_empty)
        self.ask(
            self.publisher,
            request,
            lambda now: self.model.delete(ID, TOPIC, now, if_empty=if_empty),
        )

    # -- what time does --------------------------------------------------------------------------

    @happens("a ms passes")
    def a_ms_passes(self):
        self.clock.move_to(self.clock.now_us() + MS_US)

    @happens("sweep")
    def sweep(self):
        super().sweep()

    # -- what readers do -------------------------------------------------------------------------

    @reader_may("subscribes", _not_subscribed)
    def subscribe(self, client):
        self._subscribe(client, credit=1)

    @reader_may("subscribes by name", _not_subscribed)
    def subscribe_by_name(self, client):
        self._subscribe(client, name="n", credit=2)

    @reader_may("subscribes until 1", _not_subscribed)
    def subscribe_until(self, client):
        self._subscribe(client, until=1, credit=2)

    def _subscribe(self, client, *, name="", until=FOREVER, credit):
        number = client.model.last_subscribe + 1
        request = Subscribe(
            number, TOPIC, name, Start.EARLIEST, until=until, credit=credit, credit_bytes=1_000
        )
        self.ask(client, request, lambda now: self.model.subscribe(client.model, request, now))

    @reader_may("takes a turn", _subscribed)
    def take_turn(self, client):
        self.one_turn(client)

    @reader_may("commits one", _has_several)
    def commit_one(self, client):
        (reader,) = client.model.subscriptions.values()
        self._commit(client, reader.id, reader.committed + 1)

    @reader_may("commits all", _has_one)
    def commit_all(self, client):
        (reader,) = client.model.subscriptions.values()
        self._commit(client, reader.id, reader.cursor)

    @reader_may("commits too much", _subscribed)
    def commit_too_much(self, client):
        (reader,) = client.model.subscriptions.values()
        self._commit(client, reader.id, reader.cursor + 1)

    def _commit(self, client, number, following):
        request = Commit(ID, number, following)
        self.ask(client, request, lambda _: self.model.commit(client.model, ID, number, following))

    @reader_may("unsubscribes", _subscribed)
    def unsubscribe(self, client):
        self._unsubscribe(client, forget=False)

    @reader_may("forgets its name", _has_name)
    def forget(self, client):
        self._unsubscribe(client, forget=True)

    def _unsubscribe(self, client, *, forget):
        (number,) = client.model.subscriptions
        request = Unsubscribe(ID, number, forget=forget)
        self.ask(
            client,
            request,
            lambda _: self.model.unsubscribe(client.model, ID, number, forget=forget),
        )

    @reader_may("is cut off", _subscribed)
    def lose(self, client):
        """The connection ends, and another one is there."""
        self.model.close(client.model)
        self.core.disconnect(client.manager, "GONE")
        place = self.clients.index(client)
        self.clients[place] = self.connected()
        assert not self.one_turn(self.clients[place])


def verb_of(step):
    """Returns what happens in a step, whichever reader does it."""
    name, _, rest = step.partition(" ")
    return rest if name in READERS else step
