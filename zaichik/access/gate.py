"""The gate of a broker with access control: back-off, TLS, login, and rights that can change while it runs.

Everything in the files becomes one immutable object, `Access`. A reload reads every file, makes another such object,
and only then replaces the old one. If anything fails, the old one stays, and the log says so: a broker that has run out
of descriptors, or whose rules have a typo, goes on with the rules it had.

A login is not decided once and for all. A user's rights are looked up in the current `Access` each time, and the login
ends when the credentials that proved it expire, or are no longer in the file.
"""

import hmac
import logging
import os
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from weakref import WeakSet

import anyio

from zaichik.access.backoff import Failures, OneByOne, Sleep
from zaichik.access.contexts import ServerTls, UnusableCertificate, certificate_login
from zaichik.access.files import judge_folder, parsed
from zaichik.access.rules import Rules
from zaichik.access.users import Password, Record, Token, Users, hash_of, knows
from zaichik.broker.checks import MAX_NAME
from zaichik.broker.clock import MICROSECONDS, Clock
from zaichik.broker.rights import Action, topic_of
from zaichik.escapes import harmless, shown
from zaichik.net.peers import client_of
from zaichik.net.stream import Stream
from zaichik.net.tls import TlsStream
from zaichik.net.tls_engine import TlsFailed
from zaichik.net.tls_handshake import handshake
from zaichik_protocol import ErrorCode, Hello, Refused

logger = logging.getLogger(__name__)

USERS, RULES = "users.json", "rules"
NONE, TOKEN, PASSWORD = 0, 1, 2  # values of a Hello's `auth`: the kind of its secret
FIRST_BYTES = 16  # of a Hello that is not encrypted; the last of them are its magic
DAY_US, MINUTE_US = 86_400 * MICROSECONDS, 60 * MICROSECONDS
EXPIRY_DAYS = 14  # before a certificate expires, the log begins to warn
MOST_REMEMBERED = 1024  # passwords that were right


@dataclass(frozen=True, slots=True)
class Access:
    """The content of the files in a folder; `tls` is None for a port without TLS."""

    users: Users
    rules: Rules
    tls: ServerTls | None = None

    @classmethod
    def load(cls, folder: Path, tls: Callable[[Path], ServerTls] | None = None) -> "Access":
        """Returns the content of the files; `tls` loads the folder's certificate.

        Raises:
            Unusable, OSError: one of them cannot be used.
        """
        judge_folder(folder)
        rules = parsed(folder / RULES, Rules.parse, is_secret=False)
        return cls(parsed(folder / USERS, Users.parse, is_secret=True), rules, tls and tls(folder))


def in_memory(users: Mapping[str, str], rules: str, clock: Clock) -> "AccessGate":
    """Returns a gate without files and without TLS, for tests and lessons: names with their tokens, and rules.

    Raises:
        Unusable: LINE:COLUMN, and what is wrong with the rules.
        ValueError: a name is not valid.
    """
    known = (Record(name, (Token("0" * 8, hash_of(token), 0, None, ""),)) for name, token in users.items())
    return AccessGate(Access(Users(users=tuple(known)), Rules.parse(rules.encode())), clock)


@dataclass(frozen=True, slots=True)
class Certificate:
    """Proof that a user has the key of a certificate; the CA is trusted to have put the right name into it."""

    expires: int


class LoggedIn:
    """A `User` who has logged in.

    Args:
        gate: knows the current rights.
        name: the user's.
        client: the address of the login, without the port.
        proof: the credential that proved it.
    """

    def __init__(self, gate: "AccessGate", name: str, client: str, proof: Token | Password | Certificate) -> None:
        self.name, self.client = name, client
        self.how = f"token:{proof.id}" if isinstance(proof, Token) else type(proof).__name__.lower()
        self._gate = gate
        self._proof = proof
        self.follow(gate.access.rules)

    def follow(self, rules: Rules) -> None:
        """Take over the rights that these rules give."""
        self._rights = rules.of(self.name)
        self.publishable: Collection[str] = self._rights.publishable

    def may(self, action: Action, topic: str) -> bool:
        """Returns whether the current rules allow it."""
        return self._rights.may(action, topic)

    def denied(self, action: Action, topic: str) -> None:
        """Count that the user was refused this, and log it, at most once a minute for each user and action."""
        self._gate.denied(self.name, action, topic)

    def is_ended(self, now_us: int) -> bool:
        """Returns whether the login has expired, or the credential is no longer in the file."""
        record, proof = self._gate.access.users.by_name.get(self.name), self._proof
        if record is None or (proof not in (*record.tokens, record.password) and not isinstance(proof, Certificate)):
            return True
        return proof.expires is not None and proof.expires * MICROSECONDS <= now_us


