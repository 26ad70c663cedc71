"""What an explanation must say, told from the model's own history, which knows every fate and
forgets nothing.

The model has no bounded memory. So where the broker may have forgotten, the oracle works out from
its history how much the broker can still know, and everything else must be `unknown`: neither
guessed, nor claimed to be forgotten.
"""

import json
from dataclasses import dataclass
from itertools import groupby

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule
from model_reader import DELIVERED
from model_topic import EVICTED, EXPIRED, RESIDENT, ModelError
from test_model import BrokerBesideModel, clients, names, small

from zaichik.core.decisions import MOVES, REMEMBERED_BATCHES
from zaichik.core.report.answer import explain
from zaichik.core.rights import ANYBODY
from zaichik_protocol import FOREVER, ErrorCode, Explain, Publish, Refused

LAGS = 8  # that are remembered for each subscription
KEYS = [b"k", b"l", b"m", b"no"]


@dataclass
class Decision:
    """What became of a batch that was not simply stored: the keys it concerns, and what kept each
    of them out.
    """

    at: int
    fate: str
    keys: list
    winners: dict


class Explaining(BrokerBesideModel):
    """The broker and its model; and both are asked why."""

    def begin(self, now_us, defaults):
        self.decisions = {}
        super().begin(now_us, defaults)

    # -- the history -----------------------------------------------------------------------------

    def ask(self, client, request, expected):
        if isinstance(request, Publish):
            expected = self.noting(request, expected)
        super().ask(client, request, expected)

    def noting(self, request, expected):
        def ask_and_note(now):
            keys = request.batch.keys()
            try:
                reply = expected(now)
            except ModelError:
                self.note(request.topic, Decision(now, "refused", keys, {}))
                raise
            if reply.duplicate:
                self.note(request.topic, Decision(now, "duplicate", keys, {}))
            elif reply.compacted:
                dropped = [
                    key
                    for index, key in enumerate(keys)
                    if reply.dropped[index // 8] >> index % 8 & 1
                ]
                stored = self.model.topics[request.topic].messages
                winners = {
                    key: max(o for o, m in enumerate(stored) if m.key == key) for key in dropped
                }
                self.note(request.topic, Decision(now, "kept_out", dropped, winners))
            return reply

        return ask_and_note

    def note(self, name, decision):
        if name in self.model.topics:
            self.decisions.setdefault(name, []).append(decision)

    # -- the questions ---------------------------------------------------------------------------

    @rule(
        name=names,
        back=small,
        several=st.lists(small, min_size=1, max_size=3),
        ago=st.sampled_from([0, 1, 1000, 2500]),
    )
    def ask_why(self, name, back, several, ago):
        topic, now = self.model.topics.get(name), self.clock.now_us()
        if topic is None:
            with pytest.raises(Refused) as caught:
                self.explained(name, 0)
            assert caught.value.code == ErrorCode.NO_SUCH_TOPIC
            return
        topic.expire(now)
        for number in several:
            self.compare_offset(topic, max(topic.next_offset + 2 - number * (1 + back), 0))
        for key in KEYS:
            self.compare_key(name, topic, key, max(now - ago, 0), now)

    @rule(client=clients, which=small, back=small)
    def ask_why_at_one(self, client, which, back):
        known = list(self.clients[client].model.subscriptions.values())
        if known:
            subscription = known[which % len(known)]
            topic, number = subscription.topic, self.clients[client].manager.number
            topic.expire(self.clock.now_us())
            offset = max(topic.next_offset - 1 - back, 0)
            if offset < topic.next_offset:
                _, *verdicts = self.explained(
                    topic.name, offset, subscription=f"{number}.{subscription.id}"
                )["verdicts"]
                assert [it["fate"] for it in verdicts] in self.at_reader(
                    self.clients[client], subscription, offset
                )

    def explained(self, name, offset, **more):
        request = Explain(1, name, offset=offset, **more)
        return json.loads(explain(self.core, request, ANYBODY, self.clock.now_us()))

    # -- by offset -------------------------------------------------------------------------------

    def compare_offset(self, topic, offset):
        answer = self.explained(topic.name, offset)
        first, *rest = answer["verdicts"]
        self.compare_message(topic, offset, first)
        if offset < topic.next_offset:
            self.compare_readers(topic, offset, rest)
        else:
            recent = [
                it
                for it in self.decisions.get(topic.name, ())[-REMEMBERED_BATCHES:]
                if it.fate == "refused"
            ][-4:]
            assert [it["evidence"]["at_us"] for it in rest] == [it.at for it in reversed(recent)]

    def compare_message(self, topic, offset, verdict):
        fate, evidence = verdict["fate"], verdict["evidence"]
        if offset >= topic.next_offset:
            assert (fate, evidence) == ("never_seen", {"next_offset": topic.next_offset})
            return
        message = topic.messages[offset]
        if message.fate == RESIDENT:
            assert (fate, evidence["accepted_us"]) == ("readable", message.accepted_us)
            ttl = topic.duration_us("retention_ttl_ms")
            assert evidence.get("expires_us", ttl) == (
                message.accepted_us + ttl if 0 < ttl < FOREVER else ttl
            )
            return
        gone = topic.messages[: topic.head]
        runs = [
            list(run)
            for _, run in groupby(range(len(gone)), key=lambda o: (gone[o].fate, gone[o].cause))
        ]
        if not any(offset in run for run in runs[-MOVES:]):
            assert (fate, verdict["rule"]) == ("unknown", "EXP-2")
        elif message.fate == EXPIRED:
            assert (fate, verdict["rule"]) == (
                "expired",
                "RET-5" if topic.settings["retention_ttl_ms"] else "RET-1",
            )
        else:
            assert message.fate == EVICTED
            assert (fate, evidence[message.cause]) == ("evicted", topic.settings[message.cause])
            assert ("by_offset" in evidence) == (message.cause == "capacity")

    # -- at the subscriptions --------------------------------------------------------------------

    def compare_readers(self, topic, offset, verdicts):
        wanted = self.readers_of(topic, offset)
        came = [it["fate"] for it in verdicts]
        if not wanted:
            assert came == ["no_reader"]
            return
        assert len(came) == len(wanted)
        assert all([fate] in allowed for fate, allowed in zip(came, wanted, strict=True)), (
            came,
            wanted,
        )

    def readers_of(self, topic, offset):
        """Of each subscription, in their order, the fates that are right there."""
        wanted = [
            self.at_reader(client, subscription, offset)
            for client in self.clients
            for subscription in client.model.subscriptions.values()
            if subscription.topic is topic
        ]
        away = [session for session in topic.sessions.values() if not session.reader]
        return wanted + [[[self.at_name(topic, session, offset)]] for session in away]

    def at_name(self, topic, session, offset):
        if offset < session.committed:
            return "settled"
        return "lost_ahead" if offset < topic.head else "waits_for_reader"

    def at_reader(self, client, subscription, offset):
        """The fates that are right: mostly one."""
        topic = subscription.topic
        if offset < subscription.start:
            return [["below_start"]]
        if offset < subscription.cursor:
            forgotten = len(subscription.lags) > LAGS and offset < subscription.lags[-LAGS][0]
            if forgotten:
                return [["unknown"]]
            if subscription.fates[offset] != DELIVERED:
                return [["skipped"]]
            return [["settled" if offset < subscription.committed else "in_flight"]]
        if offset >= subscription.until:
            return [["beyond_until"]]
        if subscription.ended or subscription.is_cut_off:
            return [["ended"]]
        if offset < topic.head:
            return [["lost_ahead"]]
        turn = ["waits_for_client" if client.replies else "waits_for_turn"]
        if not subscription.has_credit:
            return [["waits_for_credit"]]
        return [["waits_for_credit"], turn] if subscription.is_stuck else [turn]

    # -- by key ----------------------------------------------------------------------------------

    def compare_key(self, name, topic, key, at, now):
        answer = self.explained(name, 0, key=key, time=at)
        at = at or now  # 0 is now
        stored = [
            (m.accepted_us, o)
            for o, m in enumerate(topic.messages)
            if m.key == key and m.fate == RESIDENT
        ]
        before = max((it for it in stored if it[0] <= at), default=None, key=lambda it: it[1])
        after = min((it for it in stored if it[0] > at), default=None, key=lambda it: it[1])
        every = self.decisions.get(name, [])
        known = [it for it in every[-REMEMBERED_BATCHES:] if key in it.keys]
        times = [it[0] for it in (before, after) if it] + [it.at for it in known]
        distance = min((abs(time - at) for time in times), default=None)
        nearest = [it for it in (before, after) if it and abs(it[0] - at) == distance]
        assert answer["offset"] == (nearest[0][1] if nearest else None)
        decided = [it for it in reversed(known) if abs(it.at - at) == distance]
        fates = [it.fate for it in decided]
        unknown = []
        if distance != 0:
            unknown += ["EXP-4"] * (before is None and topic.head > 0)
            until = every[-REMEMBERED_BATCHES - 1].at if len(every) > REMEMBERED_BATCHES else 0
            unknown += ["EXP-1"] * bool(until and (distance is None or distance > at - until))
        if distance is None and not unknown:
            fates = ["never_seen"]
        topic.close_windows(now)
        is_open = key in [it for it, _ in topic.windows]
        came = answer["verdicts"]
        if nearest:  # first the message and its subscriptions, as when its offset is asked about
            assert came[0]["fate"] == "readable"
            came = came[1 + max(len(self.readers_of(topic, 0)), 1) :]
        told = [it["rule"] if it["fate"] == "unknown" else it["fate"] for it in came]
        assert told == fates + unknown + ["window_open"] * is_open
        for verdict, decision in zip(came, decided, strict=False):
            assert verdict["evidence"]["at_us"] == decision.at
            if decision.fate == "kept_out":
                self.compare_winner(topic, decision.winners[key], verdict["evidence"])

    def compare_winner(self, topic, winner, evidence):
        message, window = topic.messages[winner], topic.duration_us("compaction_window_ms")
        if message.fate == RESIDENT:
            assert evidence["winner"] == winner
        else:
            assert "winner" not in evidence
        if "opened_us" in evidence:
            assert evidence["opened_us"] == message.accepted_us
            assert evidence.get("until_us", float("inf")) == message.accepted_us + window
