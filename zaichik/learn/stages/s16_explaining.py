"""S16, continued: why a message did not arrive, said by the broker itself."""

import json
from typing import Any

from zaichik.learn.connection import Connection
from zaichik.learn.failure import Failed
from zaichik.learn.layouts import CAPACITY, FOREVER, TTL, WINDOW
from zaichik.learn.stages.s16_clock import STAGE as STAGE
from zaichik.learn.stages.s16_options import skip_if_unsupported
from zaichik.learn.trial import Trial

TO_COME = 2**63  # a time, µs since 1970
LONGEST_KEY = 1024
FIELDS = {"fate", "rule", "text", "next", "evidence"}


async def _explained(client: Connection, topic: str, **message: Any) -> dict[str, dict[str, Any]]:
    """The verdicts about a message, by their fates, in their order."""
    frame = await client.ask("Explain", topic=topic, **message)
    skip_if_unsupported(frame, "Explain")
    client.must_be(frame, "Explained")
    try:
        verdicts = json.loads(frame["json"])["verdicts"]
        return {verdict["fate"]: {name: verdict[name] for name in FIELDS} for verdict in verdicts}
    except (ValueError, KeyError, TypeError):
        wanted = f"JSON with a list of verdicts, each with {', '.join(sorted(FIELDS))}"
        raise Failed("this is no explanation", expected=wanted, came=str(frame["json"])[:200]) from None


def _must_begin(verdicts: dict[str, dict[str, Any]], fate: str, what: str) -> None:
    if next(iter(verdicts), None) != fate:
        problem = f"the first verdict about {what} is wrong"
        raise Failed(problem, expected=fate, came=next(iter(verdicts), "none"))


def _must_have(verdicts: dict[str, dict[str, Any]], fate: str, what: str, **evidence: Any) -> None:
    came = verdicts.get(fate, {}).get("evidence", {})
    for name, value in evidence.items():
        if came.get(name) != value:
            problem = f"the verdict {fate} about {what} is missing, or {name} in it is wrong"
            raise Failed(problem, expected=f"{name}: {value}", came=f"{list(verdicts)}, {name}: {came.get(name)}")


@STAGE.check(
    "a broker that explains says what became of a message",
    hint="Compare the offset with head and next offset, then with each subscription's start, position and cursor.",
    how="Most of the answer is in what the broker keeps anyway. Only why the head moved, and what was dropped or "
    "refused, must be remembered, and a little of it will do.",
    where="zaichik/explain/answer.py puts the verdicts in order; docs/explain.md lists the fates, each with its rule.",
    sentences="explain.1 explain.2 explain.3 explain.4 explain.5 explain.6 explain.7",
)
async def explains(trial: Trial) -> None:
    """Evicted, settled, in flight, waiting, kept out, never there; and what nobody can be asked about."""
    client, topic = await trial.client(), trial.topic()
    skip_if_unsupported(await client.ask("Explain", topic=trial.topic("nothing")), "Explain")
    await client.refused("NO_SUCH_TOPIC", "Explain", topic=trial.topic("nothing"), at="topic")
    settings = {CAPACITY: 3, TTL: FOREVER, WINDOW: FOREVER}
    await client.ok("CreateTopic", topic=topic, settings=settings, expect={"created": 1})
    subscription = await client.subscribe(topic, credit=1)
    for offset, key in enumerate((b"a", b"b", b"c")):
        await client.publish(topic, (key, b"x"), first_offset=offset)
    await client.publish(topic, (b"b", b"y"), first_offset=3, stored=0, compacted=1)
    await client.messages(subscription, 0, [(b"a", b"x")])
    await client.commit(subscription, 1)
    await client.messages(subscription, 1, [(b"b", b"x")])
    for offset, fate in enumerate(("settled", "in_flight", "waits_for_credit")):
        what = f"offset {offset}"
        verdicts = await _explained(client, topic, offset=offset)
        _must_begin(verdicts, "readable", what)
        _must_have(verdicts, fate, what, committed=1)
    verdicts = await _explained(client, topic, key=b"b")
    _must_have(verdicts, "kept_out", "a repeat of key b", winner=1)
    _must_begin(await _explained(client, topic, offset=3), "never_seen", "offset 3, which is the next")
    _must_begin(await _explained(client, topic, key=b"none"), "never_seen", "a key that never was")
    await client.publish(topic, (b"", b"x"), first_offset=3)
    verdicts = await _explained(client, topic, offset=0)
    _must_begin(verdicts, "evicted", "offset 0, of a ring of 3 that now ends at 3")
    await client.refused("INVALID_FIELD", "Explain", topic=topic, key=b"k" * (LONGEST_KEY + 1), at="key")
    await client.refused("INVALID_FIELD", "Explain", topic=topic, key=b"k", time=TO_COME, at="time")
    await client.refused("NO_SUCH_SUBSCRIPTION", "Explain", topic=topic, subscription="nobody", at="subscription")