class AccessGate:
    """A `Gate` that requires everybody to log in.

    Args:
        access: the content of the files.
        clock: the source of time.
        folder: where they are; by default there are none.
        tls: as in `Access.load`.
        sleep: waits that many seconds.
        handshake_timeout: seconds that the TLS handshake may take.

    Attributes:
        access: the current users and rights.
        counters: how often each event happened; and `stale_since_us`: since when `access` differs from the files,
            because they cannot be used.
    """

    def __init__(
        self,
        access: Access,
        clock: Clock,
        folder: Path = Path(os.devnull),
        tls: Callable[[Path], ServerTls] | None = None,
        sleep: Sleep = anyio.sleep,
        handshake_timeout: float = 5.0,
    ) -> None:
        self.access = access
        self.counters: Counter[str] = Counter()
        self._clock, self._folder, self._tls, self._seconds = clock, folder, tls, handshake_timeout
        self._failures, self._passwords = Failures(clock, sleep), OneByOne(clock, sleep)
        self._key, self._right = secrets.token_bytes(32), dict[bytes, Password]()
        self._checked_by: Access | None = None  # the one that connections were last checked against
        self._warned = 0  # the last day on which the log said that the certificate expires
        self._told: dict[tuple[str, Action], int] = {}
        self._users = WeakSet[LoggedIn]()
        self._stale: set[str] = set()  # files whose last reload failed
        self._seen: tuple[int, int] | None = None  # so that nothing is missed that was written meanwhile

    def turns_away(self, peer: str) -> bool:
        """See `Gate`: if an address has failed too often, a few of its connections wait, and the others are closed."""
        if is_crowded := self._failures.is_crowded(client_of(peer)):
            self._count("throttled", "from=%s", peer, level=logging.DEBUG)
        return is_crowded

    async def secure(self, stream: Stream, peer: str) -> Stream:
        """See `Gate`. The handshake has a deadline, which begins after the wait."""
        if not await self._failures.wait(client_of(peer)):  # others have come since this one was accepted
            self._count("throttled", "from=%s", peer, level=logging.DEBUG)
            raise anyio.EndOfStream
        if self.access.tls is None:
            return stream
        try:
            return await self._encrypted(stream, self.access.tls)
        except BaseException as error:
            self.left(peer)
            if isinstance(error, TlsFailed):
                self._count("tls_failed", "reason=%s from=%s", error.reason, peer)
            raise

    async def _encrypted(self, stream: Stream, tls: ServerTls) -> Stream:
        with anyio.move_on_after(self._seconds):
            first = await stream.receive(FIRST_BYTES)
            while len(first) < FIRST_BYTES and not first[2:4].strip(b"\0"):  # a Hello may come in pieces, and is short
                first += await stream.receive(FIRST_BYTES - len(first))
            if first.endswith(b"ZAIK"):
                raise Refused(ErrorCode.TLS_REQUIRED, "this port speaks TLS; write zaichiks://HOST:PORT")
            return await handshake(stream, tls.context, received=first)
        raise TlsFailed("TIMEOUT", f"TLS was not agreed on within {self._seconds:g} s")

    def left(self, peer: str) -> None:
        """Charge a peer that has left, or was disconnected, after `secure` and before a login."""
        self._failures.failed(client_of(peer))

    async def login(self, hello: Hello, stream: Stream, peer: str) -> LoggedIn:
        """See `Gate`."""
        try:
            user = self._checked(await self._proven(hello, stream, client_of(peer)), hello, peer)
        except BaseException:
            self.left(peer)
            raise
        self._users.add(user)
        self._failures.succeeded(client_of(peer))
        self._count("login_ok", "user=%s how=%s from=%s", user.name, user.how, peer)
        return user

    def _checked(self, user: LoggedIn | None, hello: Hello, peer: str) -> LoggedIn:
        """Returns the user, if there is one who may log in. The refusal never says why not; the log does."""
        if user is not None and not user.is_ended(self._clock.now_us()):
            return user
        # A name that belongs to no user is not logged: people type passwords there.
        name = name if (name := user.name if user else hello.user) in self.access.users.by_name else "?"
        self._count("login_failed", "reason=%s user=%s from=%s", "ended" if user else "wrong", name, peer)
        raise Refused(ErrorCode.AUTH_FAILED, ErrorCode.AUTH_FAILED.meaning)

    async def _proven(self, hello: Hello, stream: Stream, client: str) -> LoggedIn | None:
        """Returns the user whose credentials these are, expired or not, with the proof."""
        users = self.access.users
        if hello.auth == NONE and isinstance(stream, TlsStream):
            with suppress(UnusableCertificate):
                name, not_after_s = certificate_login(stream) or ("", 0)
                return LoggedIn(self, name, client, Certificate(not_after_s)) if hello.user in {"", name} else None
        if hello.auth == TOKEN and not hello.user and (found := users.by_token.get(hash_of(hello.secret))):
            return LoggedIn(self, found[0].name, client, found[1])
        if hello.auth == PASSWORD:
            record = users.by_name.get(hello.user)
            password = record.password if record else None
            if await self._is_right(hello, password, client) and password:
                return LoggedIn(self, hello.user, client, password)
        return None

    async def _is_right(self, hello: Hello, password: Password | None, client: str) -> bool:
        """Returns whether that is the password. Checking the right one again costs nothing: programs reconnect."""
        mark = hmac.digest(self._key, f"{hello.user}\0{hello.secret}".encode(errors="replace"), "sha256")
        if password is not None and self._right.get(mark) == password:
            return True
        is_right = await self._passwords.run(client, partial(knows, hello.secret, password))
        if is_right and password:
            if len(self._right) >= MOST_REMEMBERED:
                self._right.clear()
            self._right[mark] = password
        return is_right

    def may_read(self, user: str, topic: str) -> bool:
        """See `Gate`."""
        return user in self.access.users.by_name and self.access.rules.of(user).may("subscribe", topic_of(topic))

    def denied(self, name: str, action: Action, topic: str) -> None:
        """See `LoggedIn.denied`."""
        now_us = self._clock.now_us()
        is_news = now_us - self._told.get((name, action), -MINUTE_US) >= MINUTE_US
        self._told[name, action] = now_us if is_news else self._told[name, action]
        level = logging.INFO if is_news else logging.DEBUG
        self._count(f"forbidden.{action}", "user=%s topic=%s", name, shown(topic[:MAX_NAME]), level=level)

    # -- reload ------------------------------------------------------------------------------------------------

    def reload(self) -> bool:
        """Read all files again, on SIGHUP. Returns whether that worked; if not, nothing changes."""
        return self._replace(RULES, lambda folder: Access.load(folder, self._tls))

    def recheck(self, now_us: int) -> bool:
        """Read users.json again if it has been replaced: only our commands write it, and it is always whole.

        Returns whether `access` has changed since the last call, or this is the first.
        """
        self._warn_of_expiry(now_us)
        for user in self._users:  # one who was logged in for hours, and is cut off, must not queue after strangers
            self._failures.succeeded(user.client)
        before, self._seen = self._seen, self._stamp()
        is_new = self._seen != before
        if is_new or USERS in self._stale:  # a reload may fail without a change of the file: no descriptors
            self._replace(USERS, self._with_users, is_told=is_new)
        known, self._checked_by = self._checked_by, self.access
        return known is not self.access

    def _warn_of_expiry(self, now_us: int) -> None:
        """Log once a day that the certificate expires soon."""
        day, tls = now_us // DAY_US, self.access.tls
        if tls and day != self._warned and (left := tls.not_after_s * MICROSECONDS // DAY_US - day) < EXPIRY_DAYS:
            self._warned = day
            logger.warning("the certificate ends in %d days: put another one there, and send SIGHUP", left)

    def _with_users(self, folder: Path) -> Access:
        return replace(self.access, users=parsed(folder / USERS, Users.parse, is_secret=True))

    def _replace(self, file: str, load: Callable[[Path], Access], *, is_told: bool = True) -> bool:
        try:
            self.access = load(self._folder)
        except Exception as error:
            if is_told:
                self._count("reload_failed", "the old rules stay: %s", error, level=logging.ERROR)
            self.counters.setdefault("stale_since_us", self._clock.now_us())
            self._stale.add(file)
            return False
        for user in self._users:
            user.follow(self.access.rules)
        self._count("reload_ok")
        self._stale -= {USERS, file}  # every reload includes the users
        if not self._stale:
            del self.counters["stale_since_us"]
        return True

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = (self._folder / USERS).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino

    def _count(self, what: str, text: str = "", *values: object, level: int = logging.INFO) -> None:
        self.counters[what] += 1
        logger.log(level, f"{what} {text}".rstrip(), *(harmless(str(value)) for value in values))
