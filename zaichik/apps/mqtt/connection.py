"""One connection of an MQTT client: bytes to packets and back, deadlines, and how it ends.

    receive ──▶ PacketDecoder ──▶ Conversation ──▶ the broker
    the broker ──▶ tail ──▶ Delivery ──▶ Output ──▶ the client

A connection holds one incomplete packet, one output of 64 KiB, and what is in flight (G-4). Before
it is closed over an error, the client is told why, if its version has words for that (G-10).
"""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import anyio
from anyio.abc import TaskGroup

from zaichik import AuthFailed, BrokerError, ZaichikError
from zaichik.apps.gateways.strangers import speaks
from zaichik.apps.gateways.traffic import Traffic
from zaichik.apps.mqtt.conversation import Conversation
from zaichik.apps.mqtt.ending import Ending
from zaichik.apps.mqtt.logins import Login
from zaichik.apps.mqtt.opening import check, opened
from zaichik.apps.mqtt.output import Output
from zaichik.apps.mqtt.packets import (
    ConnAck,
    Connect,
    Disconnect,
    Malformed,
    Packet,
    PacketDecoder,
    PacketType,
    ReasonCode,
    UnsupportedVersion,
    Version,
    encode,
)
from zaichik.apps.mqtt.publisher import reason_of
from zaichik.apps.mqtt.state import State
from zaichik.apps.users.connections import TooManyFailures
from zaichik.apps.users.credentials import NotALogin
from zaichik.net.background import BackgroundTasks
from zaichik.net.stream import GONE, Stream

logger = logging.getLogger("zaichik.mqtt.connection")

RECEIVE_BYTES = 64 * 1024
CONNECT_US = 5_000_000
GOODBYE_SECONDS = 1.0

LEFT = (anyio.EndOfStream, *GONE)


