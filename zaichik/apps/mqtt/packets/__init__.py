"""MQTT's packets as values, for versions 3.1.1 and 5: bytes in, packets out, and back. No I/O.

| file | idea |
| --- | --- |
| `codes` | versions, types of packets, reason codes |
| `errors` | what can be wrong |
| `values` | dataclasses that never change |
| `wire` | how numbers, texts and bytes are written |
| `properties` | the table of version 5's properties |
| `fields` | fields that only one or two packets have |
| `declared` | the fifteen packets, each with its fields: begin here |
| `table` | reads and writes any packet as it is declared |
| `hot` | the same, faster, for the packets that come by the thousand |
| `decoder` | bytes in any pieces in, packets out |
| `encoder` | packets to bytes; one message for many clients |
"""

from zaichik.apps.mqtt.packets.codes import RETURN_CODES as RETURN_CODES
from zaichik.apps.mqtt.packets.codes import PacketType as PacketType
from zaichik.apps.mqtt.packets.codes import ReasonCode as ReasonCode
from zaichik.apps.mqtt.packets.codes import Version as Version
from zaichik.apps.mqtt.packets.declared import Auth as Auth
from zaichik.apps.mqtt.packets.declared import ConnAck as ConnAck
from zaichik.apps.mqtt.packets.declared import Connect as Connect
from zaichik.apps.mqtt.packets.declared import Disconnect as Disconnect
from zaichik.apps.mqtt.packets.declared import Packet as Packet
from zaichik.apps.mqtt.packets.declared import PingReq as PingReq
from zaichik.apps.mqtt.packets.declared import PingResp as PingResp
from zaichik.apps.mqtt.packets.declared import PubAck as PubAck
from zaichik.apps.mqtt.packets.declared import PubComp as PubComp
from zaichik.apps.mqtt.packets.declared import Publish as Publish
from zaichik.apps.mqtt.packets.declared import PubRec as PubRec
from zaichik.apps.mqtt.packets.declared import PubRel as PubRel
from zaichik.apps.mqtt.packets.declared import SubAck as SubAck
from zaichik.apps.mqtt.packets.declared import Subscribe as Subscribe
from zaichik.apps.mqtt.packets.declared import UnsubAck as UnsubAck
from zaichik.apps.mqtt.packets.declared import Unsubscribe as Unsubscribe
from zaichik.apps.mqtt.packets.decoder import PacketDecoder as PacketDecoder
from zaichik.apps.mqtt.packets.encoder import PublishTemplate as PublishTemplate
from zaichik.apps.mqtt.packets.encoder import encode as encode
from zaichik.apps.mqtt.packets.errors import Malformed as Malformed
from zaichik.apps.mqtt.packets.errors import PacketTooLarge as PacketTooLarge
from zaichik.apps.mqtt.packets.errors import Unencodable as Unencodable
from zaichik.apps.mqtt.packets.errors import UnsupportedVersion as UnsupportedVersion
from zaichik.apps.mqtt.packets.fields import Subscription as Subscription
from zaichik.apps.mqtt.packets.fields import Will as Will
from zaichik.apps.mqtt.packets.properties import NO_PROPERTIES as NO_PROPERTIES
from zaichik.apps.mqtt.packets.properties import WILL as WILL
from zaichik.apps.mqtt.packets.properties import Properties as Properties
from zaichik.apps.mqtt.packets.properties import decode_properties as decode_properties
from zaichik.apps.mqtt.packets.properties import encode_properties as encode_properties
