"""Packets and their bytes, written by hand from the standards' own examples and tables.

Spaces stand between fields. The packets of `CLIENTS` come from a client, which has sent CONNECT;
those of `SERVERS` from a server.
"""

from zaichik.apps.mqtt.packets import (
    WILL,
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    PacketType,
    PingReq,
    PingResp,
    Properties,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    SubAck,
    Subscribe,
    Subscription,
    UnsubAck,
    Unsubscribe,
    Version,
    Will,
)

V3, V5 = Version.MQTT_3_1_1, Version.MQTT_5

CONNECTS = [
    (V3, "10 0c  0004 4d515454 04 02 0000  0000", Connect(V3)),
    # Figure 3.6: user name, password, will with QoS 1, clean session, keep alive 10.
    (
        V3,
        "10 1f  0004 4d515454 04 ce 000a  0001 61  0003 772f31 0002 6869  0002 6d65 0003 70a500",
        Connect(
            V3,
            "a",
            keep_alive=10,
            will=Will("w/1", b"hi", qos=1),
            username="me",
            password=b"\x70\xa5\0",
        ),
    ),
    (
        V3,
        "10 12  0004 4d515454 04 34 ffff  0001 61  0001 77 0000",
        Connect(V3, "a", clean_start=False, keep_alive=65535, will=Will("w", b"", 2, retain=True)),
    ),
    (
        V3,
        "10 12  0004 4d515454 04 06 0000  0001 61  0001 77 0000",
        Connect(V3, "a", will=Will("w", b"")),
    ),
    # Figure 1.4: a text of A and U+2A6D4.
    (
        V3,
        "10 11  0004 4d515454 04 00 0000  0005 41f0aa9b94",
        Connect(V3, "A\U0002a6d4", clean_start=False),
    ),
    (V5, "10 0d  0004 4d515454 05 02 0000 00  0000", Connect(V5)),
    # Figure 3.7: session expiry interval 10. A password without a name, as version 5 has it.
    (
        V5,
        "10 15  0004 4d515454 05 42 000a 05 11 0000000a  0000  0001 ff",
        Connect(
            V5,
            keep_alive=10,
            password=b"\xff",
            properties=Properties(session_expiry_interval=10),
        ),
    ),
    (
        V5,
        "10 1f  0004 4d515454 05 0e 0000 00  0001 61  0a 03 0002 6373 18 00000005  0001 77 0001 70",
        Connect(
            V5,
            "a",
            will=Will(
                "w",
                b"p",
                qos=1,
                properties=Properties(will_delay_interval=5, content_type="cs"),
            ),
        ),
    ),
]

CLIENTS = [
    (V3, "30 03  0001 61", Publish("a")),
    # Figure 3.11: topic a/b, packet identifier 10.
    (V3, "32 09  0003 612f62 000a  6869", Publish("a/b", b"hi", qos=1, packet_id=10)),
    (V3, "3d 05  0001 61 ffff", Publish("a", b"", 2, retain=True, dup=True, packet_id=65535)),
    (V3, "31 04  0001 61  00", Publish("a", b"\0", retain=True)),
    (V3, "40 02  0001", PubAck(1)),
    (V3, "50 02  0002", PubRec(2)),
    (V3, "62 02  0003", PubRel(3)),
    (V3, "70 02  ffff", PubComp(65535)),
    # Figure 3.23: a/b with QoS 1, c/d with QoS 2.
    (
        V3,
        "82 0e  000a  0003 612f62 01  0003 632f64 02",
        Subscribe(10, (Subscription("a/b", 1), Subscription("c/d", 2))),
    ),
    # Figure 3.30.
    (V3, "a2 0c  000a  0003 612f62  0003 632f64", Unsubscribe(10, ("a/b", "c/d"))),
    (V3, "c0 00", PingReq()),
    (V3, "e0 00", Disconnect()),
    (V5, "30 04  0001 61 00", Publish("a")),
    (
        V5,
        "32 0e  0001 61 000a 07 01 01 02 00000001  79",
        Publish(
            "a",
            b"y",
            qos=1,
            packet_id=10,
            properties=Properties(payload_format_indicator=1, message_expiry_interval=1),
        ),
    ),
    (V5, "30 06  0000 03 23 0007", Publish("", properties=Properties(topic_alias=7))),
    (
        V5,
        "30 12  0001 61 0e 26 0001 6b 0001 76 26 0001 6b 0001 77",
        Publish("a", properties=Properties(user_properties=(("k", "v"), ("k", "w")))),
    ),
    (V5, "40 02  0001", PubAck(1)),
    (V5, "40 03  0001 10", PubAck(1, ReasonCode.NO_MATCHING_SUBSCRIBERS)),
    (
        V5,
        "50 08  0001 97 04 1f 0001 78",
        PubRec(1, ReasonCode.QUOTA_EXCEEDED, Properties(reason_string="x")),
    ),
    (V5, "62 03  0001 92", PubRel(1, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)),
    (V5, "70 02  0001", PubComp(1)),
    # Figure 3.21, and what version 5 can ask for.
    (
        V5,
        "82 0f  000a 00  0003 612f62 01  0003 632f64 02",
        Subscribe(10, (Subscription("a/b", 1), Subscription("c/d", 2))),
    ),
    (
        V5,
        "82 0a  0001 03 0b 8001  0001 23 2d",
        Subscribe(
            1,
            (Subscription("#", 1, no_local=True, retain_as_published=True, retain_handling=2),),
            Properties(subscription_identifiers=(128,)),
        ),
    ),
    (V5, "a2 0d  000a 00  0003 612f62  0003 632f64", Unsubscribe(10, ("a/b", "c/d"))),
    (V5, "c0 00", PingReq()),
    (V5, "e0 00", Disconnect()),
    (V5, "e0 01  04", Disconnect(ReasonCode.DISCONNECT_WITH_WILL)),
    (
        V5,
        "e0 07  00 05 11 ffffffff",
        Disconnect(properties=Properties(session_expiry_interval=0xFFFF_FFFF)),
    ),
    (
        V5,
        "f0 06  19 04 15 0001 6d",
        Auth(ReasonCode.RE_AUTHENTICATE, Properties(authentication_method="m")),
    ),
    (V5, "f0 00", Auth()),
]

