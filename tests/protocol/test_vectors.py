from dataclasses import fields

import pytest
from offenders import each
from wire_examples import ALL_FRAMES, GOLDEN, INVALID, VECTORS, any_decoder, by_name, load

from zaichik_protocol import ErrorCode, declaration, encode
from zaichik_protocol.layout import TEXT

every_golden = pytest.mark.parametrize("golden", GOLDEN, ids=by_name)


@every_golden
def test_fields_encode_to_the_golden_bytes(golden):
    assert encode(golden.frame) == golden.data
    assert declaration.encode(golden.frame) == golden.data


@every_golden
def test_golden_bytes_decode_to_the_fields(golden):
    decoder = any_decoder()
    decoder.receive_data(golden.data)
    assert decoder.next_frame() == golden.frame
    assert declaration.decode(ALL_FRAMES, golden.data) == golden.frame


@each("cls", ALL_FRAMES)
def test_every_frame_has_a_golden_one(cls):
    assert any(type(golden.frame) is cls for golden in GOLDEN)


@pytest.mark.parametrize(("cls", "flag"), [(cls, flag) for cls in ALL_FRAMES for flag in cls.FLAGS])
def test_every_flag_is_seen_set_and_unset(cls, flag):
    assert {getattr(golden.frame, flag) for golden in GOLDEN if type(golden.frame) is cls} == {
        False,
        True,
    }


def test_golden_frames_tell_every_field():
    for case, golden in zip(load("frames.json"), GOLDEN, strict=True):
        assert list(case) == ["name", "frame", "fields", "hex"]
        assert case["fields"].keys() == {field.name for field in fields(golden.frame)} - {"magic"}


@pytest.mark.parametrize("cases", [GOLDEN, INVALID])
def test_names_are_unique(cases):
    assert len({case.name for case in cases}) == len(cases)


def test_invalid_cases_have_the_keys_that_the_text_tells():
    text = (VECTORS / "README.md").read_text(encoding="utf-8")
    for case in load("invalid.json"):
        assert list(case) == ["name", "receiver", "hello_done", "hex", "code", "field"]
        assert case["receiver"] in {"broker", "client"}
        assert case["code"] in ErrorCode.__members__
        assert all(f"| `{key}` |" in text for key in case)


def strings_of(cls):
    return [field.name for field in cls.FIELDS if field.kind is TEXT]


@pytest.mark.parametrize(
    ("cls", "field"), [(cls, name) for cls in ALL_FRAMES for name in strings_of(cls)]
)
def test_every_str_has_a_case_of_bad_utf_8(cls, field):
    assert any(
        (case.code, case.field, case.data[4:5]) == ("INVALID_FIELD", field, bytes([cls.TYPE]))
        for case in INVALID
    )
