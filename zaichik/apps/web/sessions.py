"""Logins: a browser has a cookie, the cookie stands for a session, and the session for a hub.

A broker without access control asks for no login; then all pages share one session. Else each
browser logs in with its own credentials, which are kept in memory only, as long as a session uses
them. Browsers with the same credentials share a hub: they may see the same things, and when a token
is removed, all of its sessions end.

To the broker, all these logins come from one address, this program's. The broker counts failed
logins by address, and delays those from where too many came: guesses at the page could keep other
programs on this machine out. So the page has a bucket of its own, half as deep as the broker's, and
answers itself when that is empty. And only one login is tried at a time, because a broker lets only
two passwords of one address wait.
"""

import secrets
from dataclasses import dataclass, field, replace

import anyio
from anyio.abc import TaskGroup
from starlette.exceptions import HTTPException

from zaichik import AuthFailed, Credentials, Endpoint, connect
from zaichik.apps.web.events import Mailbox
from zaichik.apps.web.hub import Hub
from zaichik.apps.web.topics.link import Link
from zaichik.base.clock import MINUTE_US, Clock
from zaichik.server.access.backoff import A_SECOND, FAILURES, Bucket

MOST_SESSIONS = 64
IDLE_US = 30 * MINUTE_US  # a session without a page for this long ends
PUBLISHES = 20  # of a session: at once, and each second after that


class NotLoggedIn(HTTPException):
    """The session could not be made.

    The text is for the person who tries; it says no more than the broker does.
    """


@dataclass(eq=False, slots=True)
class Session:
    """A browser's login, or what all browsers share where nobody logs in.

    Attributes:
        hub: asks the broker for it.
        credentials: what it has logged in with; None without a login.
        link: publishes and reads for it, as its user's programs do.
        pages: the mailboxes of its streams.
        readers: those of the streams that its programs read (see `topics`).
        seen_us: when it last asked for anything.
        publishes: how many messages it may publish now.
    """

    hub: Hub
    credentials: Credentials | None
    seen_us: int
    link: Link
    pages: set[Mailbox] = field(default_factory=set)
    readers: set[Mailbox] = field(default_factory=set)
    publishes: Bucket = field(default_factory=lambda: Bucket(PUBLISHES, PUBLISHES))

    def end(self, text: str, *, login: bool = False) -> None:
        """End its streams."""
        for stream in self.pages | self.readers:
            stream.end(text, login=login)


