"""Users of a gateway: whose connection is shared, for how long, and what failing logins cost."""

import hashlib
import logging
import math

import anyio
import anyio.lowlevel
import pytest
from scripted_users import auth_failed, password, scripted, token, until

import zaichik
from zaichik.apps.users import connections
from zaichik.apps.users.connections import TOKENS_AT_ONCE, TooManyFailures, TooManyUsers
from zaichik.apps.users.credentials import NotALogin
from zaichik.apps.users.failures import OF_ALL, OF_ONE
from zaichik.server.access.backoff import FAILURES

pytestmark = pytest.mark.anyio

HERE, THERE = "10.0.0.1:1", "10.0.0.2:1"


class Waiting:
    """A client that waits for a connection, in a task of its own."""

    def __init__(self, running, tasks, credentials, peer=HERE):
        self.user = None
        self.error = None
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()
        tasks.start_soon(self._wait, running, credentials, peer)

    async def _wait(self, running, credentials, peer):
        try:
            with self.scope:
                self.user = await running.users.acquire(credentials, peer)
        except Exception as error:
            self.error = error
        finally:
            self.ended.set()


# -- sharing -----------------------------------------------------------------------------------


async def test_clients_with_the_same_login_share_a_connection(monkeypatch):
    async with (
        scripted(monkeypatch) as running,
        running.users.using(token("a"), HERE) as one,
        running.users.using(token("a"), THERE) as two,
        running.users.using(token("b"), HERE) as three,
    ):
        assert one.client is two.client
        assert (one.name, three.name) == ("a", "b")
        assert running.broker.open == ["a", "b"]


async def test_logins_with_the_same_name_and_other_passwords_share_nothing(monkeypatch):
    async with scripted(monkeypatch) as running, running.users.using(password("ana"), HERE):
        assert await running.refused(password("ana", "wrong")) is zaichik.AuthFailed
        assert running.broker.open == ["ana"]


async def test_clients_that_come_together_share_one_attempt(monkeypatch):
    async with scripted(monkeypatch) as running, anyio.create_task_group() as tasks:
        running.broker.is_slow = True
        waiting = [Waiting(running, tasks, token("a")) for _ in range(5)]
        await anyio.wait_all_tasks_blocked()
        running.broker.answer(token("a"))
        for one in waiting:
            await one.ended.wait()
        assert len({id(one.user.client) for one in waiting}) == 1
        assert running.broker.tried == [token("a")]


async def test_an_attempt_that_fails_fails_for_all_that_wait_for_it(monkeypatch):
    """And the next client tries again."""
    async with scripted(monkeypatch) as running, anyio.create_task_group() as tasks:
        running.broker.is_slow = True
        running.broker.error = zaichik.ConnectFailed("no broker")
        waiting = [Waiting(running, tasks, token("a")) for _ in range(3)]
        await anyio.wait_all_tasks_blocked()
        running.broker.answer(token("a"))
        for one in waiting:
            await one.ended.wait()
            assert isinstance(one.error, zaichik.ConnectFailed)
        running.broker.is_slow, running.broker.error = False, None
        assert await running.refused(token("a")) is None


async def test_a_login_does_not_wait_for_another_one(monkeypatch):
    """A token does not wait for a password, either."""
    async with scripted(monkeypatch) as running, anyio.create_task_group() as tasks:
        running.broker.is_slow = True
        for login in (token("a"), password("ana")):
            Waiting(running, tasks, login)
        await anyio.wait_all_tasks_blocked()
        running.broker.is_slow = False
        assert await running.refused(token("b")) is None
        running.broker.answer(token("a"))
        running.broker.answer(password("ana"))


