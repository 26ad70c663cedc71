"""A client that asks why, and what it is told."""

import json
import re

from zaichik_protocol import CreateTopic, Explain, Explained, Setting


def made(client, name="t", **settings):
    """A topic with these settings."""
    pairs = tuple((Setting[key].value, value) for key, value in settings.items())
    return client.ask(CreateTopic(2, name, pairs))


def told(client, topic="t", **message):
    """The whole answer, as JSON."""
    (reply,) = client.ask(Explain(99, topic, **message))
    assert isinstance(reply, Explained), reply
    answer = json.loads(reply.json)
    for verdict in answer["verdicts"]:  # it is shown as "fate: text"
        fate = verdict["fate"].replace("_", " ")
        assert not re.match(rf"(it|its batch|a batch) (was )?{fate}\b", verdict["text"]), verdict
        # It is a sentence, or nothing is to be done.
        assert verdict["next"][-1:] in {"", ".", "?"}, verdict
    return answer


def verdicts(client, topic="t", **message):
    return told(client, topic, **message)["verdicts"]


def first(client, topic="t", **message):
    """The verdict about the message itself."""
    return verdicts(client, topic, **message)[0]


def at_reader(client, topic="t", **message):
    """The verdict of the only subscription there is."""
    _, verdict = verdicts(client, topic, **message)
    return verdict


def seen(verdict, *names):
    """The fate, the rule, and some of the evidence."""
    return (verdict["fate"], verdict["rule"], *(verdict["evidence"].get(name) for name in names))


def fates(found):
    return [verdict["fate"] for verdict in found]
