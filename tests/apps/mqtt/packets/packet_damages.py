"""Bytes that are no packet, or one that may not be sent, each with its reason code and rule.

Rules are numbered as in the standards; where the two differ, the version says which is meant.
"""

from zaichik.apps.mqtt.packets import ReasonCode, Version

V3, V5 = Version.MQTT_3_1_1, Version.MQTT_5
MALFORMED = ReasonCode.MALFORMED_PACKET
ERROR = ReasonCode.PROTOCOL_ERROR
VERSION = ReasonCode.UNSUPPORTED_PROTOCOL_VERSION
NAME = "0004 4d515454"

# The first packet of a client.
BAD_CONNECTS = [
    ("the first packet is another (MQTT-3.1.0-1)", "c000", ERROR),
    ("flags in the fixed header (MQTT-2.1.3-1)", f"11 0c {NAME} 04 02 0000 0000", MALFORMED),
    ("another protocol", "10 0c 0004 48545450 04 02 0000 0000", VERSION),
    ("MQTT 3.1", "10 0e 0006 4d5149736470 03 02 0000 0000", VERSION),
    ("level 3 under the new name", f"10 0c {NAME} 03 02 0000 0000", VERSION),
    ("level 6", f"10 0d {NAME} 06 02 0000 00 0000", VERSION),
    ("the reserved flag (MQTT-3.1.2-3)", f"10 0c {NAME} 04 03 0000 0000", MALFORMED),
    (
        "a will with QoS 3 (MQTT-3.1.2-12)",
        f"10 12 {NAME} 04 1e 0000 0001 61 0001 77 0000",
        MALFORMED,
    ),
    ("QoS of no will (MQTT-3.1.2-11)", f"10 0c {NAME} 04 0a 0000 0000", MALFORMED),
    (
        "retain of no will (MQTT-3.1.2-13)",
        f"10 0d {NAME} 05 22 0000 00 0000",
        MALFORMED,
    ),
    (
        "3.1.1: a password without a name (MQTT-3.1.2-22)",
        f"10 0e {NAME} 04 42 0000 0000 0000",
        MALFORMED,
    ),
    (
        "3.1.1: no client identifier, and a session (MQTT-3.1.3-8)",
        f"10 0c {NAME} 04 00 0000 0000",
        ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
    ),
    (
        "a client identifier with U+0000 (MQTT-1.5.4-2)",
        f"10 0d {NAME} 04 02 0000 0001 00",
        MALFORMED,
    ),
    (
        "a client identifier with a surrogate (MQTT-1.5.4-1)",
        f"10 0f {NAME} 04 02 0000 0003 eda080",
        MALFORMED,
    ),
    ("a client identifier that is cut off", f"10 0d {NAME} 04 02 0000 0002 61", MALFORMED),
    ("bytes after the last field", f"10 0d {NAME} 04 02 0000 0000 00", MALFORMED),
    ("no user name where the flag says so", f"10 0c {NAME} 04 82 0000 0000", MALFORMED),
    ("a will's topic that is not UTF-8", f"10 11 {NAME} 04 06 0000 0000 0001 ff 0000", MALFORMED),
    ("5: a property of another packet", f"10 10 {NAME} 05 02 0000 03 23 0001 0000", ERROR),
    ("5: a will's property outside of it", f"10 12 {NAME} 05 02 0000 05 18 00000001 0000", ERROR),
    ("5: receive maximum 0", f"10 10 {NAME} 05 02 0000 03 21 0000 0000", ERROR),
    ("5: maximum packet size 0", f"10 12 {NAME} 05 02 0000 05 27 00000000 0000", ERROR),
    ("5: request problem information 2", f"10 0f {NAME} 05 02 0000 02 17 02 0000", ERROR),
    ("5: request response information 2", f"10 0f {NAME} 05 02 0000 02 19 02 0000", ERROR),
    (
        "5: authentication data without a method",
        f"10 11 {NAME} 05 02 0000 04 16 0001 61 0000",
        ERROR,
    ),
    (
        "5: session expiry interval twice",
        f"10 17 {NAME} 05 02 0000 0a 1100000001 1100000001 0000",
        ERROR,
    ),
    (
        "5: a will's delay twice",
        f"10 1d {NAME} 05 06 0000 00 0000 0a 1800000001 1800000001 0001 77 0000",
        ERROR,
    ),
    ("5: a will's topic alias", f"10 16 {NAME} 05 06 0000 00 0000 03 230001 0001 77 0000", ERROR),
]