class Connection:
    """A connection of a client.

    Args:
        state: of the gateway.
        stream: the connection, which is closed when `run` returns.
        peer: the client's address, for the log.
        traffic: what is received and sent is counted there.

    Attributes:
        client: what the client calls itself; "" until it has said so.
        released: set when another connection may have the session.
    """

    def __init__(self, state: State, stream: Stream, peer: str, traffic: Traffic) -> None:
        self.client = ""
        self.released = anyio.Event()
        self._state = state
        self._stream = stream
        self._peer = peer
        self._traffic = traffic
        self._output = Output(stream, traffic)
        self._decoder = PacketDecoder(state.most_packet)
        self._receiving = anyio.CancelScope()
        self._ending: Ending | None = None
        # Until CONNECT has come; then by keep-alive. 0: for ever.
        self._patience_us = CONNECT_US
        self._heard_us = state.now_us()
        # What has come is carried out before more is read: the silence then is not the client's.
        self._is_listening = True

    # -- from outside ----------------------------------------------------------------------------

    def check_silence(self, now_us: int) -> None:
        """End the connection if its client has been silent for too long (MQ-14)."""
        if not self._is_listening:
            self._heard_us = now_us
        elif self._patience_us and now_us - self._heard_us > self._patience_us:
            self.give_up(ReasonCode.KEEP_ALIVE_TIMEOUT, "it was silent for too long")

    def give_up(self, code: ReasonCode, text: str) -> None:
        """End the connection, as soon as what has come is carried out."""
        if self._ending is None:
            self._ending = Ending(code, text)
        self._receiving.cancel()

    async def take_over(self) -> None:
        """Returns when the connection has given its session up, for another connection."""
        self.give_up(ReasonCode.SESSION_TAKEN_OVER, "another connection has taken its session")
        await self.released.wait()

    # -- from CONNECT to the end -----------------------------------------------------------------

    async def run(self) -> str:
        """Converse until either side ends it; returns the reason, for the log."""
        try:
            async with self._stream, BackgroundTasks() as tasks:
                tasks.group.start_soon(self._output.run)
                try:
                    reason = await self._serve(tasks.group)
                except Ending as error:
                    reason = str(error)
                    await self._say_goodbye(error)
                except LEFT:
                    reason = "it has left"
                except ZaichikError as error:
                    reason = str(error)
                    await self._say_goodbye(Ending(ReasonCode.SERVER_BUSY, reason))
                except anyio.get_cancelled_exc_class():
                    self._say_so_at_once(ReasonCode.SERVER_SHUTTING_DOWN)
                    raise
        finally:
            self._output.close()
            self.released.set()
        return reason

    async def _serve(self, tasks: TaskGroup) -> str:
        """Returns when the client has said goodbye.

        Raises:
            Ending: the gateway ends the connection.
            EndOfStream, BrokenResourceError, ClosedResourceError: it is gone.
        """
        connect, packets = await self._connect()
        try:
            async with self._logged_in(connect) as login:
                tasks.start_soon(self._end_with, login)
                conversation = await self._begin(connect, login, tasks)
                try:
                    return await self._converse(conversation, packets)
                finally:
                    with anyio.CancelScope(shield=True):
                        await conversation.end()
                    self.released.set()
        finally:
            # What follows is only the goodbye.
            self._patience_us = 0

    async def _connect(self) -> tuple[Connect, list[Packet]]:
        """Returns the first packet, and those that came with it."""
        packets = await self._receive()
        while not packets:
            packets = await self._receive()
        connect = packets[0]
        if not isinstance(connect, Connect):
            raise Ending(ReasonCode.PROTOCOL_ERROR, "it did not begin with CONNECT")
        self.client = connect.client_id
        self._patience_us = connect.keep_alive * 1_500_000
        return connect, packets[1:]

    @asynccontextmanager
    async def _logged_in(self, connect: Connect) -> AsyncIterator[Login]:
        """Returns the connection to the broker that a client uses."""
        using = self._state.logins.using(connect.username, connect.password, self._peer)
        async with AsyncExitStack() as stack:
            try:
                login = await stack.enter_async_context(using)
            except NotALogin as error:
                raise self._refused(ReasonCode.NOT_AUTHORIZED, str(error)) from None
            except AuthFailed as error:
                raise self._refused(ReasonCode.BAD_USER_NAME_OR_PASSWORD, str(error)) from None
            except TooManyFailures as error:
                raise self._refused(ReasonCode.CONNECTION_RATE_EXCEEDED, str(error)) from None
            except ZaichikError as error:
                raise self._refused(ReasonCode.SERVER_UNAVAILABLE, str(error)) from None
            yield login

    async def _end_with(self, login: Login) -> None:
        """End the connection with its user's, which may have ended because the login has.

        Messages reach a client over the gateway's own connection, so nothing else would end it.
        """
        await login.lost.wait()
        self.give_up(ReasonCode.NOT_AUTHORIZED, "its user's connection to the broker has ended")

    async def _begin(self, connect: Connect, login: Login, tasks: TaskGroup) -> Conversation:
        """Returns the conversation with a client whose CONNECT was answered well."""
        try:
            await check(self._state, connect, login)
            return await opened(self._state, connect, login, self, self._output, tasks)
        except Ending as error:
            raise self._refused(error.code, str(error)) from None
        except BrokerError as error:
            raise self._refused(reason_of(error), str(error)) from None

    def _refused(self, code: ReasonCode, text: str) -> Ending:
        """Returns the end of a connection whose CONNECT is answered with that code."""
        self._output.write(encode(ConnAck(reason_code=code), self._version))
        return Ending(code, text, is_told=True)

    @property
    def _version(self) -> Version:
        """The version of the protocol; before CONNECT, the one that has words for errors."""
        return self._decoder.version or Version.MQTT_5

    # -- packets ---------------------------------------------------------------------------------

    async def _converse(self, conversation: Conversation, packets: list[Packet]) -> str:
        while True:
            self._is_listening = False
            await conversation.carry_out(packets)
            self._is_listening = True
            if conversation.is_over:
                return "as it asked"
            packets = await self._receive()

    async def _receive(self) -> list[Packet]:
        """Returns the packets that have come.

        Raises:
            Ending: what comes is no packet, or the connection was given up.
        """
        data = b""
        if self._ending is None:
            with anyio.CancelScope() as self._receiving:
                # What a client is to be answered is bounded by what it reads.
                await self._output.has_room()
                data = await self._stream.receive(RECEIVE_BYTES)
        if self._ending is not None:
            raise self._ending
        self._heard_us = self._state.now_us()
        self._traffic.received_bytes += len(data)
        try:
            return self._decoder.feed(data)
        except Malformed as error:
            # What is complete before it counts.
            self._ending = self._foreign(data) or self._malformed(error)
            return error.before

    def _foreign(self, data: bytes) -> Ending | None:
        """Returns the end of a connection that begins with another protocol; None if it doesn't."""
        if self._traffic.received_bytes > len(data):
            return None
        foreign = speaks(data, "MQTT")
        if not foreign:
            return None
        # What it is told by MQTT's packets it would not understand.
        return Ending(ReasonCode.PROTOCOL_ERROR, f"it speaks {foreign}", is_told=True)

    def _malformed(self, error: Malformed) -> Ending:
        if isinstance(error, UnsupportedVersion):
            self._output.write(error.answer)
            return Ending(error.reason_code, error.text, is_told=True)
        if error.packet_type is PacketType.CONNECT:
            return self._refused(error.reason_code, error.text)
        return Ending(error.reason_code, error.text)

    def _say_so_at_once(self, code: ReasonCode) -> None:
        if self._decoder.version is Version.MQTT_5:
            self._output.write(encode(Disconnect(code), Version.MQTT_5))
        self._output.flush()

    async def _say_goodbye(self, ending: Ending) -> None:
        """Say why, end the stream, and wait a moment for the client to do the same (G-10).

        Closing a socket with unread bytes resets the connection, and the client may lose what it
        has not read yet.
        """
        if self._decoder.version is Version.MQTT_5 and not ending.is_told:
            self._output.write(encode(Disconnect(ending.code), Version.MQTT_5))
        with suppress(*LEFT), anyio.move_on_after(GOODBYE_SECONDS):
            await self._output.emptied()
            await self._stream.send_eof()
            while True:
                await self._stream.receive(RECEIVE_BYTES)