class Sessions:
    """All of them.

    Args:
        endpoint: the broker; credentials in it are not used.
        tasks: hubs run there.
        clock: the source of time.
        is_reachable: whether other machines can reach the page. Then everybody has to log in.
    """

    def __init__(
        self, endpoint: Endpoint, tasks: TaskGroup, clock: Clock, *, is_reachable: bool
    ) -> None:
        self._endpoint = replace(endpoint, credentials=None)
        self._tasks, self._clock, self._is_reachable = tasks, clock, is_reachable
        self._turn = anyio.Lock()
        self._bearing = anyio.Lock()
        self._failures = Bucket(FAILURES // 2, A_SECOND)
        self._sessions: dict[str, Session] = {}
        self._anybody: Session | None = None

    async def anybody(self) -> Session | None:
        """Returns the session of browsers without a login.

        None if the broker or the page requires one.
        """
        if self._is_reachable:
            return None
        if self._anybody is None:
            self._anybody = self._session(None)
        hub = self._anybody.hub
        await hub.settled.wait()
        # A hub that was refused is not asked again: that counts as a failed login.
        return None if hub.refused else self._anybody

    def of(self, cookie: str) -> Session | None:
        """Returns the session that a cookie stands for; None if there is none, or it has ended."""
        self.drop_idle()
        if session := self._sessions.get(cookie):
            session.seen_us = self._clock.now_us()
        return session

    async def log_in(self, credentials: Credentials) -> tuple[str, Session]:
        """Returns a new session and its cookie.

        Raises:
            NotLoggedIn: there is none.
            ZaichikError: the broker does not answer, or does not want another connection.
        """
        self.drop_idle()
        if len(self._sessions) >= MOST_SESSIONS:
            raise NotLoggedIn(
                503, f"{MOST_SESSIONS} browsers are logged in, which is the limit; log out in one"
            )
        async with self._turn:
            user = await self._try(replace(self._endpoint, credentials=credentials))
        session = self._session(credentials)
        # The hub may not be connected yet, and a program's keys and names are those of its user.
        session.hub.user = user
        cookie = secrets.token_urlsafe(32)
        self._sessions[cookie] = session
        return cookie, session

    async def bearing(self, token: str) -> Session:
        """Returns the session of a program, which sends its token with each request.

        Raises:
            NotLoggedIn: there is none.
            ZaichikError: the broker does not answer, or does not want another connection.
        """
        credentials = Credentials("", token)
        self.drop_idle()
        session = self._known(credentials)
        if session is None:
            # A program that begins with many requests at once logs in with one of them.
            async with self._bearing:
                session = self._known(credentials)
                if session is None:
                    _, session = await self.log_in(credentials)
        session.seen_us = self._clock.now_us()
        await session.hub.settled.wait()
        return session

    def _known(self, credentials: Credentials) -> Session | None:
        for session in self._sessions.values():
            if session.credentials == credentials:
                return session
        return None

    async def _try(self, endpoint: Endpoint) -> str:
        """Returns the user's name at the broker.

        Raises:
            NotLoggedIn, ZaichikError: see `log_in`.
        """
        if self._failures.wait_us(self._clock.now_us()):
            raise NotLoggedIn(
                429, "too many logins have failed here; wait a few seconds and try again"
            )
        try:
            async with connect(endpoint, name="zaichik web", reconnect=0) as client:
                user = str((await client.describe()).get("user", ""))
        except AuthFailed as error:
            self._failures.take(self._clock.now_us())
            raise NotLoggedIn(403, error.message) from None
        if not user and self._is_reachable:
            raise NotLoggedIn(
                403,
                "the broker asks nobody to log in, so this page would show it to everyone who can "
                "reach this machine; "
                "start the page at 127.0.0.1, or with --insecure",
            )
        return user

    def log_out(self, cookie: str, text: str = "logged out") -> None:
        """End a session, its streams, and the hub and its connections, if nobody else uses them."""
        if session := self._sessions.pop(cookie, None):
            session.end(text, login=True)
            if all(other.hub is not session.hub for other in self._sessions.values()):
                session.hub.scope.cancel()
                session.link.close()

    def pages(self) -> int:
        """Returns how many streams there are."""
        return sum(len(session.pages) for session in self._all())

    def end(self, text: str) -> None:
        """End all streams."""
        for session in self._all():
            session.end(text)

    def _all(self) -> list[Session]:
        return [*self._sessions.values(), *([self._anybody] if self._anybody else [])]

    def drop_idle(self) -> None:
        """End sessions that were idle for too long, or whose login the broker no longer accepts."""
        now_us = self._clock.now_us()
        for cookie, session in list(self._sessions.items()):
            if session.pages or session.readers:
                session.seen_us = now_us
            if now_us - session.seen_us > IDLE_US or session.hub.refused:
                self.log_out(cookie, "the login has ended")

    def _session(self, credentials: Credentials | None) -> Session:
        """Returns a new session, which shares the connections of others with these credentials."""
        now_us = self._clock.now_us()
        if credentials is not None and (known := self._known(credentials)):
            return Session(known.hub, credentials, now_us, known.link)
        endpoint = replace(self._endpoint, credentials=credentials)
        hub = Hub(endpoint, self._turn)
        self._tasks.start_soon(hub.run)
        return Session(hub, credentials, now_us, Link(endpoint, self._tasks, self._turn))