@pytest.mark.parametrize(("make", "most"), [(token, TOKENS_AT_ONCE), (password, 1)])
async def test_only_so_many_logins_are_tried_at_a_time(monkeypatch, make, most):
    async with scripted(monkeypatch) as running, anyio.create_task_group() as tasks:
        running.broker.is_slow = True
        logins = [make(letter) for letter in "abcdefgh"]
        for login in logins:
            Waiting(running, tasks, login)
        for count in range(most, len(logins) + 1):
            await anyio.wait_all_tasks_blocked()
            assert len(running.broker.tried) == count
            running.broker.answer(next(iter(running.broker.waiting)))
        for login in list(running.broker.waiting):
            running.broker.answer(login)
        await until(lambda: len(running.broker.open) == len(logins))


# -- clients that leave while they wait ------------------------------------------------------------


async def test_a_client_that_leaves_takes_nothing_from_others_that_wait(monkeypatch):
    async with scripted(monkeypatch) as running, anyio.create_task_group() as tasks:
        running.broker.is_slow = True
        first = Waiting(running, tasks, token("a"))
        second = Waiting(running, tasks, token("a"))
        await anyio.wait_all_tasks_blocked()
        first.scope.cancel()
        await first.ended.wait()
        running.broker.answer(token("a"))
        await second.ended.wait()
        assert second.user.name == "a"


async def test_an_attempt_that_has_begun_is_finished_and_leaves_nothing_behind(monkeypatch):
    """One that is broken off would be a failure at the broker that nobody has counted here."""
    async with scripted(monkeypatch, keep_s=0) as running, anyio.create_task_group() as tasks:
        running.broker.is_slow = True
        for _ in range(OF_ONE):
            guess = Waiting(running, tasks, password("ana", "wrong"))
            await anyio.wait_all_tasks_blocked()
            guess.scope.cancel()
            await guess.ended.wait()
            running.broker.answer(password("ana", "wrong"))
            await anyio.wait_all_tasks_blocked()
        assert await running.refused(password("ana", "wrong")) is TooManyFailures
        right = Waiting(running, tasks, token("a"), THERE)
        await anyio.wait_all_tasks_blocked()
        right.scope.cancel()
        await right.ended.wait()
        running.broker.answer(token("a"))
        await until(lambda: running.broker.clients and not running.broker.open)


async def test_an_attempt_that_waits_for_its_turn_is_dropped_with_its_client(monkeypatch):
    async with scripted(monkeypatch) as running, anyio.create_task_group() as tasks:
        running.broker.is_slow = True
        Waiting(running, tasks, password("ana"))
        await anyio.wait_all_tasks_blocked()
        gone = Waiting(running, tasks, password("bob"))
        await anyio.wait_all_tasks_blocked()
        gone.scope.cancel()
        await gone.ended.wait()
        await anyio.wait_all_tasks_blocked()
        assert running.users._password_turns.statistics().tasks_waiting == 0
        running.broker.answer(password("ana"))
        await anyio.wait_all_tasks_blocked()
        assert running.broker.tried == [password("ana")]
        running.broker.is_slow = False
        assert await running.refused(password("bob")) is None


# -- failures ----------------------------------------------------------------------------------


async def test_an_address_that_fails_too_often_is_refused_without_asking_the_broker(monkeypatch):
    """Until a second has passed; others are let in meanwhile."""
    async with scripted(monkeypatch) as running:
        for _ in range(OF_ONE):
            assert await running.refused(password("ana", "wrong")) is zaichik.AuthFailed
        assert await running.refused(password("ana")) is TooManyFailures
        assert len(running.broker.tried) == OF_ONE
        assert await running.refused(password("bob"), THERE) is None
        running.clock.advance(1)
        assert await running.refused(password("ana")) is None