SERVERS = [
    (V3, "20 02  00 00", ConnAck()),
    (V3, "20 02  01 00", ConnAck(session_present=True)),
    (V3, "20 02  00 01", ConnAck(reason_code=ReasonCode.UNSUPPORTED_PROTOCOL_VERSION)),
    (V3, "20 02  00 02", ConnAck(reason_code=ReasonCode.CLIENT_IDENTIFIER_NOT_VALID)),
    (V3, "20 02  00 03", ConnAck(reason_code=ReasonCode.SERVER_UNAVAILABLE)),
    (V3, "20 02  00 04", ConnAck(reason_code=ReasonCode.BAD_USER_NAME_OR_PASSWORD)),
    (V3, "20 02  00 05", ConnAck(reason_code=ReasonCode.NOT_AUTHORIZED)),
    # Figure 3.26.
    (
        V3,
        "90 05  000a 00 02 80",
        SubAck(
            10,
            (
                ReasonCode.GRANTED_QOS_0,
                ReasonCode.GRANTED_QOS_2,
                ReasonCode.UNSPECIFIED_ERROR,
            ),
        ),
    ),
    (V3, "b0 02  000a", UnsubAck(10)),
    (V3, "d0 00", PingResp()),
    (V5, "20 03  00 00 00", ConnAck()),
    (
        V5,
        "20 0e  01 00 0b 21 0100 22 0000 27 00010000",
        ConnAck(
            session_present=True,
            properties=Properties(
                receive_maximum=256, topic_alias_maximum=0, maximum_packet_size=65536
            ),
        ),
    ),
    (
        V5,
        "20 0b  00 00 08 24 01 25 00 28 00 2a 00",
        ConnAck(
            properties=Properties(
                maximum_qos=1,
                retain_available=False,
                wildcard_subscription_available=False,
                shared_subscription_available=False,
            )
        ),
    ),
    (
        V5,
        "30 09  0001 61 05 0b 01 0b 8001",
        Publish("a", properties=Properties(subscription_identifiers=(1, 128))),
    ),
    (V5, "90 05  000a 00 01 87", SubAck(10, (ReasonCode.GRANTED_QOS_1, ReasonCode.NOT_AUTHORIZED))),
    (
        V5,
        "b0 05  000a 00 00 11",
        UnsubAck(10, (ReasonCode.SUCCESS, ReasonCode.NO_SUBSCRIPTION_EXISTED)),
    ),
    (V5, "d0 00", PingResp()),
    (V5, "e0 01  8e", Disconnect(ReasonCode.SESSION_TAKEN_OVER)),
    (
        V5,
        "e0 06  9c 04 1c 0001 62",
        Disconnect(ReasonCode.USE_ANOTHER_SERVER, Properties(server_reference="b")),
    ),
]

# Bytes that say the same in more words than ours do.
WORDIER = [
    (V5, "40 03  0001 00", PubAck(1)),
    (V5, "40 04  0001 00 00", PubAck(1)),
    (V5, "e0 01  00", Disconnect()),
    (V5, "e0 02  00 00", Disconnect()),
    (V5, "f0 02  00 00", Auth()),
    (V3, "c0 80 00", PingReq()),  # version 5 has forbidden that
    (V3, "30 83 00  0001 61", Publish("a")),
]

# Properties alone, as a gateway keeps them: whose, their bytes, and they.
PROPERTIES = [
    (PacketType.PUBLISH, "00", Properties()),
    (PacketType.PUBLISH, "04 08 0001 72", Properties(response_topic="r")),
    (PacketType.PUBLISH, "04 09 0001 ff", Properties(correlation_data=b"\xff")),
    (WILL, "05 18 00000001", Properties(will_delay_interval=1)),
]
