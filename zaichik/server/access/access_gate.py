"""The gate of a broker with users: places, TLS, login, and rights that can change while it runs.

Everything in the files becomes one immutable object, `Access`. A reload reads every file, makes
another such object, and only then replaces the old one. If anything fails, the old one stays, and
the log says so: a broker that has run out of descriptors, or whose rules have a typo, goes on with
the rules it had.

A login is not decided once and for all. A user's rights are looked up in the current `Access` each
time, and the login ends when the credentials that proved it expire, or are no longer in the file.
"""

import hmac
import logging
import os
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from weakref import WeakSet

import anyio
from anyio.lowlevel import checkpoint

from zaichik.base.clock import DAY_US, MINUTE_US, SECOND_US, Clock
from zaichik.base.escapes import harmless, shown
from zaichik.base.private_files import check_folder_permissions, parsed
from zaichik.core.checks import MAX_NAME
from zaichik.core.rights import Action, topic_of
from zaichik.net.stream import Stream
from zaichik.net.tls import TlsStream
from zaichik.net.tls_engine import TlsFailed
from zaichik.net.tls_handshake import handshake
from zaichik.net.tls_settings import ServerTls, UnusableCertificate, certificate_login
from zaichik.server.access.backoff import OneByOne, Sleep, too_many_passwords
from zaichik.server.access.newcomers import Newcomers
from zaichik.server.access.rules import Rules
from zaichik.server.access.users import Password, Record, Token, Users, hash_of, knows
from zaichik.server.places import Place
from zaichik_protocol import Auth, ErrorCode, Hello, Refused

logger = logging.getLogger("zaichik.access.gate")

USERS, RULES = "users.json", "rules"

PLAIN_HELLO_BYTES = 16  # of a Hello that is not encrypted; the last of them are its magic
CLIENT_HELLO = b"\x16\x03"  # how every handshake of TLS begins
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
        check_folder_permissions(folder)
        rules = parsed(folder / RULES, Rules.parse, is_secret=False)
        users = parsed(folder / USERS, Users.parse, is_secret=True)
        if tls is None:
            return cls(users, rules)
        return cls(users, rules, tls(folder))


def in_memory(users: Mapping[str, str], rules: str, clock: Clock) -> "AccessGate":
    """Returns a gate without files and without TLS, for tests and lessons.

    Args:
        users: names with their tokens.
        rules: as in the file of rules.
        clock: the source of time.

    Raises:
        Unusable: LINE:COLUMN, and what is wrong with the rules.
        ValueError: a name is not valid.
    """
    records: list[Record] = []
    for name, token in users.items():
        proof = Token("0" * 8, hash_of(token), 0, None, "")
        records.append(Record(name, (proof,)))
    access = Access(Users(users=tuple(records)), Rules.parse(rules.encode()))
    return AccessGate(access, clock)


@dataclass(frozen=True, slots=True)
class Certificate:
    """Proof that a user has the key of a certificate.

    The CA is trusted to have put the right name into it.
    """

    expires: int


