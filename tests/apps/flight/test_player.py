"""A replay notices whatever is not as it was."""

import pytest
from conversation import Conversation, batch

from zaichik.apps.flight.format import FlightKind, Unreadable
from zaichik.apps.flight.player import Player
from zaichik_protocol import (
    Describe,
    Error,
    ErrorCode,
    Hello,
    Ping,
    Publish,
    Refused,
    Subscribe,
    encode,
)


@pytest.fixture
def data(flight):
    """Two connections, the second of which reads what the first has published."""
    ana, ben = Conversation(flight.broker), Conversation(flight.broker)
    ben.ask(Subscribe(2, "t"))
    for number in range(4):
        ana.ask(Publish(3 + number, "t", batch(b"%d" % number)))
        flight.clock.advance(1)
        ben.heard()
    for client in ana, ben:
        flight.broker.disconnect(client.manager, "CLOSED")
    return flight.landed()


def without(number):
    """Leave out that frame."""

    def change(records):
        frames = [index for index, record in enumerate(records) if record.kind is FlightKind.FRAME]
        del records[frames[number]]
        return records

    return change


def of(step):
    return step.record.number, step.record.kind


def test_nothing_differs_where_nothing_was_changed(data, replay, rewrite):
    assert rewrite(data) == data
    assert replay(data).differences == []


def test_a_frame_that_is_missing_makes_a_difference_for_whoever_would_have_noticed(
    data, replay, rewrite
):
    again = replay(rewrite(data, without(3)))
    assert of(again.differences[0]) == (1, FlightKind.OUTPUT)
    assert "checksum and bytes of the output: (0, 0) now" in again.differences[0].difference
    assert {of(step) for step in again.differences} == {
        (1, FlightKind.OUTPUT),
        (2, FlightKind.OUTPUT),
    }


def test_requests_in_another_order_make_a_difference(data, replay, rewrite):
    def swap(records):
        first, second = [
            index for index, record in enumerate(records) if record.kind is FlightKind.FRAME
        ][3:5]
        records[first], records[second] = records[second], records[first]
        return records

    assert replay(rewrite(data, swap)).differences


def test_another_time_makes_a_difference(data, replay, rewrite):
    """It is in every message."""

    def later(records):
        return [
            record._replace(now_us=record.now_us + 1) if record.kind is FlightKind.FRAME else record
            for record in records
        ]

    assert of(replay(rewrite(data, later)).differences[0]) == (2, FlightKind.OUTPUT)


def test_another_setting_makes_a_difference(flight, replay, rewrite):
    Conversation(flight.broker).ask(
        *(Publish(2 + number, f"t{number}", batch(b"x")) for number in range(3))
    )
    data = flight.landed()
    settings = replay(data).player.about["settings"]
    again = replay(rewrite(data, settings=settings | {"max_topics": 2}))
    assert [of(step) for step in again.differences] == [(1, FlightKind.OUTPUT)]
    assert b"max_topics" in again.steps[again.differences[0].number - 1].output[2]


def test_output_that_was_other_is_a_difference(data, replay, rewrite):
    def flip(records):
        at = next(index for index, record in enumerate(records) if record.kind is FlightKind.OUTPUT)
        records[at] = records[at]._replace(payload=bytes(4) + records[at].payload[4:])
        return records

    assert [of(step) for step in replay(rewrite(data, flip)).differences] == [
        (1, FlightKind.OUTPUT)
    ]


def test_another_end_of_a_conversation_is_a_difference(flight, replay, rewrite):
    client = Conversation(flight.broker)
    client.manager.refuse(Refused(ErrorCode.MALFORMED, "no frame"), 0, 0)
    flight.broker.disconnect(client.manager, client.manager.reason)

    def otherwise(records):
        return [
            record._replace(payload=b'["GONE: so", "CLOSED"]')
            if record.kind is FlightKind.DISCONNECT
            else record
            for record in records
        ]

    data = flight.landed()
    assert replay(data).differences == []
    (step,) = replay(rewrite(data, otherwise)).differences
    assert step.difference == "the reason: MALFORMED: no frame now, CLOSED in the recording"


def test_describe_shows_what_it_showed(flight, replay):
    """Memory of the process, disconnects and counters of access control are no function of what
    clients do.
    """
    client = Conversation(flight.broker)
    flight.broker.ends["TURNED_AWAY"] += 3
    flight.broker.access["login_ok"] += 2
    (answer,) = client.ask(Describe(2, 0))
    flight.broker.access["login_ok"] += 1
    client.ask(Describe(3, 0))
    again = replay(flight.landed())
    assert again.differences == []
    assert encode(answer) in [piece for step in again.steps for piece in step.output]


