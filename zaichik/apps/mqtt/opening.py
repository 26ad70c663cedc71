"""CONNECT: whether a client may connect, its session, its will, and the answer."""

import secrets
from typing import TYPE_CHECKING

from anyio.abc import TaskGroup

from zaichik.apps.mqtt.conversation import Conversation
from zaichik.apps.mqtt.delivery import Delivery
from zaichik.apps.mqtt.ending import Ending
from zaichik.apps.mqtt.filters import topic_problem
from zaichik.apps.mqtt.logins import Login
from zaichik.apps.mqtt.output import Output
from zaichik.apps.mqtt.packets import (
    NO_PROPERTIES,
    ConnAck,
    Connect,
    Properties,
    Publish,
    ReasonCode,
    Version,
    encode,
)
from zaichik.apps.mqtt.session import NEVER, Session, SessionId
from zaichik.apps.mqtt.state import State
from zaichik.apps.mqtt.wills import Will
from zaichik.apps.mqtt.window import MOST_MESSAGES

if TYPE_CHECKING:
    from zaichik.apps.mqtt.connection import Connection

# A row of the table of sessions has it as its key, after the user's name.
MOST_CLIENT_ID_BYTES = 512
# Without a limit of its own, a client is taken at its word that it can read any packet.
ANY_SIZE = 256 * 1024 * 1024


async def check(state: State, connect: Connect, login: Login) -> None:
    """Refuse what cannot be served.

    Raises:
        Ending: why.
    """
    if connect.properties.authentication_method is not None:
        text = "it wants to authenticate in a way that is not offered"
        raise Ending(ReasonCode.BAD_AUTHENTICATION_METHOD, text)
    if len(connect.client_id.encode()) > MOST_CLIENT_ID_BYTES:
        text = f"its client identifier is longer than {MOST_CLIENT_ID_BYTES} bytes"
        raise Ending(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, text)
    if connect.will is not None:
        await _check_will(state, _will_message(connect), login)


async def _check_will(state: State, message: Publish, login: Login) -> None:
    """The topic of a will is judged now, for later nobody could be told (MQ-11)."""
    problem = topic_problem(message.topic)
    if problem is not None:
        raise Ending(ReasonCode.TOPIC_NAME_INVALID, f"its will: {problem}")
    outgoing = state.publisher.outgoing(message)
    if outgoing.code.is_failure:
        raise Ending(outgoing.code, "its will cannot be published to that topic")
    if not await state.rights.may_publish(login, outgoing.space):
        raise Ending(ReasonCode.NOT_AUTHORIZED, "it may not publish its will")


def _will_message(connect: Connect) -> Publish:
    will = connect.will
    if will is None:
        raise ValueError("there is no will")
    return Publish(
        will.topic, will.payload, qos=will.qos, retain=will.retain, properties=will.properties
    )


async def opened(
    state: State,
    connect: Connect,
    login: Login,
    connection: "Connection",
    output: Output,
    tasks: TaskGroup,
) -> Conversation:
    """Returns the conversation with a client, once its CONNECT is answered.

    What must outlive the gateway is stored before that (MQ-8, MQ-11).

    Args:
        state: of the gateway.
        connect: the client's first packet.
        login: the client's connection to the broker.
        connection: what the client is connected by.
        output: takes the bytes for the client.
        tasks: end with the connection.
    """
    name = SessionId(connect.client_id or f"auto-{secrets.token_hex(8)}", login.user)
    async with state.sessions.opening(name):
        other = state.connected.get(name)
        if other is not None:
            await other.take_over()
        session, is_present = await state.sessions.open(name, is_clean=connect.clean_start)
        try:
            await _prepare(state, connect, session)
        except BaseException:
            # It is as if the client had left, and as if a new session had never begun.
            session.left_us = state.now_us()
            if not is_present:
                del state.sessions.all[name]
            raise
        conversation = _conversation(state, connect, login, session, output, tasks)
        conversation.give_up = connection.give_up
        state.connected[name] = connection
        output.write(encode(_answer(state, connect, name, is_present=is_present), connect.version))
        conversation.begin()
    return conversation


async def _prepare(state: State, connect: Connect, session: Session) -> None:
    """Have a session be as its client wants it, and store what must outlive the gateway."""
    session.expiry_s = _expiry_s(connect)
    session.window.most = MOST_MESSAGES
    if connect.properties.receive_maximum is not None:
        session.window.most = min(MOST_MESSAGES, connect.properties.receive_maximum)
    # A will that waited for its time, if a session has ended here.
    await state.wills.publish_due()
    will = None
    if connect.will is not None:
        will = Will(_will_message(connect), connect.will.properties.will_delay_interval or 0)
    # The will comes last: a client that is refused leaves none.
    if session.is_kept:
        await state.sessions.keep(session)
    await state.wills.leave(session.id, will)


def _conversation(
    state: State,
    connect: Connect,
    login: Login,
    session: Session,
    output: Output,
    tasks: TaskGroup,
) -> Conversation:
    delivery = Delivery(
        session,
        output,
        connect.version,
        connect.properties.maximum_packet_size or ANY_SIZE,
        state.tails,
        state.now_us,
        state.counters,
        connect.properties.topic_alias_maximum or 0,
    )
    return Conversation(state, login, session, delivery, output, connect.version, tasks)


def _expiry_s(connect: Connect) -> int:
    """Returns for how many seconds the session outlives its connection."""
    if connect.version is Version.MQTT_5:
        return connect.properties.session_expiry_interval or 0
    if connect.clean_start:
        return 0
    return NEVER


def _answer(state: State, connect: Connect, name: SessionId, *, is_present: bool) -> ConnAck:
    """Returns CONNACK: it says what is not offered, and the limits (MQ-15)."""
    properties = NO_PROPERTIES
    if connect.version is Version.MQTT_5:
        assigned = None
        if not connect.client_id:
            assigned = name.client_id
        properties = Properties(
            assigned_client_identifier=assigned,
            receive_maximum=MOST_MESSAGES,
            maximum_packet_size=state.most_packet,
        )
    return ConnAck(session_present=is_present, properties=properties)