class LoggedIn:
    """A `User` who has logged in.

    Args:
        gate: knows the current rights.
        name: the user's.
        address: where the login came from, as `Place` has it.
        proof: the credential that proved it.
    """

    def __init__(
        self, gate: "AccessGate", name: str, address: str, proof: Token | Password | Certificate
    ) -> None:
        self.name = name
        self.address = address
        self.how = type(proof).__name__.lower()  # "password" or "certificate", for the log
        # A user has several tokens, and the log says which.
        if isinstance(proof, Token):
            self.how = f"token:{proof.id}"
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
        """Count that the user was refused this, and log it.

        The log has one line a minute at most for each user and action.
        """
        self._gate.denied(self.name, action, topic)

    def is_ended(self, now_us: int) -> bool:
        """Returns whether the login has expired, or the credential is no longer in the file."""
        record = self._gate.access.users.by_name.get(self.name)
        if record is None:
            return True
        proof = self._proof
        # Certificates are not in the file; tokens and passwords are, until they are withdrawn.
        if not isinstance(proof, Certificate) and proof not in (*record.tokens, record.password):
            return True
        return proof.expires is not None and proof.expires * SECOND_US <= now_us


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
        counters: how often each event happened; and `stale_since_us`: since when `access` differs
            from the files, because they cannot be used.
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
        self._clock = clock
        self._folder = folder
        self._tls = tls
        self._handshake_timeout = handshake_timeout
        self._newcomers = Newcomers(clock, sleep)
        self._users = WeakSet[LoggedIn]()

        # Passwords that were right, by a digest that is worth nothing outside of this process.
        self._passwords = OneByOne(clock, sleep)
        self._key = secrets.token_bytes(32)
        self._right: dict[bytes, Password] = {}

        # Reloading: what connections were last checked against, files whose last reload failed,
        # and what users.json looked like. At first nothing was seen, so that no change is missed.
        self._checked_by: Access | None = None
        self._stale: set[str] = set()
        self._seen: tuple[int, int] | None = None

        # What the log has said: the last day on which it warned of the certificate's end, and when
        # it said that an action was denied.
        self._warned = 0
        self._logged_us: dict[tuple[str, Action], int] = {}

    def arrive(self, place: Place, most: int) -> None:
        """See `Gate`."""
        self._note_lost(self._newcomers.arrive(place, most))

    def depart(self, place: Place) -> None:
        """See `Gate`."""
        self._newcomers.depart(place)

    async def secure(self, stream: Stream, place: Place) -> Stream:
        """See `Gate`. The handshake has a deadline."""
        if self.access.tls is None:
            return stream
        try:
            return await self._encrypted(stream, self.access.tls, place)
        except BaseException as error:
            self.left(place)
            if isinstance(error, TlsFailed):
                level = _level(place)
                self._count(
                    "tls_failed", "reason=%s from=%s", error.reason, place.peer, level=level
                )
            raise

    async def _encrypted(self, stream: Stream, tls: ServerTls, place: Place) -> Stream:
        with anyio.move_on_after(self._handshake_timeout):
            first = await stream.receive(PLAIN_HELLO_BYTES)
            # A Hello may come in pieces. It is short, so the upper half of its length is zero.
            while len(first) < PLAIN_HELLO_BYTES and not first[2:4].strip(b"\0"):
                first += await stream.receive(PLAIN_HELLO_BYTES - len(first))
            if first.endswith(b"ZAIK"):
                raise Refused(
                    ErrorCode.TLS_REQUIRED, "this port speaks TLS; write zaichiks://HOST:PORT"
                )
            if place.is_beyond:
                # OpenSSL would say the same, but takes longer.
                if not first.startswith(CLIENT_HELLO):
                    raise TlsFailed("NOT_TLS", "the peer does not speak TLS")
                self._note_lost(await self._newcomers.handshake(place))
            return await handshake(stream, tls.context, received=first)
        raise TlsFailed("TIMEOUT", f"TLS was not agreed on within {self._handshake_timeout:g} s")

    def _note_lost(self, lost: Place | None) -> None:
        """Count a connection that was closed for a newer one."""
        if lost is not None:
            self._count("throttled", "from=%s", lost.peer, level=logging.DEBUG)

    def left(self, place: Place) -> None:
        """Charge a peer that has left, or was disconnected, after `secure` and before a login."""
        self._newcomers.failed(place)

    async def login(self, hello: Hello, stream: Stream, place: Place) -> LoggedIn:
        """See `Gate`."""
        try:
            proven = await self._proven(hello, stream, place)
            user = self._checked(proven, hello, place)
            # It was closed for a newer one in the very moment in which its Hello came.
            if place.is_lost:
                await checkpoint()
        except BaseException:
            self.left(place)
            raise
        self._users.add(user)
        self._newcomers.succeeded(place)
        self._count("login_ok", "user=%s how=%s from=%s", user.name, user.how, place.peer)
        return user

    def _checked(self, user: LoggedIn | None, hello: Hello, place: Place) -> LoggedIn:
        """Returns the user, if there is one who may log in.

        The refusal never says why not; the log does.
        """
        if user is not None and not user.is_ended(self._clock.now_us()):
            return user
        reason = "wrong"
        name = hello.user
        if user is not None:
            reason = "ended"
            name = user.name
        # A name that belongs to no user is not logged: people type passwords there.
        if name not in self.access.users.by_name:
            name = "?"
        self._count(
            "login_failed",
            "reason=%s user=%s from=%s",
            reason,
            name,
            place.peer,
            level=_level(place),
        )
        raise Refused(ErrorCode.AUTH_FAILED, ErrorCode.AUTH_FAILED.meaning)

    async def _proven(self, hello: Hello, stream: Stream, place: Place) -> LoggedIn | None:
        """Returns the user whose credentials these are, expired or not, with the proof."""
        users = self.access.users
        address = place.address
        if hello.auth == Auth.NONE and isinstance(stream, TlsStream):
            return self._certified(hello, stream, address)
        if hello.auth == Auth.TOKEN and not hello.user:
            found = users.by_token.get(hash_of(hello.secret))
            if found is not None:
                record, token = found
                return LoggedIn(self, record.name, address, token)
        if hello.auth == Auth.PASSWORD:
            password = None
            if hello.user in users.by_name:
                password = users.by_name[hello.user].password
            # It is checked even if there is none, so that the time does not tell users apart.
            is_right = await self._is_right(hello, password, place)
            if is_right and password is not None:
                return LoggedIn(self, hello.user, address, password)
        return None

    def _certified(self, hello: Hello, stream: TlsStream, address: str) -> LoggedIn | None:
        """Returns the user whom the certificate of the client names."""
        try:
            login = certificate_login(stream)
        except UnusableCertificate:
            return None
        name = ""  # of no user
        not_after_s = 0
        if login is not None:
            name, not_after_s = login
        # A Hello may say whom it expects to be.
        if hello.user not in {"", name}:
            return None
        return LoggedIn(self, name, address, Certificate(not_after_s))

    async def _is_right(self, hello: Hello, password: Password | None, place: Place) -> bool:
        """Returns whether that is the password.

        Checking the right one again costs nothing: programs reconnect.

        Raises:
            Refused: `TOO_MANY_CONNECTIONS`: too many others wait for that.
        """
        login = f"{hello.user}\0{hello.secret}".encode(errors="replace")
        mark = hmac.digest(self._key, login, "sha256")
        if password is not None and self._right.get(mark) == password:
            return True
        if not await self._newcomers.password(place):
            self._count("throttled", "from=%s", place.peer, level=logging.DEBUG)
            raise too_many_passwords()
        is_right = await self._passwords.run(place.address, partial(knows, hello.secret, password))
        if is_right and password:
            if len(self._right) >= MOST_REMEMBERED:
                self._right.clear()
            self._right[mark] = password
        return is_right

    def may_read(self, user: str, topic: str) -> bool:
        """See `Gate`."""
        if user not in self.access.users.by_name:
            return False
        return self.access.rules.of(user).may("subscribe", topic_of(topic))

    def denied(self, name: str, action: Action, topic: str) -> None:
        """See `LoggedIn.denied`."""
        now_us = self._clock.now_us()
        logged_us = self._logged_us.get((name, action), -MINUTE_US)
        level = logging.DEBUG
        # Once a minute it is news. A client may try again and again, and must not fill the log.
        if now_us - logged_us >= MINUTE_US:
            self._logged_us[name, action] = now_us
            level = logging.INFO
        topic = shown(topic[:MAX_NAME])
        self._count(f"forbidden.{action}", "user=%s topic=%s", name, topic, level=level)

    # -- reload

    def reload(self) -> bool:
        """Read all files again, on SIGHUP.

        Returns whether that worked; if not, nothing changes.
        """
        return self._replace(RULES, lambda folder: Access.load(folder, self._tls))

    def recheck(self, now_us: int) -> bool:
        """Read users.json again if it has been replaced.

        Only our commands write it, so it is always whole. Returns whether `access` has changed
        since the last call, or this is the first.
        """
        self._warn_of_expiry(now_us)
        # A user who has been logged in for hours, and loses the connection, must not queue after
        # addresses without a login.
        for user in self._users:
            self._newcomers.seen(user.address)
        before = self._seen
        self._seen = self._stamp()
        is_new = self._seen != before
        # A reload may also fail without a change of the file, for lack of a descriptor: try again.
        if is_new or USERS in self._stale:
            self._replace(USERS, self._with_users, is_logged=is_new)
        known = self._checked_by
        self._checked_by = self.access
        return known is not self.access

    def _warn_of_expiry(self, now_us: int) -> None:
        """Log once a day that the certificate expires soon, or has expired."""
        day = now_us // DAY_US
        tls = self.access.tls
        if tls is None or day == self._warned:
            return
        left = tls.not_after_s * SECOND_US // DAY_US - day
        if left < EXPIRY_DAYS:
            self._warned = day
        # The broker goes on: clients with a pin accept it, and others are connected already.
        if tls.not_after_s * SECOND_US <= now_us:
            logger.error(
                "the certificate ended %d days ago: put another one there, and send SIGHUP; until "
                "then the broker cannot be started again",
                -left,
            )
        elif left < EXPIRY_DAYS:
            logger.warning(
                "the certificate ends in %d days: put another one there, and send SIGHUP", left
            )

    def _with_users(self, folder: Path) -> Access:
        return replace(self.access, users=parsed(folder / USERS, Users.parse, is_secret=True))

    def _replace(
        self, file: str, load: Callable[[Path], Access], *, is_logged: bool = True
    ) -> bool:
        try:
            self.access = load(self._folder)
        except Exception as error:
            if is_logged:
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


def _level(place: Place) -> int:
    """Returns the level of a line about a failure.

    Beyond an allowance, failures may come hundreds of times a second.
    """
    if place.is_beyond:
        return logging.DEBUG
    return logging.INFO