# What a client sends after CONNECT.
BAD_OF_CLIENTS = [
    ("a second CONNECT (MQTT-3.1.0-2)", V3, f"10 0c {NAME} 04 02 0000 0000", ERROR),
    ("what a server sends", V3, "d0 00", ERROR),
    ("type 0", V3, "00 00", MALFORMED),
    ("3.1.1: type 15", V3, "f0 00", ERROR),
    ("flags of PUBACK (MQTT-2.1.3-1)", V3, "41 02 0001", MALFORMED),
    ("flags of PUBREL (MQTT-3.6.1-1)", V3, "60 02 0001", MALFORMED),
    ("flags of SUBSCRIBE (MQTT-3.8.1-1)", V3, "80 06 0001 0001 61 00", MALFORMED),
    ("flags of UNSUBSCRIBE (MQTT-3.10.1-1)", V3, "a0 05 0001 0001 61", MALFORMED),
    ("flags of PINGREQ", V3, "c1 00", MALFORMED),
    ("flags of DISCONNECT (MQTT-3.14.1-1)", V3, "e2 00", MALFORMED),
    ("5: flags of AUTH (MQTT-3.15.1-1)", V5, "f1 00", MALFORMED),
    ("a length of five bytes", V3, "30 ffffffff 7f", MALFORMED),
    ("5: a length with a byte too many (MQTT-1.5.5-1)", V5, "c0 80 00", MALFORMED),
    # PUBLISH
    ("QoS 3 (MQTT-3.3.1-4)", V3, "36 05 0001 61 0001", MALFORMED),
    ("DUP with QoS 0 (MQTT-3.3.1-2)", V3, "38 03 0001 61", MALFORMED),
    ("packet identifier 0 (MQTT-2.2.1-3)", V3, "32 05 0001 61 0000", ERROR),
    ("no packet identifier", V3, "32 03 0001 61", MALFORMED),
    ("a topic that is cut off", V3, "30 03 0002 61", MALFORMED),
    ("a topic that is cut off, with a packet after it", V3, "30 03 0002 61 c000", MALFORMED),
    ("half a length of a topic", V3, "30 01 00", MALFORMED),
    ("a topic with U+0000 (MQTT-1.5.4-2)", V3, "30 03 0001 00", MALFORMED),
    ("a topic that is not UTF-8 (MQTT-1.5.4-1)", V3, "30 04 0002 c328", MALFORMED),
    ("a topic with a surrogate (MQTT-1.5.4-1)", V3, "30 05 0003 eda080", MALFORMED),
    ("an overlong topic", V3, "30 04 0002 c080", MALFORMED),
    ("no topic (MQTT-4.7.3-1)", V3, "30 02 0000", ERROR),
    ("5: no topic, and no alias", V5, "30 03 0000 00", ERROR),
    ("5: no length of properties", V5, "30 03 0001 61", MALFORMED),
    ("5: properties after the packet", V5, "30 05 0001 61 02 01", MALFORMED),
    ("5: a property that is cut off", V5, "30 06 0001 61 01 02 61", MALFORMED),
    ("5: a length of properties of five bytes", V5, "30 08 0001 61 ffffffff7f", MALFORMED),
    ("5: a length of properties with a byte too many", V5, "30 05 0001 61 8000", MALFORMED),
    ("5: a property that does not exist", V5, "30 06 0001 61 02 0400", MALFORMED),
    (
        "5: topic alias 0 (MQTT-3.3.2-8)",
        V5,
        "30 07 0001 61 03 230000",
        ReasonCode.TOPIC_ALIAS_INVALID,
    ),
    ("5: topic alias twice", V5, "30 0a 0001 61 06 230001 230001", ERROR),
    ("5: payload format 2", V5, "30 06 0001 61 02 0102", ERROR),
    (
        "5: a response topic with a wildcard (MQTT-3.3.2-14)",
        V5,
        "30 08 0001 61 04 08 0001 23",
        ERROR,
    ),
    ("5: a client's subscription identifier (MQTT-3.3.4-6)", V5, "30 06 0001 61 02 0b01", ERROR),
    # Acknowledgements
    ("packet identifier 0 of PUBACK", V3, "40 02 0000", ERROR),
    ("half a packet identifier", V3, "40 01 01", MALFORMED),
    ("3.1.1: a reason code", V3, "40 03 0001 00", MALFORMED),
    ("5: a reason code of another packet", V5, "40 03 0001 92", ERROR),
    ("5: PUBREL with a code of PUBREC", V5, "62 03 0001 10", ERROR),
    ("5: bytes after the properties", V5, "40 05 0001 00 00 00", MALFORMED),
    ("5: a reason string twice", V5, "40 0c 0001 00 08 1f0001 61 1f0001 61", ERROR),
    # SUBSCRIBE and UNSUBSCRIBE
    ("a SUBSCRIBE without filters (MQTT-3.8.3-2)", V3, "82 02 0001", ERROR),
    ("5: a SUBSCRIBE without filters", V5, "82 03 0001 00", ERROR),
    ("packet identifier 0 of SUBSCRIBE", V3, "82 06 0000 0001 61 00", ERROR),
    ("a filter without options", V3, "82 05 0001 0001 61", MALFORMED),
    ("3.1.1: reserved bits of options (MQTT-3-8.3-4)", V3, "82 06 0001 0001 61 04", MALFORMED),
    ("5: reserved bits of options (MQTT-3.8.3-5)", V5, "82 07 0001 00 0001 61 40", MALFORMED),
    ("3.1.1: QoS 3 of a subscription", V3, "82 06 0001 0001 61 03", ERROR),
    ("5: QoS 3 of a subscription", V5, "82 07 0001 00 0001 61 03", ERROR),
    ("5: retain handling 3", V5, "82 07 0001 00 0001 61 30", ERROR),
    ("5: no local, shared (MQTT-3.8.3-4)", V5, "82 10 0001 00 000a 2473686172652f672f61 04", ERROR),
    ("5: subscription identifier 0", V5, "82 09 0001 02 0b00 0001 61 00", ERROR),
    ("5: subscription identifier twice", V5, "82 0b 0001 04 0b01 0b02 0001 61 00", ERROR),
    ("an UNSUBSCRIBE without filters (MQTT-3.10.3-2)", V3, "a2 02 0001", ERROR),
    ("packet identifier 0 of UNSUBSCRIBE", V3, "a2 05 0000 0001 61", ERROR),
    # The others
    ("bytes in PINGREQ", V3, "c0 01 00", MALFORMED),
    ("3.1.1: bytes in DISCONNECT", V3, "e0 01 00", MALFORMED),
    ("5: a reason code that only SUBACK has", V5, "e0 01 01", ERROR),
    ("5: a client's server reference", V5, "e0 06 9c 04 1c0001 62", ERROR),
    ("5: AUTH with a reason code of another", V5, "f0 02 87 00", ERROR),
    ("5: AUTH without a method", V5, "f0 02 18 00", ERROR),
]

# What a server sends.
BAD_OF_SERVERS = [
    ("what a client sends", V3, "c0 00", ERROR),
    ("reserved flags of CONNACK (MQTT-3.2.2-1)", V3, "20 02 02 00", MALFORMED),
    ("a return code that does not exist", V3, "20 02 00 06", ERROR),
    ("a refusal with a session (MQTT-3.2.2-4)", V3, "20 02 01 05", ERROR),
    ("5: maximum QoS 2", V5, "20 05 00 00 02 2402", ERROR),
    ("3.1.1: a code of SUBACK that does not exist (MQTT-3.9.3-2)", V3, "90 03 0001 03", ERROR),
    ("3.1.1: codes in UNSUBACK", V3, "b0 03 0001 00", MALFORMED),
    ("5: a SUBACK without codes", V5, "90 03 0001 00", ERROR),
    ("5: session expiry in DISCONNECT (MQTT-3.14.2-2)", V5, "e0 07 00 05 1100000001", ERROR),
]
