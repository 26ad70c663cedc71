"""A little of the fuzzing; `make fuzz` does much of it. And does it find anything?"""

import random
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz import __main__ as command
from fuzz import campaign, conversation, decoder, mqtt
from zaichik.apps.mqtt.packets import PacketDecoder
from zaichik.apps.mqtt.packets.hot import ACKNOWLEDGEMENTS
from zaichik.apps.mqtt.packets.roles import CLIENT
from zaichik.core.broker import Broker
from zaichik.core.reader import Reader
from zaichik.core.ring import BroadcastRing
from zaichik.core.subscription_manager import SubscriptionManager
from zaichik_protocol import Commit, FrameDecoder
from zaichik_protocol.derived import FrameFormat, formats_of

pytestmark = pytest.mark.unmeasured  # nothing of the broker that its own tests do not run

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("inputs", [1000, 5000])
@pytest.mark.parametrize(
    "target", [decoder, conversation, mqtt], ids=["decoder", "conversation", "mqtt"]
)
def test_nothing_is_found(target, inputs, request):
    """P5: whatever bytes come, and however: see the target's text."""
    if target is conversation:  # it listens in
        request.getfixturevalue("patchable")
    done, _ = campaign.run(target, inputs, seed=0)
    assert done >= inputs


# -- does it find anything? ----------------------------------------------------------------------


def a_fatal_error_is_forgotten(monkeypatch):
    real = FrameDecoder.next_frame

    def next_frame(self):
        self._fatal = None
        return real(self)

    monkeypatch.setattr(FrameDecoder, "next_frame", next_frame)


def a_batch_may_be_wrong(monkeypatch):
    monkeypatch.setattr("zaichik_protocol.batch._checked_end", lambda _, offsets: offsets[-1])


def what_follows_is_not_looked_at(monkeypatch):
    class Careless(FrameFormat):
        def decode(self, frame_id, data, at, end):
            return Commit(frame_id, *struct.unpack_from("<IQ", data, at))

    for accepted in decoder.ACCEPTED.values():
        if Commit in accepted:
            monkeypatch.setitem(formats_of(accepted), Commit.TYPE, Careless(Commit, 0))


def a_commit_breaks(monkeypatch):
    real = Reader.commit

    def commit(self, next_offset):
        if next_offset > self.cursor:
            raise KeyError(next_offset)
        return real(self, next_offset)

    monkeypatch.setattr(Reader, "commit", commit)


def bytes_that_expire_are_not_given_back(monkeypatch):
    real = BroadcastRing.expire_below

    def expire_below(self, offset):
        used = self.budget.used
        real(self, offset)
        self.budget.used = used

    monkeypatch.setattr(BroadcastRing, "expire_below", expire_below)


def one_clients_error_reaches_the_others(monkeypatch):
    real = SubscriptionManager.refuse

    def refuse(self, *arguments):
        real(self, *arguments)
        if self.closing:
            for other in self._broker.managers.values():
                other.heartbeat = True

    monkeypatch.setattr(SubscriptionManager, "refuse", refuse)


def lag_is_swallowed(monkeypatch):
    real = Reader._skip

    def skip(self, to_offset):
        real(self, to_offset)
        return self._next_frame()

    monkeypatch.setattr(Reader, "_skip", skip)


def replies_are_in_no_order(monkeypatch):
    real = SubscriptionManager.next_output

    def turn(self, now_us):
        self._out.reverse()
        return real(self, now_us)

    monkeypatch.setattr(SubscriptionManager, "next_output", turn)


def a_message_that_waits_cannot_be_explained(monkeypatch):
    monkeypatch.setattr(
        "zaichik.core.report.delivery.waiting", lambda live, offset: live.reader.sent[0]
    )


def a_clock_is_moved_anywhere(monkeypatch):
    monkeypatch.setattr(Broker, "advance", lambda self, to_us: self.clock.move_to(to_us))


