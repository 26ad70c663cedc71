"""Bugs in MQTT's codec and in its filters, each with the test that finds it.

They are slips as those in `planted_slips.py`, in a table of their own.
"""

from planted_slips import Slip

VECTORS = "apps/mqtt/packets/test_packet_vectors.py"
STRICT = "apps/mqtt/packets/test_strictness.py"
ROUND = "apps/mqtt/packets/test_round_trip.py"
FILTERS = "apps/mqtt/test_filters.py"

CODEC_SLIPS = [
    # -- what is read and written --------------------------------------------------------------
    Slip(
        "a length of two bytes has its parts the wrong way round",
        "mqtt.packets.wire:varint",
        "bytes((value & 0x7F | 0x80, value >> 7))",
        "bytes((value >> 7 | 0x80, value & 0x7F))",
        f"{VECTORS}::test_a_length_takes_as_few_bytes_as_it_can",
    ),
    Slip(
        "DUP and retain are taken for each other",
        "mqtt.packets.hot:FLAGS",
        "(2, False, True)",
        "(2, True, False)",
        f"{ROUND}::test_by_hand_the_same_is_read_as_declared_whatever_the_bytes",
    ),
    Slip(
        "a field that is cut off is read from the next packet",
        "mqtt.packets.hot:read_publish",
        "at > end or not topic",
        "not topic",
        f"{STRICT}::test_a_bad_packet_of_a_client_is_refused",
    ),
    Slip(
        "U+0000 passes where it is fast",
        "mqtt.packets.hot:read_publish",
        'not topic or "\\0" in topic',
        "not topic",
        f"{STRICT}::test_a_bad_packet_of_a_client_is_refused",
    ),
    Slip(
        "the flags of a will are lost",
        "mqtt.packets.declared:Connect.of",
        "dataclasses.replace(values['will'], qos=flags.will_qos, retain=flags.will_retain)",
        "values['will']",
        f"{VECTORS}::test_each_connect_has_its_bytes",
    ),
    Slip(
        "of a property that repeats only the last is kept",
        "mqtt.packets.properties:PropertiesOf.read",
        "tuple(repeated)",
        "tuple(repeated[-1:])",
        f"{VECTORS}::test_each_packet_of_a_client_has_its_bytes",
    ),
    Slip(
        "a property may be there twice",
        "mqtt.packets.properties:PropertiesOf.read",
        "row.name in values",
        "False",
        f"{STRICT}::test_a_bad_connect_is_refused",
    ),
    Slip(
        "a packet may have any property",
        "mqtt.packets.properties:PropertiesOf.__init__",
        "{row.number: row for row in self._rows}",
        "{row.number: row for row in TABLE}",
        f"{STRICT}::test_a_bad_connect_is_refused",
    ),
    Slip(
        "a template forgets the packet identifier in the length",
        "mqtt.packets.encoder:PublishTemplate._begin",
        "size += PACKET_ID_BYTES",
        "pass",
        f"{ROUND}::test_a_template_writes_what_the_message_would_be",
    ),
    Slip(
        "all clients get the identifiers of the first",
        "mqtt.packets.encoder:PublishTemplate.encode",
        "(subscription_identifiers or alias) and self._version is Version.MQTT_5",
        "alias and self._version is Version.MQTT_5",
        f"{VECTORS}::test_a_template_has_the_subscription_identifiers_of_each_client",
    ),
    Slip(
        "3.1.1 is told reason codes of version 5",
        "mqtt.packets.fields:ReasonCodeOf.write",
        "version is Version.MQTT_5",
        "True",
        f"{VECTORS}::test_what_3_1_1_does_not_have_is_left_out",
    ),
    # -- what is refused -----------------------------------------------------------------------
    Slip(
        "bytes after the last field pass unnoticed",
        "mqtt.packets.table:_decoded",
        "not body.is_read",
        "False",
        f"{STRICT}::test_a_bad_packet_of_a_client_is_refused",
    ),
    Slip(
        "a second CONNECT begins anew",
        "mqtt.packets.roles:_CLIENTS",
        "PacketType.PINGREQ",
        "PacketType.CONNECT",
        f"{STRICT}::test_a_bad_packet_of_a_client_is_refused",
    ),
    Slip(
        "a large packet is waited for",
        "mqtt.packets.decoder:PacketDecoder._limits",
        "end - at > most",
        "False",
        f"{STRICT}::test_a_packet_that_is_too_large_is_refused_when_its_length_is_there",
    ),
    Slip(
        "packets before a bad one are thrown away",
        "mqtt.packets.decoder:PacketDecoder.feed",
        "error.before = packets",
        "pass",
        f"{STRICT}::test_packets_before_a_bad_one_come_with_it",
    ),
    Slip(
        "a packet in pieces is looked at with each of them",
        "mqtt.packets.decoder:PacketDecoder._read",
        "self._needed = end - at",
        "pass",
        f"{STRICT}::test_a_packet_in_many_pieces_is_looked_at_once",
    ),
    Slip(
        "what does not fit is encoded all the same",
        "mqtt.packets.hot:write_publish",
        "packet.qos and not packet.packet_id",
        "False",
        f"{STRICT}::test_what_cannot_be_written_says_why",
    ),
    # -- filters -------------------------------------------------------------------------------
    Slip(
        "wildcards match the server's own topics",
        "mqtt.filters:FilterTree._search",
        "depth == 0 and level.startswith('$')",
        "False",
        f"{FILTERS}::test_the_standards_examples",
    ),
    Slip(
        "# stands for one level at least",
        "mqtt.filters:FilterTree._search",
        "yield from _values_of(node, '#')",
        "pass",
        f"{FILTERS}::test_the_standards_examples",
        nth=2,
    ),
    Slip(
        "what a filter has matched stays in the cache",
        "mqtt.filters:FilterTree.remove",
        "self._empty_cache()",
        "pass",
        f"{FILTERS}::test_a_topic_that_comes_again_is_not_searched_again",
    ),
    Slip(
        "levels stay when their filters are gone",
        "mqtt.filters:FilterTree.remove",
        "levels and path[-1].is_empty",
        "False",
        f"{FILTERS}::test_levels_go_with_the_last_filter_that_needs_them",
    ),
    Slip(
        "matches are cached without a bound",
        "mqtt.filters:FilterTree._put_in_cache",
        "self._cached + size > self._most_cached",
        "False",
        f"{FILTERS}::test_the_cache_has_a_bound",
    ),
]
