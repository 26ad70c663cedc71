"""The gate: who is let in, what strangers learn (nothing), and how rights change while a broker
runs.
"""

import logging
import os
import resource
import shutil
import time
import traceback
from contextlib import asynccontextmanager

import anyio
import pytest
import trustme

from zaichik.base.clock import DAY_US, ManualClock
from zaichik.base.private_files import Unusable
from zaichik.cli.access_folder import dump, edited, new_password, new_token, with_token
from zaichik.core.replies import error
from zaichik.net.socket_stream import SocketStream
from zaichik.net.tls import TlsStream
from zaichik.net.tls_engine import TlsFailed
from zaichik.net.tls_settings import ServerTls, client_tls, server_tls
from zaichik.server.access import access_gate
from zaichik.server.access import users as users_module
from zaichik.server.access.access_gate import Access, AccessGate
from zaichik.server.access.backoff import FAILURES, MOST_WAITING
from zaichik.server.access.newcomers import HANDSHAKES, MOST_SILENT_OF_ONE
from zaichik.server.access.rules import Rules
from zaichik.server.access.users import Record, Users
from zaichik.server.places import Place
from zaichik_protocol import ErrorCode, Hello, Refused, encode

GUARD = 60
PEER, OTHER = "10.0.0.1:5000", "10.0.0.2:5000"
RULES = "user *\nallow publish,subscribe public*\nuser ana\nallow all *\n"
MOST = 1000  # connections of an address that may be without a login
NEVER = 2**50  # seconds
PASSWORD = "correct horse battery"


class Sleeper:
    """Lets a clock pass instead of sleeping."""

    def __init__(self, clock):
        self.clock = clock

    async def __call__(self, seconds):
        self.clock.advance(seconds)
        await anyio.lowlevel.checkpoint()


@pytest.fixture(autouse=True)
def _cheap(patchable, monkeypatch):
    monkeypatch.setitem(users_module.SCRYPT, "n", 2)
    monkeypatch.setitem(users_module.SCRYPT, "p", 1)


