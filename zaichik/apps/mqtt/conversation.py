"""What a connected client says, and what it is answered: each packet after CONNECT."""

import logging
from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup

from zaichik import ZaichikError
from zaichik.apps.mqtt.delivery import Delivery
from zaichik.apps.mqtt.ending import Ending
from zaichik.apps.mqtt.filters import topic_problem
from zaichik.apps.mqtt.logins import Login
from zaichik.apps.mqtt.output import Output
from zaichik.apps.mqtt.packets import (
    Auth,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
    Version,
    encode,
)
from zaichik.apps.mqtt.publisher import Outgoing, reason_of
from zaichik.apps.mqtt.receipts import Receipts
from zaichik.apps.mqtt.session import Session
from zaichik.apps.mqtt.state import State
from zaichik.apps.mqtt.subscribing import Granted, granted
from zaichik.apps.mqtt.window import MOST_MESSAGES
from zaichik.base.escapes import shown

logger = logging.getLogger("zaichik.mqtt.conversation")


class Conversation:
    """A session that is connected.

    Args:
        state: of the gateway.
        login: the client's connection to the broker.
        session: the client's session.
        delivery: what sends to it.
        output: takes the answers.
        version: of the protocol.
        tasks: end with the connection.

    Attributes:
        session: see above.
        is_over: whether the client has said goodbye.
        give_up: ends the connection, with a reason for the client and one for the log.
    """

    def __init__(
        self,
        state: State,
        login: Login,
        session: Session,
        delivery: Delivery,
        output: Output,
        version: Version,
        tasks: TaskGroup,
    ) -> None:
        self.session = session
        self.is_over = False
        self.give_up: Callable[[ReasonCode, str], None] = lambda _code, _text: None
        self._state = state
        self._login = login
        self._delivery = delivery
        self._output = output
        self._version = version
        self._tasks = tasks
        # Whether its will is to be published when the connection ends.
        self._has_will = True
        self._receipts = Receipts(self._acknowledge, output.flush, self._not_replicated)

    def begin(self) -> None:
        """Send what an earlier connection has left in flight, and all that has come since."""
        delivery = self._delivery
        self._state.attend(delivery, self._tasks)
        self._tasks.start_soon(self._receipts.run)
        self._output.on_room = self._pump
        self.session.delivery = delivery
        delivery.resume()
        for group in self._state.sessions.groups_of(self.session):
            group.connected(self.session)
        self._pump()

    def _pump(self) -> None:
        """Send what there is room for, and what groups could give to others meanwhile."""
        self._delivery.pump()
        self._state.flush()

    async def end(self) -> None:
        """Leave everything as it is to be while the client is away."""
        session = self.session
        state = self._state
        session.delivery = None
        session.left_us = state.now_us()
        for group in state.sessions.groups_of(session):
            group.left(session)
        state.flush()
        try:
            if not state.is_over:
                await self._store_end()
        except ZaichikError as error:
            logger.warning("the end of a session could not be stored: %s", error)
        finally:
            # Until now, another connection with the session waits: it must not be ended under it.
            state.connected.pop(session.id, None)

    async def _store_end(self) -> None:
        session = self.session
        state = self._state
        if self._has_will:
            state.wills.broken_off(session.id, session.expiry_s)
        else:
            await state.wills.revoke(session.id)
        if session.is_kept:
            await state.sessions.keep(session)
        else:
            await state.sessions.end(session)
        await state.wills.publish_due()

    # -- packets ---------------------------------------------------------------------------------

    async def carry_out(self, packets: list[Packet]) -> None:
        """Carry out these, in their order; messages that follow each other are stored together.

        Raises:
            Ending: the connection must end.
        """
        messages: list[Publish] = []
        for packet in packets:
            if isinstance(packet, Publish):
                messages.append(packet)
                continue
            if messages:
                await self._publish(messages)
                messages = []
            await self._carry_out(packet)
            if self.is_over:
                return
        if messages:
            await self._publish(messages)
        # There may be room now.
        self._pump()

    async def _carry_out(self, packet: Packet) -> None:
        match packet:
            case PubAck():
                self._delivery.settled(packet.packet_id)
            case PubComp():
                self._delivery.completed(packet.packet_id)
            case PubRec():
                self._delivery.received(packet.packet_id, packet.reason_code)
            case PubRel():
                self._delivery.released(packet.packet_id)
            case PingReq():
                self._answer(PingResp())
            case Subscribe():
                await self._subscribe(packet)
            case Unsubscribe():
                await self._unsubscribe(packet)
            case Disconnect():
                self._disconnect(packet)
            case Auth():
                raise Ending(ReasonCode.PROTOCOL_ERROR, "it sent AUTH, which is not offered")

    def _answer(self, packet: Packet) -> None:
        self._output.write(encode(packet, self._version))

    def _disconnect(self, packet: Disconnect) -> None:
        expiry_s = packet.properties.session_expiry_interval
        if expiry_s is not None:
            if expiry_s and not self.session.is_kept:
                text = "it wants its session kept, and had said that it does not"
                raise Ending(ReasonCode.PROTOCOL_ERROR, text)
            self.session.expiry_s = expiry_s
        self._has_will = packet.reason_code != ReasonCode.NORMAL_DISCONNECTION
        self.is_over = True

    # -- messages from the client ----------------------------------------------------------------

    async def _publish(self, messages: list[Publish]) -> None:
        """Store messages, then acknowledge them (G-3).

        Raises:
            Ending: one of them ends the connection; those before it are acknowledged.
        """
        await self._receipts.has_room()
        fresh: list[Publish] = []
        ending: Ending | None = None
        for number, message in enumerate(messages):
            try:
                if self._is_fresh(message):
                    fresh.append(message)
            except Ending as error:
                # What came before it counts.
                ending = error
                messages = messages[:number]
                break
        try:
            with anyio.CancelScope(shield=True):
                stored = await self._stored(fresh)
        except ZaichikError:
            # They may be stored or not: the client sends them again.
            self.session.received -= {message.packet_id for message in fresh}
            raise
        self._output.traffic.received_messages += len(fresh)
        for message in messages:
            item = stored.get(id(message))
            # One of QoS 0 that was stored has no answer.
            if message.qos or item is None or item.code.is_failure:
                self._answer_for(message, item)
        if ending is not None:
            raise ending

    def _is_fresh(self, message: Publish) -> bool:
        """Returns whether a message is to be stored: not if it is one of QoS 2 that was (MQ-6)."""
        if message.properties.topic_alias is not None:
            raise Ending(ReasonCode.TOPIC_ALIAS_INVALID, "it used a topic alias")
        problem = topic_problem(message.topic)
        if problem is not None:
            raise Ending(ReasonCode.TOPIC_NAME_INVALID, f"it published to no topic: {problem}")
        if message.qos < 2:
            return True
        received = self.session.received
        if message.packet_id in received:
            return False
        if len(received) >= MOST_MESSAGES and self._version is Version.MQTT_5:
            text = f"it has more than {MOST_MESSAGES} messages of QoS 2 unreleased"
            raise Ending(ReasonCode.RECEIVE_MAXIMUM_EXCEEDED, text)
        received.add(message.packet_id)
        return True

    async def _stored(self, messages: list[Publish]) -> dict[int, Outgoing]:
        """Returns how it went, by the object's identity."""
        if not messages:
            return {}
        publisher = self._state.publisher
        stored: dict[int, Outgoing] = {}
        allowed: list[Publish] = []
        for message in messages:
            if not message.retain or await self._may_retain(message):
                allowed.append(message)
            else:
                stored[id(message)] = Outgoing(message, "", b"", ReasonCode.NOT_AUTHORIZED)
        for item in await publisher.store(self._login.client, allowed, self.session.id.text):
            stored[id(item.message)] = item
        return stored

    def _answer_for(self, message: Publish, item: Outgoing | None) -> None:
        """Acknowledge a message, when that may be.

        Args:
            message: the message.
            item: how it went; None: it is one of QoS 2 that was stored before.
        """
        if item is None:
            waits = self.session.unreplicated.get(message.packet_id)
            self._receipts.add(message, ReasonCode.SUCCESS, waits)
            return
        if not item.is_replicable and self._knows_one_answer(message):
            return
        if message.qos == 2 and item.acknowledgement is not None:
            # It may be sent again before it is replicated.
            self.session.unreplicated[message.packet_id] = item.acknowledgement
        self._receipts.add(message, item.code, item.acknowledgement)

    def _not_replicated(self, message: Publish, error: ZaichikError) -> ReasonCode | None:
        """Returns the code for a message that is not replicated; None: it gets no answer."""
        logger.warning("a message to '%s' is not acknowledged: %s", shown(message.topic), error)
        if self._knows_one_answer(message):
            return None
        return reason_of(error)

    def _knows_one_answer(self, message: Publish) -> bool:
        """End the connection if the client would take any answer for replicated.

        Returns whether it would: those of version 3.1.1 know no other.
        """
        if not message.qos or self._version is not Version.MQTT_3_1_1:
            return False
        # It is to be stored when it comes again.
        self.session.received.discard(message.packet_id)
        self.session.unreplicated.pop(message.packet_id, None)
        text = "its message is not replicated, and it has no word for that"
        self.give_up(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, text)
        return True

    async def _may_retain(self, message: Publish) -> bool:
        """Returns whether a message may be retained.

        The broker would not say it: the table of retained messages is the gateway's own.
        """
        space = self._state.spaces.space_of(message.topic)
        return await self._state.rights.may_publish(self._login, space)

    def _acknowledge(self, message: Publish, code: ReasonCode) -> None:
        if message.qos == 2:
            self.session.unreplicated.pop(message.packet_id, None)
        if code.is_failure:
            self._output.traffic.refused_messages += 1
            if message.qos == 2:
                self.session.received.discard(message.packet_id)
            if self._version is Version.MQTT_3_1_1 or not message.qos:
                self._state.counters.refused += 1
                code = ReasonCode.SUCCESS
        if message.qos == 1:
            self._answer(PubAck(message.packet_id, code))
        elif message.qos:
            self._answer(PubRec(message.packet_id, code))

    # -- filters ---------------------------------------------------------------------------------

    async def _subscribe(self, packet: Subscribe) -> None:
        outcome: Granted = await granted(self._state, self._login, self.session, packet)
        if self.session.is_kept:
            await self._state.sessions.keep(self.session)
        self._answer(SubAck(packet.packet_id, outcome.codes))
        for one in outcome.retained:
            messages = self._state.retained.matching(
                one.topic_filter, one.subscription, self._state.spaces
            )
            self._delivery.send_retained(one.subscription, messages)

    async def _unsubscribe(self, packet: Unsubscribe) -> None:
        codes: list[ReasonCode] = []
        for text in packet.filters:
            code = ReasonCode.NO_SUBSCRIPTION_EXISTED
            if await self._state.sessions.unsubscribe(self.session, text):
                code = ReasonCode.SUCCESS
            codes.append(code)
        if self.session.is_kept:
            await self._state.sessions.keep(self.session)
        self._answer(UnsubAck(packet.packet_id, tuple(codes)))
