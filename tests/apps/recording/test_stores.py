"""Places of recordings: what can be named, and what is said of those that cannot be used."""

from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest

from zaichik.apps.recording import stores
from zaichik.apps.recording.places import is_in_object_store, place, shown_place
from zaichik.apps.recording.stores import Store, StoreRefused, StoreUnavailable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("recording", Path("recording")),
        ("/data/zaichik", Path("/data/zaichik")),
        ("file:///data/a%20b", Path("/data/a b")),
        ("s3://lake/zaichik", "s3://lake/zaichik"),
        ("s3://lake", "s3://lake"),
        ("s3://lake/z?region=eu-central-1", "s3://lake/z?region=eu-central-1"),
        ("gs://lake/zaichik", "gs://lake/zaichik"),
        ("abfs://box@store.dfs.core.windows.net/z", "abfs://box@store.dfs.core.windows.net/z"),
    ],
)
def test_a_place_is_a_folder_or_in_an_object_store(text, expected):
    assert place(text) == expected
    assert is_in_object_store(text) == isinstance(expected, str)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("http://lake/x", "can't be at http://; write s3://BUCKET"),
        ("s3://", "names no bucket"),
        ("s3:/lake/x", "lacks a slash; write s3://BUCKET"),
        ("s3://id:secret@lake/x", "leave it out"),
        ("s3://id@lake/x", "leave it out"),
        ("abfs://account:secret@host/x", "leave it out"),
        ("abfs://box@host/x?tenant_id=1&client_secret=very-secret", "the option client_secret, wh"),
        ("abfs://box@host/x?sv=2026&sig=very-secret", "the option sig, which others"),
    ],
)
def test_a_place_that_cannot_be_used_is_a_sentence_without_a_secret(text, problem):
    with pytest.raises(ValueError, match=problem) as raised:
        place(text)
    assert "secret@" not in str(raised.value)
    assert "very-secret" not in str(raised.value)


def test_options_of_a_url_are_not_shown():
    assert shown_place("s3://lake/z?region=x") == "s3://lake/z"
    assert shown_place(Path("what?")) == "what?"


def test_an_object_that_was_written_is_listed_and_read(s3):
    store = Store.at(s3.url())
    store.write("topic=t/day=1/1-0-2.parquet", pa.py_buffer(b"PAR1" * 10))
    (listed,) = store.listing("topic=t")
    assert (listed.size, store.shown(listed.path)) == (
        40,
        "s3://lake/zaichik/topic=t/day=1/1-0-2.parquet",
    )
    with store.opened(listed.path) as file:
        assert file.read() == b"PAR1" * 10


@pytest.mark.parametrize("name", ["кот", "a b", "a%20b", "100%25", "a+b", "a#b", "it's"])
def test_a_place_may_have_letters_that_a_url_may_not(s3, name):
    Store.at(s3.url(name)).write("1-0-2.parquet", pa.py_buffer(b"PAR1"))
    assert list(s3.objects) == [f"{unquote(name)}/1-0-2.parquet"]


def test_hidden_and_unfinished_objects_are_not_listed(s3):
    """Azure shows a name, with 0 bytes, before the object is complete."""
    for name, data in ((".hidden.parquet", b"x"), ("1-0-2.parquet", b""), ("1-2-4.parquet", b"x")):
        s3.objects[f"zaichik/topic=t/day=1/{name}"] = data
    (listed,) = Store.at(s3.url()).listing("topic=t")
    assert listed.path.endswith("1-2-4.parquet")


def test_nothing_is_listed_where_nothing_is(s3):
    assert Store.at(s3.url()).listing("topic=t") == []


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("gs://lake/z", "gs://lake/z?retry_limit_seconds=10"),
        ("gs://lake/z?scheme=http", "gs://lake/z?scheme=http&retry_limit_seconds=10"),
        ("gs://lake/z?retry_limit_seconds=3", "gs://lake/z?retry_limit_seconds=3"),
        ("s3://lake/z", "s3://lake/z"),
    ],
)
def test_a_client_of_google_s_store_gives_up_in_time(where, expected):
    assert stores._bounded(where) == expected


def test_an_object_that_has_gone_is_told_apart(s3):
    with pytest.raises(FileNotFoundError):
        Store.at(s3.url()).opened("lake/zaichik/topic=t/1-0-2.parquet")


def test_a_bucket_that_is_not_there_is_a_sentence(s3):
    with pytest.raises(StoreRefused, match=r"^s3://nolake/z cannot be used: there is no such b"):
        Store.at(s3.url("z").replace("lake", "nolake"))


def test_credentials_for_a_part_of_a_bucket_need_not_ask_for_the_bucket(s3):
    s3.refuse = lambda name, number: (403, "AccessDenied") if name == "HeadBucket" else None
    assert Store.at(s3.url()).listing("topic=t") == []


@pytest.mark.parametrize(
    ("status", "code", "kind", "sentence"),
    [
        (403, "AccessDenied", StoreRefused, "do not have the rights; .* s3:ListBucket"),
        (301, "PermanentRedirect", StoreRefused, r"in another region; .*region=eu-central-1"),
        (400, "AuthorizationHeaderMalformed", StoreRefused, "in another region"),
        (403, "InvalidAccessKeyId", StoreRefused, "does not know the credentials"),
        (403, "SignatureDoesNotMatch", StoreRefused, "does not know the credentials"),
        (400, "ExpiredToken", StoreUnavailable, "have expired; renew them"),
    ],
)
def test_what_is_wrong_with_a_store_is_a_sentence_that_says_what_to_do(
    s3, status, code, kind, sentence
):
    s3.refuse = lambda name, number: (status, code)
    with pytest.raises(
        StoreUnavailable, match=f"^s3://lake/zaichik cannot be used: .*{sentence}"
    ) as raised:
        Store.at(s3.url())
    assert type(raised.value) is kind


@pytest.mark.long  # the client tries for six seconds
@pytest.mark.parametrize(
    ("status", "code", "sentence"),
    [
        (403, "RequestTimeTooSkewed", "the clock of this machine is wrong"),
        (503, "SlowDown", "asks for fewer requests"),
        (500, "InternalError", "has an error of its own"),
    ],
)
def test_what_the_client_tries_again_is_a_sentence_in_the_end(s3, status, code, sentence):
    s3.refuse = lambda name, number: (status, code)
    with pytest.raises(StoreUnavailable, match=sentence):
        Store.at(s3.url())


@pytest.mark.parametrize("call", ["CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"])
def test_an_upload_that_fails_half_way_leaves_no_object(s3, call):
    """Of 12 MiB, which are two parts."""
    store = Store.at(s3.url())
    failing = 2 if call == "UploadPart" else 1
    s3.refuse = lambda name, number: (
        (403, "AccessDenied") if name == call and number >= failing else None
    )
    with pytest.raises(StoreRefused, match="do not have the rights"):
        store.write("topic=t/day=1/1-0-2.parquet", pa.py_buffer(bytes(12 * 2**20)))
    s3.refuse = lambda name, number: None
    assert s3.objects == {}
    assert store.listing("topic=t") == []


def test_an_object_that_the_store_has_cut_is_not_taken_for_written(s3):
    store = Store.at(s3.url())

    def cut(name, number):
        if name == "HeadObject":
            s3.objects = {key: data[:-1] for key, data in s3.objects.items()}

    s3.refuse = cut
    with pytest.raises(StoreUnavailable, match="has 9 of its 10 bytes"):
        store.write("topic=t/day=1/1-0-2.parquet", pa.py_buffer(b"0123456789"))
