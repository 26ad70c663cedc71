"""The properties of version 5 that travel with a message, from its publisher to its subscribers.

They are stored as the wire has them: their length, then each. All others are of one hop, such as a
topic alias, and are not stored.
"""

from dataclasses import replace

from zaichik.apps.mqtt.packets import (
    NO_PROPERTIES,
    Malformed,
    Properties,
    decode_properties,
    encode_properties,
)


def stored(properties: Properties) -> bytes:
    """Returns what is stored of a message's properties; b"" if that is nothing."""
    if properties is NO_PROPERTIES:
        return b""
    kept = Properties(
        payload_format_indicator=properties.payload_format_indicator,
        message_expiry_interval=properties.message_expiry_interval,
        content_type=properties.content_type,
        response_topic=properties.response_topic,
        correlation_data=properties.correlation_data,
        user_properties=properties.user_properties,
    )
    if kept == NO_PROPERTIES:
        return b""
    return encode_properties(kept)


def restored(data: bytes) -> Properties:
    """Returns stored properties; none if they cannot be read.

    Whoever may publish to the broker's topic can write any key there. With a topic alias in it, no
    client could take the message, and each would be sent it again whenever it comes back.
    """
    if not data:
        return NO_PROPERTIES
    try:
        properties = decode_properties(data)
    except Malformed:
        return NO_PROPERTIES
    if properties.topic_alias is None and not properties.subscription_identifiers:
        return properties
    return replace(properties, topic_alias=None, subscription_identifiers=())


def as_of(properties: Properties, accepted_s: float, now_s: float) -> Properties | None:
    """Returns a message's properties as a subscriber is told them now; None if it has expired.

    Of the time until the message expires, what is left is told.

    Args:
        properties: as they were published.
        accepted_s: when that was, in seconds since 1970.
        now_s: the time now.
    """
    seconds = properties.message_expiry_interval
    if seconds is None:
        return properties
    left = seconds - int(now_s - accepted_s)
    if left <= 0:
        return None
    return replace(properties, message_expiry_interval=left)