@pytest.fixture
def clock():
    return ManualClock(time.time_ns() // 1000)


@pytest.fixture
def folder(tmp_path):
    """Ana has a token that expires, one that does not, and a password; boris has a token."""
    path = tmp_path / "access"
    path.mkdir(mode=0o700)
    (path / "rules").write_text(RULES)
    folder = Folder(path)
    folder.ends = int(time.time()) + 100
    (short, folder.short), (long, folder.token) = new_token(folder.ends), new_token()
    ana = Record("ana", (short, long), new_password(PASSWORD))
    token, folder.boris = new_token()
    folder.write(Users(users=(ana, with_token(Record("boris"), token), Record("nothing"))))
    return folder


class Folder:
    def __init__(self, path):
        self.path = path

    def write(self, users):
        fresh = self.path / "fresh"
        fresh.write_bytes(dump(users))
        fresh.chmod(0o600)
        fresh.replace(self.path / "users.json")


@pytest.fixture
def gate(folder, clock):
    return AccessGate(Access.load(folder.path), clock, folder.path, sleep=Sleeper(clock))


def arrived(gate, peer=PEER, on_lost=lambda: None):
    """The place of a connection, which stays."""
    place = Place(peer, on_lost)
    gate.arrive(place, MOST)
    return place


def with_token_of(text):
    return Hello(1, auth=1, secret=text)


def with_password(user, text):
    return Hello(1, auth=2, user=user, secret=text)


async def refused(gate, hello, peer=PEER):
    with pytest.raises(Refused) as caught:
        await gate.login(hello, None, arrived(gate, peer))
    return caught.value


# -- login


@pytest.mark.anyio
async def test_a_token_says_who_it_is(gate, folder):
    user = await gate.login(with_token_of(folder.token), None, arrived(gate))
    assert user.name == "ana"
    assert user.how.startswith("token:")
    assert user.may("delete", "x")
    assert not user.may("delete", "$broker")
    other = await gate.login(with_token_of(folder.boris), None, arrived(gate))
    assert (other.name, other.may("publish", "public/1"), other.may("publish", "x")) == (
        "boris",
        True,
        False,
    )


@pytest.mark.anyio
async def test_a_password_says_who_it_is_and_is_tried_only_once(gate, monkeypatch):
    user = await gate.login(with_password("ana", PASSWORD), None, arrived(gate))
    assert (user.name, user.how) == ("ana", "password")
    monkeypatch.setattr(
        "zaichik.server.access.access_gate.knows", lambda *_: pytest.fail("tried again")
    )
    assert (await gate.login(with_password("ana", PASSWORD), None, arrived(gate))).name == "ana"


@pytest.mark.anyio
async def test_a_password_that_was_right_is_not_right_any_more_when_it_was_changed(gate, folder):
    await gate.login(with_password("ana", PASSWORD), None, arrived(gate))
    users = gate.access.users
    folder.write(
        Users(users=(Record("ana", (), new_password("another " + PASSWORD)), *users.users[1:]))
    )
    assert gate.recheck(0)
    await refused(gate, with_password("ana", PASSWORD))


def wrong_logins(folder):
    return {
        "unknown token": with_token_of("zk_" + "a" * 43),
        "no token": with_token_of(""),
        "half a token": with_token_of(folder.token[:-1]),
        "its hash": with_token_of(users_module.hash_of(folder.token)),
        "a token and a name": Hello(1, auth=1, user="ana", secret=folder.token),
        "a token as a password": with_password("ana", folder.token),
        "a password as a token": with_token_of(PASSWORD),
        "wrong password": with_password("ana", PASSWORD + "!"),
        "no password": with_password("ana", ""),
        "unknown user": with_password("nobody", PASSWORD),
        "no name": with_password("", PASSWORD),
        "a name that is none": with_password("Ana\n", PASSWORD),
        "a user without a password": with_password("boris", PASSWORD),
        "a user without anything": with_password("nothing", ""),
        "nobody": Hello(1, auth=0),
        "just a name": Hello(1, auth=0, user="ana"),
        "another way": Hello(1, auth=3, user="ana", secret=folder.token),
        "no way": Hello(1, auth=255, user="ana", secret=PASSWORD),
        "a long password": with_password("ana", PASSWORD * 1000),
    }


@pytest.mark.anyio
async def test_why_a_login_is_refused_shows_nowhere_but_in_the_log(gate, folder, clock, caplog):
    caplog.set_level(logging.DEBUG)
    answers = set()
    for hello in wrong_logins(folder).values():
        answers.add(await frame_of(gate, hello))
    clock.move_to(folder.ends * 1_000_000)
    answers.add(await frame_of(gate, with_token_of(folder.short)))
    assert len(answers) == 1
    assert b"the broker does not accept these credentials" in answers.pop()
    assert gate.counters["login_failed"] == len(wrong_logins(folder)) + 1
    told = caplog.text
    assert "reason=ended user=ana" in told
    assert "reason=wrong user=ana" in told
    assert "nobody" not in told  # a name that is no user's may be a password
    assert "Ana" not in told
    assert folder.token[3:] not in told
    assert PASSWORD not in told


@pytest.mark.anyio
async def test_each_password_that_is_not_right_costs_the_same(gate, folder, monkeypatch):
    calls, real = [], users_module.hashlib.scrypt

    def scrypt(*arguments, **options):
        calls.append({name: value for name, value in options.items() if name != "salt"})
        return real(*arguments, **options)

    monkeypatch.setattr(users_module.hashlib, "scrypt", scrypt)
    wrong = [hello for hello in wrong_logins(folder).values() if hello.auth == 2]
    for hello in wrong * 2:
        calls.clear()
        await refused(gate, hello)
        assert calls == [users_module.SCRYPT], hello
    assert len(wrong) > 5


async def frame_of(gate, hello):
    """What the peer gets, byte by byte."""
    refusal = await refused(gate, hello)
    assert refusal.code is ErrorCode.AUTH_FAILED
    return encode(error(refusal, hello.id, hello.TYPE, fatal=True))


@pytest.mark.anyio
async def test_no_secret_is_in_what_an_exception_shows(gate, folder, caplog):
    caplog.set_level(logging.DEBUG)
    user = await gate.login(with_token_of(folder.token), None, arrived(gate))
    for hello in (with_token_of("zk_Canary" + "a" * 37), with_password("Canary", "Canary" * 10)):
        refusal = await refused(gate, hello)
        assert "Canary" not in "".join(traceback.format_exception(refusal))
    assert "Canary" not in caplog.text
    for shown in (user, gate, gate.access, vars(gate), caplog.text):
        assert folder.token not in repr(shown)
        assert PASSWORD not in repr(shown)


@pytest.mark.anyio
async def test_lines_of_the_log_cannot_be_forged(gate, folder, caplog):
    caplog.set_level(logging.DEBUG)
    await refused(gate, with_password("x\nlogin_ok user=ana\x1b[31m", PASSWORD))
    (folder.path / "rules").write_text("nonsense\n")
    gate._folder = folder.path.rename(folder.path.with_name("x\nlogin_ok user=ana"))
    assert not gate.reload()
    assert [record.getMessage().isprintable() for record in caplog.records] == [True, True]


@pytest.mark.anyio
async def test_what_was_refused_is_counted_and_told_once_a_minute(gate, folder, clock, caplog):
    caplog.set_level(logging.INFO)
    user = await gate.login(with_token_of(folder.boris), None, arrived(gate))
    caplog.clear()
    for _ in range(3):
        user.denied("publish", "secret\n" + "x" * 1000)
    user.denied("create", "secret")
    assert [record.getMessage().partition("x")[0] for record in caplog.records] == [
        "forbidden.publish user=boris topic=secret\\n",
        "forbidden.create user=boris topic=secret",
    ]
    assert max(len(record.getMessage()) for record in caplog.records) < 300
    clock.advance(60)
    user.denied("publish", "secret")
    assert len(caplog.records) == 3
    assert (gate.counters["forbidden.publish"], gate.counters["forbidden.create"]) == (4, 1)


# -- the end of a login


@pytest.mark.anyio
async def test_a_login_ends_when_its_token_expires(gate, folder, clock):
    user = await gate.login(with_token_of(folder.short), None, arrived(gate))
    other = await gate.login(with_token_of(folder.token), None, arrived(gate))
    assert not user.is_ended(folder.ends * 1_000_000 - 1)
    assert user.is_ended(folder.ends * 1_000_000)
    assert not other.is_ended(NEVER)


@pytest.mark.anyio
@pytest.mark.parametrize("way", ["token", "password"])
async def test_a_login_ends_when_what_proved_it_is_gone(gate, folder, way):
    hello = with_token_of(folder.token) if way == "token" else with_password("ana", PASSWORD)
    user = await gate.login(hello, None, arrived(gate))
    ana, *others = gate.access.users.users
    kept = Record("ana", ana.tokens[:1], None)
    folder.write(Users(users=(kept, *others)))
    assert not user.is_ended(0)
    assert gate.recheck(0)
    assert user.is_ended(0)
    await refused(gate, hello)
    assert (await gate.login(with_token_of(folder.short), None, arrived(gate))).name == "ana"


@pytest.mark.anyio
async def test_a_login_ends_when_its_user_is_gone_and_one_of_the_same_name_comes(gate, folder):
    user = await gate.login(with_token_of(folder.token), None, arrived(gate))
    with edited(folder.path) as editing:
        editing.remove("ana")
        editing.put(with_token(Record("ana"), new_token()[0]))
    assert gate.recheck(0)
    assert user.is_ended(0)


@pytest.mark.anyio
async def test_a_password_that_is_changed_while_it_is_tried_is_not_accepted(
    gate, folder, monkeypatch
):
    def knows(*_):
        folder.write(Users(users=gate.access.users.users[1:]))
        gate.recheck(0)
        return True

    monkeypatch.setattr("zaichik.server.access.access_gate.knows", knows)
    await refused(gate, with_password("ana", PASSWORD))


# -- reload


@pytest.mark.anyio
async def test_rights_are_those_of_now(gate, folder):
    user = await gate.login(with_token_of(folder.boris), None, arrived(gate))
    assert user.may("publish", "public")
    assert "public" in user.publishable
    (folder.path / "rules").write_text("user *\nallow publish x\n")
    assert user.may("publish", "public")  # not before somebody says so: it may be half written
    assert gate.reload()
    assert not user.may("publish", "public")
    assert user.publishable == set()
    assert user.may("publish", "x")


def test_users_json_is_read_again_by_itself_and_only_when_it_has_changed(gate, folder):
    gate.recheck(0)
    assert not gate.recheck(0)
    (folder.path / "rules").write_text("nonsense")
    with edited(folder.path) as editing:
        editing.put(Record("new"))
    assert gate.recheck(0)
    assert "new" in gate.access.users.by_name
    assert not gate.recheck(0)
    assert "stale_since_us" not in gate.counters


def test_a_link_to_another_users_json_is_noticed(gate, folder, tmp_path):
    """As Kubernetes replaces files."""
    gate.recheck(0)
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(dump(Users(users=(Record(name),))))
        (tmp_path / name).chmod(0o600)
        (tmp_path / "link").symlink_to(tmp_path / name)
        (tmp_path / "link").replace(folder.path / "users.json")
        assert gate.recheck(0)
        assert list(gate.access.users.by_name) == [name]


BREAKAGES = {
    "half of users.json": lambda path: (path / "users.json").write_bytes(
        (path / "users.json").read_bytes()[:50]
    ),
    "empty users.json": lambda path: (path / "users.json").write_bytes(b""),
    "no users.json": lambda path: (path / "users.json").unlink(),
    "users.json for all": lambda path: (path / "users.json").chmod(0o644),
    "users.json is a FIFO": lambda path: (
        (path / "users.json").unlink(),
        os.mkfifo(path / "users.json", 0o600),
    ),
    "half a line of rules": lambda path: (path / "rules").write_text(RULES[:-3]),
    "nonsense in the rules": lambda path: (path / "rules").write_text("allow everything\n"),
    "no rules": lambda path: (path / "rules").unlink(),
    "rules that others write": lambda path: (path / "rules").chmod(0o666),
    "a folder that others write": lambda path: path.chmod(0o777),
    "no folder": lambda path: path.rename(path.with_name("elsewhere")),
}


@pytest.mark.anyio
@pytest.mark.parametrize("what", BREAKAGES)
async def test_if_a_file_cannot_be_used_the_old_rules_stay_and_nobody_starts_with_it(
    gate, folder, clock, what, caplog
):
    user = await gate.login(with_token_of(folder.boris), None, arrived(gate))
    before = gate.access
    copy = folder.path.with_name("copy")
    shutil.copytree(folder.path, copy)
    BREAKAGES[what](folder.path)
    with pytest.raises((Unusable, OSError)):
        Access.load(folder.path)
    assert not gate.reload()
    assert gate.access is before
    assert user.may("publish", "public")
    assert not user.may("publish", "x")
    assert gate.counters["reload_failed"] == 1
    assert gate.counters["stale_since_us"] == clock.now_us()
    assert "reload_failed" in caplog.text
    if folder.path.exists():
        shutil.rmtree(folder.path)
    copy.rename(folder.path)
    assert gate.reload()
    assert "stale_since_us" not in gate.counters


def test_without_a_descriptor_the_old_rules_stay(gate, folder):
    before, limits = gate.access, resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        assert not gate.reload()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert gate.access is before
    assert gate.reload()


def test_users_json_is_read_as_soon_as_there_is_a_descriptor(gate, folder):
    """ACC-4: or else who was removed stays, until somebody changes the file again."""
    gate.recheck(0)
    folder.write(Users())
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        assert not gate.recheck(0)
        assert not gate.recheck(0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert gate.counters["reload_failed"] == 1
    assert gate.recheck(0)
    assert gate.access.users.users == ()
    assert "stale_since_us" not in gate.counters


def test_rules_that_could_not_be_read_stay_stale_when_users_change(gate, folder):
    (folder.path / "rules").write_text("nonsense")
    assert not gate.reload()
    folder.write(Users())
    assert gate.recheck(0)
    assert "stale_since_us" in gate.counters
    (folder.path / "rules").write_text(RULES)
    assert gate.reload()
    assert "stale_since_us" not in gate.counters


def test_a_broken_users_json_is_reported_once(gate, folder):
    gate.recheck(0)
    (folder.path / "users.json").write_bytes(b"{")
    for _ in range(5):
        assert not gate.recheck(0)
    assert gate.counters["reload_failed"] == 1


def test_empty_rules_are_no_mistake_and_nobody_may_anything(folder, clock):
    (folder.path / "rules").write_text("")
    access = Access.load(folder.path)
    assert not any(access.rules.of("ana").may(action, "x") for action in ("publish", "describe"))


@pytest.mark.anyio
async def test_a_gate_without_files(clock):
    token, text = new_token()
    gate = AccessGate(
        Access(Users(users=(Record("ana", (token,)),)), Rules.parse(b"user *\nallow all *\n")),
        clock,
    )
    assert gate.recheck(0)  # a name may have been kept on the disk since its user had more rights
    assert not gate.recheck(0)
    assert (await gate.login(with_token_of(text), None, arrived(gate))).may("publish", "x")


# -- back-off


def exhaust(gate, peer=PEER):
    """Use up the allowance of an address."""
    for _ in range(FAILURES):
        gate.left(arrived(gate, peer))


@pytest.mark.anyio
async def test_after_many_failures_passwords_of_an_address_wait_and_those_of_others_do_not(
    gate, clock
):
    start = clock.now_us()
    for _ in range(FAILURES):
        await refused(gate, with_token_of("zk_x"))
    await refused(gate, with_password("ana", "wrong"), OTHER)
    assert clock.now_us() == start
    await refused(gate, with_password("ana", "wrong"))
    assert clock.now_us() == start + 1_000_000
    await refused(gate, with_password("ana", "wrong"))
    assert clock.now_us() == start + 2_000_000
    user = await gate.login(with_password("ana", PASSWORD), None, arrived(gate))
    assert (user.name, clock.now_us()) == ("ana", start + 3_000_000)


@pytest.mark.anyio
async def test_a_password_that_was_right_waits_for_nobody(gate, clock):
    await gate.login(with_password("ana", PASSWORD), None, arrived(gate))
    exhaust(gate)
    start = clock.now_us()
    await gate.login(with_password("ana", PASSWORD), None, arrived(gate))
    assert clock.now_us() == start


@pytest.mark.anyio
async def test_a_right_token_is_let_in_at_once_however_many_failures_there_are(
    gate, folder, clock, caplog
):
    """And wrong ones are neither charged nor logged: they may come hundreds of times a second."""
    exhaust(gate)
    start = clock.now_us()
    caplog.set_level(logging.INFO)
    for _ in range(1000):
        await refused(gate, with_token_of("zk_x"))
    assert not caplog.messages
    assert gate.counters["login_failed"] == 1000
    place = arrived(gate)
    assert place.is_beyond
    assert (await gate.login(with_token_of(folder.token), None, place)).name == "ana"
    assert not place.is_beyond
    assert clock.now_us() == start
    assert [message.partition(" ")[0] for message in caplog.messages] == ["login_ok"]
    await refused(gate, with_password("ana", "wrong"))
    assert clock.now_us() == start + 1_000_000


@pytest.mark.anyio
async def test_who_leaves_before_a_login_counts_as_a_failure_and_a_login_as_none(
    gate, folder, clock
):
    for _ in range(50):
        place = arrived(gate)
        await gate.secure(None, place)
        await gate.login(with_token_of(folder.token), None, place)
        assert not arrived(gate).is_beyond
    exhaust(gate)
    assert arrived(gate).is_beyond
    assert not arrived(gate, OTHER).is_beyond


@pytest.mark.anyio
async def test_who_was_logged_in_for_hours_comes_back_beside_failing_strangers(gate, folder, clock):
    user = await gate.login(with_token_of(folder.token), None, arrived(gate, OTHER))
    for _ in range(10_000):
        clock.advance(1)
        gate.recheck(clock.now_us())
    del user
    for number in range(50):
        gate.left(arrived(gate, f"10.0.1.{number}:5000"))
    assert not arrived(gate, OTHER).is_beyond
    assert arrived(gate, "192.0.2.77:5000").is_beyond


@pytest.mark.anyio
async def test_beyond_its_allowance_the_newest_of_an_address_have_a_place(gate):
    exhaust(gate)
    closed = []
    for number in range(MOST_SILENT_OF_ONE + 2):
        arrived(gate, f"10.0.0.1:{number}", on_lost=lambda number=number: closed.append(number))
    assert closed == [0, 1]
    assert gate.counters["throttled"] == 2


@pytest.mark.anyio
async def test_more_passwords_of_an_address_than_may_wait_are_refused(gate):
    exhaust(gate)
    gate._newcomers._failures._sleep = lambda _: anyio.sleep_forever()
    hello = with_password("ana", "wrong")
    async with anyio.create_task_group() as tasks:
        for _ in range(MOST_WAITING):
            tasks.start_soon(gate.login, hello, None, arrived(gate))
        await anyio.wait_all_tasks_blocked()
        refusal = await refused(gate, hello)
        assert refusal.code is ErrorCode.TOO_MANY_CONNECTIONS
        assert gate.counters["throttled"] == 1
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_an_ipv6_network_is_one_address(gate):
    for number in range(FAILURES):
        gate.left(arrived(gate, f"2001:db8::{number}:5000"))
    assert arrived(gate, "2001:db8:0:0:1::1:5000").is_beyond
    assert not arrived(gate, "2001:db8:0:1::1:5000").is_beyond


# -- TLS


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def certificates(tmp_path, authority):
    """Where the broker's are, and the file of the CA."""
    path = tmp_path / "certificates"
    path.mkdir()
    authority.cert_pem.write_to_path(path / "ca.pem")
    issue(authority, path / "broker", "localhost")
    return path


def issue(authority, path, *names, **options):
    made = authority.issue_cert(*names, **options)
    made.private_key_and_cert_chain_pem.write_to_path(path)


@pytest.fixture
def over_tls(folder, clock, certificates):
    def tls(_):
        return server_tls(certificates / "broker", certificates / "broker", certificates / "ca.pem")

    return AccessGate(Access.load(folder.path, tls), clock, folder.path, tls, Sleeper(clock))


@asynccontextmanager
async def pair():
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    with anyio.fail_after(GUARD):
        async with listener:
            one = await SocketStream.connect("127.0.0.1", port)
            raw = await listener.listeners[0].accept()
            async with (
                one,
                SocketStream(raw.extra(anyio.abc.SocketAttribute.raw_socket).dup()) as other,
            ):
                await raw.aclose()
                yield one, other


async def log_in(gate, certificates, hello, **options):
    """The user, over TLS from end to end."""
    client, found = client_tls(ca=certificates / "ca.pem", **options), []

    async def serve(stream):
        place = arrived(gate)
        secured = await gate.secure(stream, place)
        assert isinstance(secured, TlsStream)
        found.append(await gate.login(hello, secured, place))

    async with pair() as (one, other), anyio.create_task_group() as tasks:
        tasks.start_soon(serve, other)
        await client.secure(one, "localhost")
    return found[0]


@pytest.mark.anyio
async def test_a_token_over_tls(over_tls, folder, certificates):
    assert (await log_in(over_tls, certificates, with_token_of(folder.token))).name == "ana"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("names", "said", "user"),
    [
        (["ana"], "", "ana"),
        (["ana"], "ana", "ana"),
        (["ana"], "boris", None),
        (["carol"], "", None),
        ([], "", None),
    ],
    ids=["its name", "the same name", "another name", "no user", "no name"],
)
async def test_a_certificate_says_who_it_is(over_tls, authority, certificates, names, said, user):
    issue(authority, certificates / "mine", "x", common_name=names[0] if names else None)
    hello = Hello(1, auth=0, user=said)
    if user is None:
        with pytest.raises(ExceptionGroup) as caught:
            await log_in(over_tls, certificates, hello, certificate=certificates / "mine")
        assert caught.group_contains(Refused, match="does not accept these credentials")
    else:
        found = await log_in(over_tls, certificates, hello, certificate=certificates / "mine")
        assert (found.name, found.how, found.is_ended(0)) == (user, "certificate", False)
        assert found.is_ended(2**62)  # the certificate has expired
        over_tls.access = Access(Users(), over_tls.access.rules)
        assert found.is_ended(0)


@pytest.mark.anyio
async def test_over_tls_nobody_is_nobody(over_tls, certificates):
    with pytest.raises(ExceptionGroup) as caught:
        await log_in(over_tls, certificates, Hello(1, auth=0, user="ana"))
    assert caught.group_contains(Refused)


@pytest.mark.anyio
async def test_a_hello_that_is_not_encrypted_is_told_so(over_tls, folder):
    async with pair() as (one, other):
        await one.send(encode(Hello(1, auth=1, secret=folder.token)))
        with pytest.raises(Refused, match="this port speaks TLS; write zaichiks://"):
            await over_tls.secure(other, arrived(over_tls))


@pytest.mark.anyio
@pytest.mark.parametrize(
    "first", [b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-x\r\n", bytes(64), b"\x16\x03\x01" + b"x" * 99]
)
async def test_what_is_no_tls_is_counted_and_charged(over_tls, clock, first):
    async with pair() as (one, other):
        await one.send(first)
        await one.send_eof()
        with pytest.raises(TlsFailed):
            await over_tls.secure(other, arrived(over_tls))
    assert over_tls.counters["tls_failed"] == 1
    for _ in range(FAILURES - 1):
        assert not arrived(over_tls).is_beyond
        over_tls.left(arrived(over_tls))
    assert arrived(over_tls).is_beyond


@pytest.mark.anyio
@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-x\r\n", bytes(64)])
async def test_beyond_an_allowance_what_is_no_tls_never_comes_to_openssl(
    over_tls, first, caplog, monkeypatch
):
    """It is not logged either."""
    caplog.set_level(logging.INFO)
    exhaust(over_tls)
    monkeypatch.setattr(access_gate, "handshake", lambda *_, **__: pytest.fail("a handshake"))
    async with pair() as (one, other):
        await one.send(first)
        with pytest.raises(TlsFailed) as caught:
            await over_tls.secure(other, arrived(over_tls))
    assert caught.value.reason == "NOT_TLS"
    assert over_tls.counters["tls_failed"] == 1
    assert not caplog.messages


@pytest.mark.anyio
async def test_beyond_an_allowance_a_token_over_tls_is_let_in_when_there_is_a_handshake(
    over_tls, folder, certificates, clock
):
    exhaust(over_tls)
    start = clock.now_us()
    hello = with_token_of(folder.token)
    for _ in range(HANDSHAKES):
        assert (await log_in(over_tls, certificates, hello)).name == "ana"
        # An address without a login was charged for the first, one with a login for the rest.
    assert (await log_in(over_tls, certificates, hello)).name == "ana"
    assert clock.now_us() == start
    assert (await log_in(over_tls, certificates, hello)).name == "ana"
    assert clock.now_us() == start + 1_000_000 // HANDSHAKES


@pytest.mark.anyio
async def test_a_handshake_has_a_deadline(over_tls):
    over_tls._handshake_timeout = 0
    async with pair() as (_, other):
        with pytest.raises(TlsFailed, match="not agreed on within 0 s"):
            await over_tls.secure(other, arrived(over_tls))
    assert over_tls.counters["tls_failed"] == 1


@pytest.mark.anyio
async def test_a_key_of_another_certificate_leaves_the_old_one_in_force(
    over_tls, authority, certificates
):
    before = over_tls.access.tls
    (certificates / "broker").write_bytes(b"nonsense")
    assert not over_tls.reload()
    assert over_tls.access.tls is before
    issue(authority, certificates / "broker", "localhost")
    assert over_tls.reload()
    assert over_tls.access.tls.pin != before.pin


def test_the_log_is_told_once_a_day_that_the_certificate_has_ended(folder, caplog):
    clock = ManualClock(0)
    access = Access(Users(), Rules([]), ServerTls(None, "", (), 20 * 86_400))
    gate = AccessGate(access, clock, folder.path)
    for day in (20, 22):
        clock.move_to(day * DAY_US)
        gate.recheck(clock.now_us())
        gate.recheck(clock.now_us())
    told = [record.getMessage().split(":")[0] for record in caplog.records]
    assert [each for each in told if "certificate" in each] == [
        "the certificate ended 0 days ago", "the certificate ended 2 days ago"
    ]  # fmt: skip


def test_the_log_is_told_once_a_day_that_the_certificate_ends(folder, caplog):
    """In its last fortnight."""
    clock = ManualClock(0)
    gate = AccessGate(
        Access(Users(), Rules([]), ServerTls(None, "", (), 20 * 86_400)), clock, folder.path
    )
    for day in range(4, 9):
        clock.move_to(day * DAY_US)
        gate.recheck(clock.now_us())
        gate.recheck(clock.now_us())
    warned = [
        record.getMessage().split(":")[0]
        for record in caplog.records
        if "certificate" in record.getMessage()
    ]
    assert warned == ["the certificate ends in 13 days", "the certificate ends in 12 days"]