async def test_all_addresses_together_fail_less_than_the_broker_allows_the_gateway(monkeypatch):
    """However many logins are tried at the same time."""
    async with scripted(monkeypatch) as running, anyio.create_task_group() as tasks:
        running.broker.is_slow = True
        running.broker.error = auth_failed()
        for number in range(4 * FAILURES):
            letter = chr(ord("A") + number % 26) + chr(ord("a") + number // 26)
            login = zaichik.Credentials(secret="zk_" + letter * 21 + "x")
            Waiting(running, tasks, login, f"10.0.1.{number}:1")
        await anyio.wait_all_tasks_blocked()
        while running.broker.waiting:
            for login in list(running.broker.waiting):
                running.broker.answer(login)
            await anyio.wait_all_tasks_blocked()
        assert OF_ALL <= len(running.broker.tried) < OF_ALL + TOKENS_AT_ONCE < FAILURES


async def test_failures_of_others_do_not_end_what_is_connected(monkeypatch):
    async with (
        scripted(monkeypatch) as running,
        running.users.using(token("a"), HERE),
        running.users.using(password("ana"), HERE),
    ):
        for number in range(OF_ALL):
            wrong = password("bob", f"wrong {number}")
            assert await running.refused(wrong, f"10.0.1.{number}:1") is zaichik.AuthFailed
        assert await running.refused(token("b")) is TooManyFailures
        assert await running.refused(token("a")) is None
        assert await running.refused(password("ana")) is None


async def test_a_password_cannot_be_guessed_by_who_is_connected(monkeypatch):
    """Each guess costs its address, even if the broker is not asked; a token is no guess."""
    async with (
        scripted(monkeypatch) as running,
        running.users.using(password("ana"), HERE),
        running.users.using(token("a"), HERE),
    ):
        for number in range(OF_ALL):
            await running.refused(password("bob", "wrong"), f"10.0.1.{number}:1")
        for number in range(OF_ONE):
            assert await running.refused(password("ana", f"{number}"), THERE) is TooManyFailures
        assert await running.refused(password("ana"), THERE) is TooManyFailures
        assert await running.refused(token("a"), THERE) is None


async def test_logins_that_have_ended_count_for_all_and_for_no_address(monkeypatch):
    """The client of each tries it again, and the broker counts that."""
    async with scripted(monkeypatch) as running:
        for number in range(OF_ALL):
            async with running.users.using(password(f"{number}"), HERE) as user:
                user.client.lose("AUTH_FAILED")
        assert await running.refused(token("a"), THERE) is TooManyFailures
        running.clock.advance(1)
        assert await running.refused(token("a"), HERE) is None


async def test_a_broker_that_is_not_there_is_no_failure_of_a_client(monkeypatch):
    async with scripted(monkeypatch) as running:
        running.broker.error = zaichik.ConnectFailed("no broker")
        for _ in range(2 * FAILURES):
            assert await running.refused(password("ana")) is zaichik.ConnectFailed


async def test_a_login_that_is_too_long_is_not_tried(monkeypatch):
    async with scripted(monkeypatch) as running:
        with pytest.raises(NotALogin):
            await running.users.acquire(password("ana", "x" * 1022), HERE)
        assert running.broker.tried == []
        assert await running.refused(password("ana", "x" * 1021)) is zaichik.AuthFailed


# -- keeping ---------------------------------------------------------------------------------------


async def test_a_connection_that_no_client_uses_is_kept_for_a_while(monkeypatch):
    async with scripted(monkeypatch, keep_s=math.inf) as running:
        for _ in range(3):
            assert await running.refused(token("a")) is None
        await anyio.wait_all_tasks_blocked()
        assert running.broker.open == ["a"]
        assert running.broker.tried == [token("a")]


async def test_then_it_is_closed_and_made_again(monkeypatch):
    async with scripted(monkeypatch, keep_s=0) as running:
        for count in (1, 2):
            async with running.users.using(token("a"), HERE):
                await anyio.wait_all_tasks_blocked()
                assert running.broker.open == ["a"]
            await until(lambda: not running.broker.open)
            assert len(running.broker.tried) == count


async def test_only_so_many_are_kept_those_that_were_used_last(monkeypatch):
    monkeypatch.setattr(connections, "MOST_KEPT", 2)
    async with scripted(monkeypatch, keep_s=math.inf) as running:
        for letter in "abac":
            assert await running.refused(token(letter)) is None
        await until(lambda: running.broker.open == ["a", "c"])


async def test_only_so_many_users_are_connected(monkeypatch):
    """One that no client uses makes room."""
    async with scripted(monkeypatch, keep_s=math.inf, most=2) as running:
        async with running.users.using(token("a"), HERE):
            assert await running.refused(token("b")) is None
            async with running.users.using(token("c"), HERE):
                assert await running.refused(token("d")) is TooManyUsers
                await until(lambda: running.broker.open == ["a", "c"])
        assert await running.refused(token("d")) is None


async def test_a_connection_that_is_lost_for_good_is_not_handed_out_again(monkeypatch, caplog):
    async with scripted(monkeypatch) as running, running.users.using(token("a"), HERE) as lost:
        told = []
        lost.client.connection.on_lost, on_lost = told.append, lost.client.connection.on_lost
        on_lost(lambda: zaichik.ConnectionLost("gone"))
        assert lost.lost.is_set()
        async with running.users.using(token("a"), HERE) as other:
            assert other.client is not lost.client
            await until(lambda: lost.client.is_closed)
            assert running.broker.open == ["a"]
    assert caplog.messages == [
        "the connection of user a to the broker has ended: gone [CONNECTION_LOST]"
    ]


async def test_the_client_itself_still_learns_that_it_is_lost(monkeypatch):
    told = []
    async with scripted(monkeypatch) as running:
        connect = running.broker.connect

        class Told:
            def __init__(self, *arguments, **options):
                self.opening = connect(*arguments, **options)

            async def __aenter__(self):
                client = await self.opening.__aenter__()
                client.connection.on_lost = told.append
                return client

            async def __aexit__(self, *error):
                return await self.opening.__aexit__(*error)

        monkeypatch.setattr(connections, "connect", Told)
        async with running.users.using(token("a"), HERE) as user:
            user.client.lose()
            assert len(told) == 1


async def test_a_gateway_that_stops_closes_connections_after_their_clients(monkeypatch):
    async with scripted(monkeypatch, stop_s=math.inf) as running:
        user = await running.users.acquire(token("a"), HERE)
        running.stop()
        with anyio.CancelScope(shield=True):
            await anyio.wait_all_tasks_blocked()
            assert running.broker.open == ["a"]
            running.users.release(user)
            await until(lambda: not running.broker.open)


async def test_a_gateway_that_stops_lets_nobody_wait(monkeypatch):
    async with anyio.create_task_group() as tasks:
        async with scripted(monkeypatch) as running:
            running.broker.is_slow = True
            waiting = Waiting(running, tasks, token("a"))
            await anyio.wait_all_tasks_blocked()
        await waiting.ended.wait()
        assert isinstance(waiting.error, zaichik.ConnectionLost)


async def test_a_bug_ends_only_those_who_wait_for_that_login(monkeypatch):
    async with scripted(monkeypatch) as running:
        running.broker.error = KeyError("a bug")
        with pytest.raises(KeyError):
            await running.users.acquire(token("a"), HERE)
        running.broker.error = None
        assert await running.refused(token("a")) is None


# -- secrets ---------------------------------------------------------------------------------------


async def test_no_secret_is_kept_or_logged(monkeypatch, caplog):
    """What a login is known by is neither the login nor a hash that others can make."""
    caplog.set_level(logging.DEBUG)
    login = token("a")
    async with scripted(monkeypatch) as running, running.users.using(login, HERE) as user:
        plain = hashlib.blake2b(repr((login.user, login.secret)).encode()).digest()
        assert list(running.users._users) == [user.key]
        assert user.key not in {plain, login, login.secret}
        assert login.secret not in f"{vars(running.users)} {user}"
        user.client.lose()
    async with scripted(monkeypatch) as running, running.users.using(login, HERE) as other:
        assert other.key != user.key
    assert login.secret not in caplog.text