def a_packet_identifier_may_be_0(monkeypatch):
    def read(version, first, data, begin, end):
        return ACKNOWLEDGEMENTS[first](int.from_bytes(data[begin : begin + 2]))

    readers = [read if at in ACKNOWLEDGEMENTS else it for at, it in enumerate(CLIENT.readers)]
    monkeypatch.setattr(CLIENT, "readers", readers)


def a_length_may_have_any_size(monkeypatch):
    monkeypatch.setattr(PacketDecoder, "_limits", lambda self, data, at: (at + 2, at + 2))


def an_error_of_mqtt_is_forgotten(monkeypatch):
    monkeypatch.setattr(PacketDecoder, "_fail", lambda self, error: None)


BUGS = {
    a_packet_identifier_may_be_0: mqtt,
    a_length_may_have_any_size: mqtt,
    an_error_of_mqtt_is_forgotten: mqtt,
    a_fatal_error_is_forgotten: decoder,
    a_batch_may_be_wrong: decoder,
    what_follows_is_not_looked_at: decoder,
    a_commit_breaks: conversation,
    bytes_that_expire_are_not_given_back: conversation,
    one_clients_error_reaches_the_others: conversation,
    lag_is_swallowed: conversation,
    replies_are_in_no_order: conversation,
    a_message_that_waits_cannot_be_explained: conversation,
    a_clock_is_moved_anywhere: conversation,
}


@pytest.mark.usefixtures("patchable")
@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant, monkeypatch):
    monkeypatch.setattr(campaign, "MOST_TRIES", 1)
    plant(monkeypatch)
    with pytest.raises(campaign.Failure):
        campaign.run(BUGS[plant], 20_000, seed=1)


@pytest.mark.usefixtures("patchable")
@pytest.mark.parametrize(
    "plant", [what_follows_is_not_looked_at, one_clients_error_reaches_the_others]
)
def test_what_fails_is_made_small_and_shown_with_the_command_that_repeats_it(
    plant, monkeypatch, capsys
):
    name = BUGS[plant].__name__.rpartition(".")[2]
    with monkeypatch.context() as planted:
        plant(planted)
        assert command.main([name, "--inputs", "20000", "--seed", "1"]) == 1
        told = capsys.readouterr()
        again = told.out.split()
        assert again[:5] == ["python", "-m", "tests.fuzz", name, "--replay"]
        assert (len(again), len(again[5]) <= 200) == (6, True), "one input of few bytes"
        with pytest.raises(AssertionError):
            command.main(again[3:])
    assert f"{name}, seed 1: AssertionError" in told.err
    assert command.main(again[3:]) == 0, "without the bug it is good"


@pytest.mark.usefixtures("patchable")
def test_the_same_seed_makes_the_same_inputs():
    for target in (decoder, conversation, mqtt):
        logs = [[], [], []]
        for log, seed in zip(logs, (1, 1, 2), strict=True):
            target.play(random.Random(seed), log)
        assert logs[0] == logs[1] != logs[2]


# -- the command ---------------------------------------------------------------------------------


def started(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.fuzz", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.usefixtures("patchable")
def test_the_command_tells_what_it_has_done():
    out, err = (process := started("--inputs", "50", "--seed", "3")).communicate()
    assert process.returncode == 0
    assert [
        line for line in err.splitlines() if " of 50 inputs, " not in line
    ] == []  # progress, if it takes a second
    decoded, told, of_mqtt = out.splitlines()
    assert decoded.startswith("decoder: 50 inputs, seed 3, ")
    assert told.startswith("conversation: ")
    assert of_mqtt.startswith("mqtt: ")
    assert of_mqtt.endswith("nothing found")


def test_it_shows_progress_and_ctrl_c_ends_it():
    process = started("--inputs", "100000000", "decoder")
    assert " of 100,000,000 inputs, " in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--replay", "t0"], "--replay needs to know for what"),
        (["--inputs", "0"], "it must be at least 1"),
    ],
)
def test_options_that_make_no_sense_are_refused(words, problem, capsys):
    with pytest.raises(SystemExit, match="2"):
        command.main(words)
    assert problem in capsys.readouterr().err
