"""Sequence diagrams: arrows between the right lines, as text and as SVG."""

import xml.etree.ElementTree as ET

import pytest
from test_history import GOOD, TOPIC, got, published

from zaichik.learn import history
from zaichik.learn.drawing import WIDTH, Drawing, Step
from zaichik.learn.history import Lagged

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def gap():
    """Of two messages the second one comes alone."""
    return history.check([TOPIC, GOOD[0], GOOD[1], GOOD[3]])


def test_arrows_lead_from_who_sent_to_who_got(gap):
    assert history.draw(gap).lines() == (
        "           publisher 1     broker      reader 1",
        "  0.400 s       |----------->|            |       Publish a b to t",
        "  0.500 s       |<-----------|            |       Published from offset",
        "                |            |            |       0 on",
        "  0.900 s       |            |<-----------|       Subscribe to t",
        "  1.000 s       |            |----------->|       Subscribed from offset",
        "                |            |            |       0 on",
        "  1.200 s       |            |----------->|       Messages, offset 1: b",
        "  1.200 s       |            |            *       SILENT GAP",
    )


def test_where_there_is_no_room_beside_the_lines_labels_stand_below():
    parties = ("publisher 1", "publisher 2", "broker", "reader 11")
    lines = Drawing(
        "wrong", parties, (Step(1.0, "publisher 1", "broker", "Publish a b to t"),)
    ).lines()
    assert lines[1:] == (
        "  1.000 s       |------------------------>|            |",
        " " * 12 + "Publish a b to t",
    )


@pytest.mark.parametrize("count", range(1, 6))
def test_a_diagram_fits_a_terminal(count):
    parties = tuple(f"reader {number}" for number in range(count))
    steps = tuple(Step(0.5, parties[0], parties[-1], "word " * 40) for _ in range(2))
    assert max(map(len, Drawing("wrong", parties, steps).lines())) <= WIDTH


def test_the_picture_has_a_line_for_each_party_and_an_arrow_for_each_frame(gap):
    drawing = history.draw(gap)
    root = ET.fromstring(drawing.svg())  # noqa: S314 (our own)
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert (
        texts[0]
        == "silent gap: reader 1 was at 0, then got offset 1: no message or Lagged for offset 0"
    )
    assert set(drawing.parties) <= set(texts)
    assert all(step.label in texts for step in drawing.steps)
    frames = [step for step in drawing.steps if step.source != step.target]
    assert len(root.findall(f".//{SVG}polygon")) == len(frames)
    assert len(root.findall(f".//{SVG}line")) == len(frames) + len(drawing.parties)
    assert len(root.findall(f".//{SVG}circle")) == len(drawing.steps) - len(frames)


def test_a_picture_can_hold_what_a_broker_invents():
    anomaly = history.check([TOPIC, GOOD[1], got(1.1, 0, b"<\0&>")])
    assert "&lt;" in history.draw(anomaly).svg()
    ET.fromstring(history.draw(anomaly).svg())  # noqa: S314 (our own)


def test_what_led_to_an_anomaly_is_drawn_with_it():
    """The batch of the missing message, and the subscription; neither is part of the proof."""
    anomaly = history.check([TOPIC, *GOOD[:3], Lagged(1.2, "reader 1", 5, 6)])
    assert anomaly.proof == (GOOD[2], Lagged(1.2, "reader 1", 5, 6))
    assert anomaly.story() == (GOOD[0], GOOD[1], *anomaly.proof)


def test_a_publish_without_an_answer_is_drawn_without_one():
    unanswered = published(0.6, b"c", first=None)
    two = history.check([TOPIC, unanswered, *GOOD[:4], got(1.3, 2, b"c"), got(1.4, 3, b"c")])
    labels = [step.label for step in history.draw(two).steps]
    assert "disconnects before the reply" in labels