def test_a_bug_of_the_broker_is_repeated_and_the_replay_goes_on(
    flight, replay, patchable, monkeypatch
):
    real = type(flight.broker.registry).get_or_create

    def buggy(self, name, *arguments):
        if name == "bad":
            raise ZeroDivisionError(name)
        return real(self, name, *arguments)

    monkeypatch.setattr(type(flight.broker.registry), "get_or_create", buggy)
    client = Conversation(flight.broker)
    with pytest.raises(ZeroDivisionError):
        client.ask(Publish(2, "bad", batch(b"x")))
    client.manager.refuse(Refused(ErrorCode.INTERNAL, "a bug"), 2, 3)
    assert isinstance(client.heard()[0], Error)
    data = flight.landed()
    again = replay(data)
    assert again.differences == []
    assert [repr(step.error) for step in again.steps if step.error] == ["ZeroDivisionError('bad')"]
    monkeypatch.undo()
    fixed = replay(data)
    assert [step.error for step in fixed.steps if step.error] == []
    assert [of(step) for step in fixed.differences] == [(1, FlightKind.OUTPUT)]


@pytest.mark.parametrize("now", [True, False], ids=["then", "now"])
def test_an_exception_instead_of_output_is_compared_too(
    flight, replay, patchable, monkeypatch, now
):
    client = Conversation(flight.broker)
    kind = type(client.manager).__mro__[1]
    real = kind.next_output

    def buggy(self, now_us):
        if self.requests == 2:
            raise ZeroDivisionError
        return real(self, now_us)

    if now:
        monkeypatch.setattr(kind, "next_output", buggy)
        with pytest.raises(ZeroDivisionError):
            client.ask(Ping(2, 1))
        data = flight.landed()
        assert replay(data).differences == []
        monkeypatch.undo()
    else:
        client.ask(Ping(2, 1))
        data = flight.landed()
        assert replay(data).differences == []
        monkeypatch.setattr(kind, "next_output", buggy)
    again = replay(data)
    assert of(again.differences[0]) == (1, FlightKind.OUTPUT)


def test_a_replay_ends_before_what_came_later(data, replay):
    recording = replay(data).recording
    player = Player(type(recording)(data))
    steps = list(player.steps(until_us=1_000_000 + 1_500_000))
    assert [len(topic.readers) for topic in player.broker.registry] == [1]
    assert len(steps) < len(replay(data).steps)
    assert max(step.record.now_us for step in steps) == 2_000_000


def test_every_step_has_its_number(data, replay):
    steps = replay(data).steps
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))


@pytest.mark.parametrize(
    "record",
    [
        (FlightKind.FRAME, 1, b"no frame"),
        (FlightKind.FRAME, 9, encode(Hello(1))),
        (FlightKind.REFUSE, 1, b'[1000, "", "", 0, 0]'),
        (FlightKind.CALL, 1, b'["__init__"]'),
        (FlightKind.CALL, 1, b'["go_away"]'),
        (FlightKind.OUTPUT, 9, bytes(12)),
        (FlightKind.HOLD, 0, b"{}"),
        (FlightKind.SWEEP, 0, b""),
        (FlightKind.RIGHT, 5, b'["publish", "t", true]'),
        (FlightKind.SHOWN, 5, b"[]"),
        (FlightKind.DISCONNECT, 7, b"5"),
    ],
    ids=str,
)
def test_records_that_make_no_sense_do_no_harm(flight, replay, rewrite, record):
    """They may have been written by somebody who knows the checksum."""
    kind, number, payload = record
    client = Conversation(flight.broker)
    client.ask(Ping(2, 3))
    data = flight.landed()

    def more(records):
        return [
            *records[:-1],
            records[0]._replace(kind=kind, number=number, payload=payload),
            records[-1],
        ]

    again = replay(rewrite(data, more))
    assert again.recording.problem == ""
    assert len(again.steps) == len(replay(data).steps) + 1
    assert all(step.error is None for step in again.steps[:-2])
    assert again.player.broker.managers[1].is_open


@pytest.mark.parametrize(
    "change",
    [
        {"settings": {}},
        {"settings": {"topic": {"colour": 1}}},
        {"settings": {"topic": {}, "max_key": "long"}},
        {"settings": {"topic": "none"}},
        {"begun_us": "now"},
        {"begun_us": 10**30},
    ],
    ids=str,
)
def test_a_header_that_makes_no_sense(data, rewrite, replay, change):
    with pytest.raises(Unreadable, match="its header makes no sense"):
        replay(rewrite(data, **change))
